"""The runs of a database and the results of one state, for a person to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.records.engine import sql
from dojoir.records.queries import evaluations, of_row
from dojoir.records.schema import builds, kernels, runs, states
from dojoir.records.state import State

if TYPE_CHECKING:
    from dojoir.records.database import Database

LEAST = 4
"""How many digits of a hash name a state at least."""


@dataclass(frozen=True)
class RunSummary:
    """A run: its name and kernel, when it began and ended (seconds since 1970), why it stopped, how many of its
    states ended with each status, the number of the state that is its answer and how many moves that has, and its
    settings. What an unfinished run has not yet is None."""

    name: str
    kernel: str
    begun: float
    ended: float | None
    stopped: str | None
    statuses: Mapping[str, int]
    best: int | None
    moves: int | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data; `best` is the number of the state."""
        return {**vars(self), "statuses": dict(self.statuses), "settings": dict(self.settings)}

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.begun).strftime("%Y-%m-%d %H:%M")
        count = sum(self.statuses.values())
        ended = "not ended" if self.ended is None else f"{self.moves or 0} moves, {self.stopped}"
        return f"{self.name:<32}  {when}  {self.kernel:<20} {count:6} states  {ended}"


def run_summaries(database: Database, kernel: str | None = None) -> list[RunSummary]:
    """The runs of a database, those that began last first; with `kernel`, of a kernel by its name or hash."""
    chosen = (
        sql.select(runs, kernels.c.name.label("of"), states.c.length)
        .join(kernels, kernels.c.id == runs.c.kernel)
        .outerjoin(states, states.c.id == runs.c.best)
        .order_by(runs.c.begun.desc(), runs.c.id.desc())
    )
    if kernel is not None:
        chosen = chosen.where(sql.or_(kernels.c.name == kernel, kernels.c.hash == kernel))
    counted = sql.select(builds.c.run, builds.c.status, sql.func.count()).group_by(builds.c.run, builds.c.status)
    with database.reading() as connection:
        rows = connection.execute(chosen).all()
        statuses: dict[int | None, dict[str, int]] = {}
        for run, status, count in connection.execute(counted.order_by(builds.c.status)):
            statuses.setdefault(run, {})[status] = int(count)
    return [
        RunSummary(
            row.name, row.of, row.begun, row.ended, row.stopped, statuses.get(row.id, {}), row.best, row.length,
            json.loads(row.settings),
        )
        for row in rows
    ]  # fmt: skip


def find_state(database: Database, hash: str) -> int:
    """The number of the state whose hash begins so, or of `RUN:NUMBER`, the one that a run evaluated as the first,
    second, … Raises ArgumentError, `unknown-state`, where there is none, or the hashes of several begin so."""
    run, colon, number = hash.rpartition(":")
    if colon and number.isdecimal():
        evaluated = database.results(run)
        if not 1 <= int(number) <= len(evaluated):
            raise dojoir.ArgumentError(f"the run {run} has states 1 to {len(evaluated)}", "unknown-state")
        return evaluated[int(number) - 1].number
    if len(hash) < LEAST or set(hash) - set("0123456789abcdef"):
        raise dojoir.ArgumentError(
            f"'{hash}' names no state: write {LEAST} digits of its hash or more, as dojoir db top shows them",
            "unknown-state",
        )
    chosen = sql.select(states.c.id, states.c.hash).where(states.c.hash.startswith(hash)).order_by(states.c.length)
    with database.reading() as connection:
        found = connection.execute(chosen).all()
    several = sorted({row.hash for row in found})
    if not several:
        raise dojoir.ArgumentError(
            f"the database has no state {hash}: dojoir db top lists the fastest", "unknown-state"
        )
    if len(several) > 1:
        known = ", ".join(one[:12] for one in several[:4])
        raise dojoir.ArgumentError(f"several states begin with {hash}: {known}", "unknown-state")
    return int(found[0].id)


def state_results(database: Database, state: int) -> list[State]:
    """Every evaluation of a state by its number, in the order in which they were written."""
    with database.reading() as connection:
        rows = connection.execute(evaluations().where(builds.c.state == state).order_by(builds.c.id))
        return [of_row(row) for row in rows]
