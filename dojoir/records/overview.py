"""The runs of a database and the results of one state, for a person to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.records.engine import sql
from dojoir.records.schema import builds, contexts, kernels, machines, measurements, runs, states, verifications
from dojoir.support.seconds import format_seconds

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


@dataclass(frozen=True)
class StateResult:
    """One evaluation of a state: its status, the reason of a failure, seconds with their interval where it was
    timed, how many cases were verified, where it ran, the run it is of, and whether it was read in from
    elsewhere."""

    status: str
    reason: str
    seconds: float | None
    low: float | None
    high: float | None
    cases: int | None
    machine: str
    target: str
    sizes: str
    threads: int
    protocol: str
    run: str | None
    imported: bool

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return dict(vars(self))

    def __str__(self) -> str:
        time = ""
        if self.seconds is not None:
            low, high = (format_seconds(one) for one in (self.low or 0, self.high or 0))
            time = f"{format_seconds(self.seconds)} ({low} to {high}), "
        cases = f"{self.cases} cases verified, " if self.cases else ""
        where = f"{self.machine} {self.target}, {self.threads} threads, {self.sizes}, {self.protocol}"
        told = f"{', read in' * self.imported}{f', run {self.run}' if self.run else ''}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.status}{reason}: {time}{cases}{where}{told}"


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
    """The number of the state whose hash begins so. Raises ArgumentError, `unknown-state`, where there is none, or
    the hashes of several begin so."""
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


def state_results(database: Database, state: int) -> list[StateResult]:
    """Every evaluation of a state by its number, in the order in which they were written."""
    chosen = (
        sql.select(
            builds.c.status, builds.c.reason, measurements.c.seconds, measurements.c.low, measurements.c.high,
            verifications.c.cases, machines.c.name, contexts.c.target, contexts.c.sizes, contexts.c.threads,
            contexts.c.protocol, runs.c.name.label("run"), builds.c.imported,
        )
        .join(contexts, contexts.c.id == builds.c.context)
        .join(machines, machines.c.id == contexts.c.machine)
        .outerjoin(measurements, measurements.c.build == builds.c.id)
        .outerjoin(verifications, verifications.c.build == builds.c.id)
        .outerjoin(runs, runs.c.id == builds.c.run)
        .where(builds.c.state == state)
        .order_by(builds.c.id)
    )  # fmt: skip
    with database.reading() as connection:
        rows = connection.execute(chosen).all()
    return [
        StateResult(
            row.status, row.reason, row.seconds, row.low, row.high, row.cases, row.name, row.target, row.sizes,
            row.threads, row.protocol, row.run, bool(row.imported),
        )
        for row in rows
    ]  # fmt: skip
