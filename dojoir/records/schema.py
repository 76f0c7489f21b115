"""The tables, and how a database of an older version becomes one of this.

`meta` holds the version. A migration is a step from one version to the next, made in one transaction, so that a
process that is killed leaves the old version or the new one. A database of a version that is newer than this code
is refused: it may hold what this code would read wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import dojoir
from dojoir.records.engine import sql

VERSION = 4
"""The version of the tables below. A change of them raises it and adds a step to MIGRATIONS."""

TABLES = sql.MetaData()


def _table(name: str, *columns: sql.Column[Any] | sql.Index | sql.UniqueConstraint) -> sql.Table:
    """A table with a number for each row."""
    return sql.Table(name, TABLES, sql.Column("id", sql.Integer, primary_key=True), *columns)


meta = sql.Table(
    "meta",
    TABLES,
    sql.Column("name", sql.String(40), primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)

machines = _table(
    "machines",
    sql.Column("digest", sql.String(32), nullable=False, unique=True),
    sql.Column("name", sql.Text, nullable=False),
    sql.Column("facts", sql.Text, nullable=False),
)

kernels = _table(
    "kernels",
    sql.Column("hash", sql.String(64), nullable=False, unique=True),
    sql.Column("name", sql.String(200), nullable=False, index=True),
    sql.Column("text", sql.Text, nullable=False),
)

states = _table(
    "states",
    sql.Column("kernel", sql.ForeignKey("kernels.id"), nullable=False),
    sql.Column("hash", sql.String(64), nullable=False),
    sql.Column("parent", sql.ForeignKey("states.id"), nullable=True, index=True),
    sql.Column("move", sql.Text, nullable=True),
    sql.Column("length", sql.Integer, nullable=False),
    sql.Column("choice", sql.Text, nullable=True),
    sql.UniqueConstraint("kernel", "hash"),
)
"""A state is a kernel with moves: its parent, and the move from there; the kernel itself has neither. `choice` is
the line of a planner that made the last moves to it."""

contexts = _table(
    "contexts",
    sql.Column("digest", sql.String(32), nullable=False, unique=True),
    sql.Column("kernel", sql.ForeignKey("kernels.id"), nullable=False, index=True),
    sql.Column("machine", sql.ForeignKey("machines.id"), nullable=False),
    sql.Column("target", sql.String(100), nullable=False),
    sql.Column("sizes", sql.Text, nullable=False),
    sql.Column("threads", sql.Integer, nullable=False),
    sql.Column("protocol", sql.Text, nullable=False),
    sql.Column("versions", sql.Text, nullable=False),
)
"""The context that must agree before two times may be compared."""

runs = _table(
    "runs",
    sql.Column("name", sql.String(64), nullable=False, unique=True),
    sql.Column("kernel", sql.ForeignKey("kernels.id"), nullable=False),
    sql.Column("settings", sql.Text, nullable=False),
    sql.Column("begun", sql.Float, nullable=False),
    sql.Column("ended", sql.Float, nullable=True),
    sql.Column("stopped", sql.Text, nullable=True),
    sql.Column("best", sql.ForeignKey("states.id"), nullable=True),
)

builds = _table(
    "builds",
    sql.Column("state", sql.ForeignKey("states.id"), nullable=False),
    sql.Column("context", sql.ForeignKey("contexts.id"), nullable=False),
    sql.Column("digest", sql.String(128), nullable=False),
    sql.Column("status", sql.String(20), nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("stages", sql.Text, nullable=False),
    sql.Column("run", sql.ForeignKey("runs.id"), nullable=True),
    sql.Column("made", sql.Float, nullable=False),
    sql.Column("imported", sql.Integer, nullable=False, server_default="0"),
    sql.Index("builds_of_a_state", "state", "context"),
    sql.Index("builds_of_a_run", "run", "id"),
    sql.Index("builds_of_a_digest", "digest"),
)
"""Every evaluation has one row here, in the order in which they were written. What was read in from elsewhere is
`imported` (1): a hint, and no result."""

verifications = _table(
    "verifications",
    sql.Column("build", sql.ForeignKey("builds.id"), nullable=False, unique=True),
    sql.Column("cases", sql.Integer, nullable=False),
)
"""That what was built gave the right results in so many cases, itself or as the same machine code of another state
of its kernel: without a row here nothing is ever reused."""

measurements = _table(
    "measurements",
    sql.Column("build", sql.ForeignKey("builds.id"), nullable=False, unique=True),
    sql.Column("state", sql.ForeignKey("states.id"), nullable=False, index=True),
    sql.Column("context", sql.ForeignKey("contexts.id"), nullable=False),
    sql.Column("seconds", sql.Float, nullable=False),
    sql.Column("low", sql.Float, nullable=False),
    sql.Column("high", sql.Float, nullable=False),
    sql.Column("samples", sql.Text, nullable=False),
    sql.Index("measurements_by_speed", "context", "seconds"),
)
"""The time of a build that was verified, timed to its end."""

draws = _table(
    "draws",
    sql.Column("run", sql.ForeignKey("runs.id"), nullable=False),
    sql.Column("state", sql.ForeignKey("states.id"), nullable=False),
    sql.Column("move", sql.Text, nullable=False),
    sql.Column("verdict", sql.String(40), nullable=False),
    sql.Column("listed", sql.Integer, nullable=False, server_default="0"),
    sql.Index("draws_of_a_run", "run", "state"),
)
"""The moves that a run drew at a state, each move once, with its verdict: `legal`, the code of a refusal, or
`refused` where none is known. Those of a full list of what is legal are `listed` (1)."""

Step = Callable[[sql.Connection], None]


def _to_2(connection: sql.Connection) -> None:
    """Tells what was read in from what was timed here; what has the machine code of what was verified, is."""
    connection.exec_driver_sql("alter table builds add column imported integer not null default 0")
    connection.exec_driver_sql("create index builds_of_a_digest on builds (digest)")
    connection.exec_driver_sql(
        "insert into verifications (build, cases) "
        "select one.id, max(right_.cases) from builds one "
        "join contexts its on its.id = one.context "
        "join builds other on other.digest = one.digest "
        "join contexts others on others.id = other.context and others.kernel = its.kernel "
        "join verifications right_ on right_.build = other.id "
        "where one.digest <> '' and one.status in ('ok', 'cut') "
        "and not exists (select 1 from verifications own where own.build = one.id) group by one.id"
    )


def _to_3(connection: sql.Connection) -> None:
    """Keeps what was drawn and not tried, too."""
    draws.create(connection, checkfirst=True)


def _to_4(connection: sql.Connection) -> None:
    """Says by what choice the moves to a state were made."""
    connection.exec_driver_sql("alter table states add column choice text")


MIGRATIONS: Mapping[int, Step] = {1: _to_2, 2: _to_3, 3: _to_4}
"""From a version to the next one."""

_VERSION = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def prepare(connection: sql.Connection, name: str) -> None:
    """Makes the tables where there are none, or those of an older version those of this one. Raises ArgumentError,
    `newer-database`, for a version that this code does not know, `bad-database` for one that is none."""
    if not sql.inspect(connection).has_table(meta.name):
        if sql.inspect(connection).get_table_names():
            raise dojoir.ArgumentError(
                f"{name} is a database of something else: name one of dojoir's, or a new one", "bad-database"
            )
        TABLES.create_all(connection)
        connection.execute(meta.insert().values(name="version", value=str(VERSION)))
        return
    found = connection.execute(sql.select(meta.c.value).where(meta.c.name == "version")).scalar()
    if found is None:
        raise dojoir.ArgumentError(f"{name} does not say its version: it is no database of dojoir", "bad-database")
    if not _VERSION.fullmatch(str(found)):
        raise dojoir.ArgumentError(
            f"{name} says that it is of version {str(found)[:40]!r}, which is none: it is broken; take a copy from "
            f"before",
            "bad-database",
        )
    version = int(found)
    if version > VERSION:
        raise dojoir.ArgumentError(
            f"{name} is of version {version}; this dojoir knows up to {VERSION}: update dojoir, or name another "
            f"database",
            "newer-database",
        )
    while version < VERSION:
        MIGRATIONS[version](connection)
        version += 1
    connection.execute(meta.update().where(meta.c.name == "version").values(value=str(version)))
