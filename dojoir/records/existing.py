"""A database that is only read: no new file is made of a name that was mistyped."""

from __future__ import annotations

import os

import dojoir
from dojoir.records.database import VARIABLE, Database


def existing(name: str | None) -> Database:
    """The database of a name, or of the variable DOJOIR_DB. Raises ArgumentError, `no-database`, for a file of
    SQLite that is not there."""
    given = name or os.environ.get(VARIABLE) or ""
    path = given.removeprefix("sqlite:///")
    if path and "://" not in path and not os.path.exists(path):
        raise dojoir.ArgumentError(
            f"there is no database {path}; dojoir tune --db {path} begins one", "no-database"
        )
    return Database(name)
