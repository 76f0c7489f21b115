"""The part of a database that functions beside it use: transactions, and the rows of kernels, states and runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import dojoir
from dojoir.records.engine import sql


class Reads(Protocol):
    """A database that is read, by its transactions."""

    def reading(self) -> AbstractContextManager[sql.Connection]:
        """A transaction that reads."""

    def run_row(self, connection: sql.Connection, run: str) -> int:
        """The number of a run. Raises ArgumentError, `unknown-run`."""


class Writes(Reads, Protocol):
    """A database that is written too."""

    def writing(self) -> AbstractContextManager[sql.Connection]:
        """A transaction that writes."""

    def kernel_row(self, connection: sql.Connection, kernel: dojoir.Kernel) -> int:
        """The number of a kernel, which is written if it is new."""

    def chain_rows(self, connection: sql.Connection, kernel: int, chain: list[tuple[str, str | None]]) -> int:
        """The number of the last of a chain of states: the hash of each, and the move to it."""
