"""Looking after a database: is all of it true still, and what is not needed any more."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import dojoir
from dojoir.records.contexts import STATIC
from dojoir.records.database import VARIABLE, Database
from dojoir.records.engine import sql
from dojoir.records.queries import evaluations, of_row
from dojoir.records.schema import (
    TABLES,
    builds,
    contexts,
    draws,
    kernels,
    machines,
    measurements,
    runs,
    states,
    verifications,
)
from dojoir.support.public import Count, public


@dataclass
class CheckedStates:
    """The outcome of a check: the number of states that were proved again, and the errors."""

    states: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        head = f"{self.states} states proved again, {'nothing' if self.ok else len(self.wrong)} wrong"
        return "\n".join([head, *self.wrong])


def check(database: Database, progress: Callable[[int], None] | None = None) -> CheckedStates:
    """Holds a database to what it says: the file is whole, every kernel has its hash, every move is proved again
    and leads where it should, what was timed was verified, and times are those of their samples. Raises RunError
    where it cannot be read."""
    found = CheckedStates()
    with database.reading() as connection:
        if connection.dialect.name == "sqlite":
            found.wrong += [
                f"the file is damaged: {row[0]}"
                for row in connection.exec_driver_sql("PRAGMA integrity_check")
                if row[0] != "ok"
            ]
            found.wrong += [
                f"a row of {row[0]} hangs on one of {row[2]} that is not there"
                for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
            ]
        unverified = connection.execute(
            sql.select(sql.func.count())
            .select_from(
                measurements.join(contexts, contexts.c.id == measurements.c.context).outerjoin(
                    verifications, verifications.c.build == measurements.c.build
                )
            )
            .where(verifications.c.id.is_(None), contexts.c.protocol != STATIC)
        ).scalar_one()
        if unverified:
            found.wrong.append(f"{unverified} times are of what was not verified")
        for one in map(of_row, connection.execute(evaluations())):
            found.wrong += [f"state {one.hash[:12]}: {one.unfounded}"] if one.unfounded else []
        for kernel in connection.execute(sql.select(kernels)).all():
            _check_kernel(connection, kernel.id, kernel.hash, kernel.text, found, progress)
    return found


def _check_kernel(
    connection: sql.Connection,
    number: int,
    hash: str,
    text: str,
    found: CheckedStates,
    progress: Callable[[int], None] | None,
) -> None:
    """Walks the states of a kernel from the root, so that only those on the way are held."""
    try:
        root = dojoir.parse(text)
        dojoir.prove(root)
    except dojoir.DojoError as error:
        found.wrong.append(f"kernel {hash[:12]}: {error.diagnostic.message}")
        return
    if root.hash != hash:
        found.wrong.append(f"kernel {hash[:12]}: its text has another hash")
        return
    rows = connection.execute(
        sql.select(states.c.id, states.c.parent, states.c.move, states.c.hash).where(states.c.kernel == number)
    ).all()
    children: dict[int | None, list[tuple[int, str | None, str]]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append((row.id, row.move, row.hash))
    away = {row.id: row.hash for row in rows}
    open_: list[tuple[int | None, dojoir.Kernel]] = [(None, root)]
    while open_:
        parent, before = open_.pop()
        for state, move, wanted in children.get(parent, ()):
            del away[state]
            try:
                after = before if move is None else dojoir.apply(before, move)
            except dojoir.DojoError as error:
                found.wrong.append(f"state {wanted[:12]}: {move}: {error.diagnostic.message}")
                _leave_out(state, children, away)
                continue
            if after.hash != wanted:
                found.wrong.append(f"state {wanted[:12]}: {move} leads to another kernel")
                _leave_out(state, children, away)
                continue
            found.states += 1
            if progress is not None:
                progress(found.states)
            if state in children:
                open_.append((state, after))
    if away:
        first = next(iter(away.values()))
        found.wrong.append(
            f"kernel {hash[:12]}: no way leads to {len(away)} of its states, such as {first[:12]}: the states "
            f"before them go in a circle, or are of another kernel"
        )


def _leave_out(
    state: int, children: Mapping[int | None, Sequence[tuple[int, str | None, str]]], away: dict[int, str]
) -> None:
    """Leaves out what hangs on a state that is wrong: that is told of it alone."""
    open_ = [state]
    while open_:
        for below, _, _ in children.get(open_.pop(), ()):
            if away.pop(below, None) is not None:
                open_.append(below)


@public
def prune(database: Database, keep: Count = 100) -> dict[str, int]:
    """Leaves of each context the `keep` fastest results, the states on the way to them and what runs ended with,
    and takes out the rest; gives how many rows went from each table. Raises ArgumentError for a number below 1."""
    before = database.stats()
    with database.writing() as connection:
        kept: set[int] = set()
        for (context,) in connection.execute(sql.select(contexts.c.id)).all():
            fastest = (
                sql.select(measurements.c.build)
                .where(measurements.c.context == context)
                .order_by(measurements.c.seconds)
                .limit(keep)
            )
            kept |= set(connection.execute(fastest).scalars())
        for build in set(connection.execute(sql.select(builds.c.id)).scalars()) - kept:
            connection.execute(measurements.delete().where(measurements.c.build == build))
            connection.execute(verifications.delete().where(verifications.c.build == build))
            connection.execute(builds.delete().where(builds.c.id == build))
        _prune_states(connection)
        used = sql.select(builds.c.context)
        connection.execute(contexts.delete().where(contexts.c.id.not_in(used)))
        connection.execute(machines.delete().where(machines.c.id.not_in(sql.select(contexts.c.machine))))
    database.forget()
    after = database.stats()
    return {
        table.name: before[table.name] - after[table.name] for table in TABLES.sorted_tables if table.name in after
    }


def _prune_states(connection: sql.Connection) -> None:
    """Takes out the states that nothing hangs on: from the longest, as their parents may go after them."""
    needed: set[int] = set(connection.execute(sql.select(builds.c.state)).scalars())
    needed |= {state for state in connection.execute(sql.select(runs.c.best)).scalars() if state is not None}
    rows = connection.execute(
        sql.select(states.c.id, states.c.parent, states.c.length).order_by(states.c.id.desc())
    ).all()
    for row in rows:  # a parent has a smaller number than its children
        if row.id in needed and row.parent is not None:
            needed.add(row.parent)
    for row in rows:
        if row.id not in needed and row.length:
            connection.execute(draws.delete().where(draws.c.state == row.id))
            connection.execute(states.delete().where(states.c.id == row.id))


def existing(name: str | None) -> Database:
    """The database of a name, or of the variable DOJOIR_DB, for who reads: no file is made of a name that was
    mistyped. Raises ArgumentError, `no-database`, for a file of SQLite that is not there."""
    path = (name or os.environ.get(VARIABLE) or "").removeprefix("sqlite:///")
    if path and "://" not in path and not os.path.exists(path):
        message = f"there is no database {path}; dojoir tune --db {path} begins one"
        raise dojoir.ArgumentError(message, "no-database")
    return Database(name)
