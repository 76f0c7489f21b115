"""How a database is opened, and what is told where it fails.

SQLite is used with a write-ahead log, so that readers do not wait for a writer, and writes to the disk at the end
of each transaction. A transaction that writes takes the lock of the file at its beginning and waits for others.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import dojoir

try:
    import sqlalchemy as sql
except ImportError:
    raise dojoir.ToolchainError(
        "a database needs SQLAlchemy: pip install 'dojoir[agents]'", "missing-package"
    ) from None

BUSY_SECONDS = 60.0
"""How long a writer waits for another one."""


def url_of(given: str | os.PathLike[str]) -> sql.URL:
    """A URL, or the path of a file of SQLite. Raises ArgumentError, `bad-database`, for what is neither of SQLite
    nor of PostgreSQL."""
    text = os.fspath(given)
    if "://" not in text:
        return sql.URL.create("sqlite", database=text)
    try:
        url = sql.make_url(text)
    except sql.exc.ArgumentError:
        raise dojoir.ArgumentError(
            f"{_shown(text)} is no URL of a database: write sqlite:///FILE or postgresql://HOST/NAME",
            "bad-database",
        ) from None
    kind = url.get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise dojoir.ArgumentError(
            f"a database is of SQLite or PostgreSQL, not of {kind}: write sqlite:///FILE or postgresql://HOST/NAME",
            "bad-database",
        )
    return url.set(drivername="postgresql+psycopg") if kind == "postgresql" else url


def _shown(text: str) -> str:
    """A URL for a message, without its password."""
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def opened(url: sql.URL) -> sql.Engine:
    """The connection to a database. Raises ToolchainError, `missing-package`, without its driver."""
    if url.get_backend_name() == "sqlite":
        engine = sql.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        sql.event.listen(engine, "connect", _set_up_sqlite)
        sql.event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return sql.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 20})
    except ImportError:
        raise dojoir.ToolchainError(
            "PostgreSQL needs its driver: pip install 'dojoir[db]'", "missing-package"
        ) from None


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    if cursor.execute("PRAGMA query_only").fetchone()[0] == 0:
        with contextlib.suppress(Exception):  # a file that may only be read stays as it is
            cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: sql.Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """Turns the error of a driver, for a database that fails or whose bytes are no text any more, into a RunError
    of dojoir, `database-lost`."""
    try:
        yield
    except (sql.exc.SQLAlchemyError, UnicodeDecodeError, json.JSONDecodeError) as error:
        inner = getattr(error, "orig", None) or error
        damaged = not isinstance(error, sql.exc.SQLAlchemyError)
        reason = f"it is damaged: {inner}" if damaged else " ".join(str(inner).split())
        raise dojoir.RunError(f"the database {name} failed: {reason}", "database-lost") from None


__all__ = ["BUSY_SECONDS", "opened", "sql", "told", "url_of"]
