"""The queries on a database: every evaluation, the fastest states, and the way to one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records.contexts import STATIC, Context, Sizes, here
from dojoir.records.engine import sql
from dojoir.records.schema import builds, contexts, kernels, machines, measurements, runs, states, verifications
from dojoir.records.state import State, from_lists

MOST = 20
"""How many of the fastest are tried: the moves of some may not be legal any more."""


def ranked(
    connection: sql.Connection,
    kernel: dojoir.Kernel,
    target: str,
    sizes: Sizes | None,
    threads: int | None,
    *,
    protocol: str | None,
    than: str | None,
) -> list[int]:
    """The fastest states in the context that is asked for; with `than`, the hash of a state, those that are faster
    than that was there."""
    each: Sequence[Mapping[str, int]] = [sizes or {}] if sizes is None or isinstance(sizes, Mapping) else sizes
    if any(name not in one for one in each for name in kernel.runtime_sizes):
        return []
    row = connection.execute(sql.select(kernels.c.id).where(kernels.c.hash == kernel.hash)).scalar()
    if row is None:
        return []
    context = _context(connection, kernel, row, (target, sizes, threads), protocol)
    if context is None:
        return []
    timed = _timed(context, verified=protocol != STATIC)
    chosen = timed.order_by(measurements.c.seconds)
    if than is not None:
        against = next(_founded(connection.execute(timed.where(states.c.hash == than))), None)
        if against is None:
            return []
        chosen = chosen.where(measurements.c.seconds < against.seconds, states.c.hash != than)
    return list(dict.fromkeys(one.number for one in islice(_founded(connection.execute(chosen)), MOST)))


def _founded(rows: Iterable[Any]) -> Iterator[State]:
    """The states of some rows, of those whose times follow from their samples: one that was edited is none."""
    return (one for one in map(of_row, rows) if not one.unfounded)


def _context(
    connection: sql.Connection,
    kernel: dojoir.Kernel,
    row: int,
    at: tuple[str, Sizes | None, int | None],
    protocol: str | None,
) -> int | None:
    """The number of the context of this machine; where no protocol is named, that of the one first used last."""
    protocols = connection.execute(
        sql.select(contexts.c.protocol).where(contexts.c.kernel == row).distinct()
    ).scalars()
    wanted = [protocol] if protocol is not None else [one for one in protocols if one != STATIC]
    digests = [here(*at, one, kernel).digest_for(kernel.hash) for one in wanted]
    return connection.execute(
        sql.select(sql.func.max(contexts.c.id))
        .join(builds, builds.c.context == contexts.c.id)
        .where(contexts.c.digest.in_(digests), builds.c.imported == 0)
    ).scalar()


def _timed(context: int, verified: bool) -> sql.Select[Any]:
    """The states that were timed here in a context, with their seconds; those that were verified, or all."""
    chosen = evaluations().where(measurements.c.context == context, builds.c.imported == 0)
    return chosen.where(verifications.c.cases.is_not(None)) if verified else chosen


def fastest(connection: sql.Connection, kernel: str | None, count: int, target: str | None) -> list[State]:
    """The fastest states of a kernel by its name or hash, of all by default: the first `count` of each context,
    contexts in the order of their best."""
    chosen = sql.select(contexts.c.id).join(kernels, kernels.c.id == contexts.c.kernel)
    if kernel is not None:
        chosen = chosen.where(sql.or_(kernels.c.name == kernel, kernels.c.hash == kernel))
    if target is not None:
        chosen = chosen.where(contexts.c.target == target)
    best = (
        evaluations()
        .where(measurements.c.context == sql.bindparam("at"), verifications.c.cases.is_not(None))
        .order_by(measurements.c.seconds)
    )
    each = connection.execute(chosen).scalars().all()
    groups = [[*islice(_founded(connection.execute(best, {"at": at})), count)] for at in each]
    return [
        one for group in sorted(filter(None, groups), key=lambda group: group[0].seconds or 0.0) for one in group
    ]


def way_to(connection: sql.Connection, state: int) -> tuple[str, list[str], str]:
    """The text of a state's kernel, the moves to it, and its hash. Raises ArgumentError, `unknown-state`, where
    it is not there, `stale-trace` where the way to it has no beginning: a state is written after its parent."""
    moves: list[str] = []
    first = _row(connection, state)
    text = str(connection.execute(sql.select(kernels.c.text).where(kernels.c.id == first.kernel)).scalar_one())
    at, row = state, first
    while True:
        if row.move is not None:
            moves.append(row.move)
        if row.parent is None:
            return text, moves[::-1], first.hash
        if row.parent >= at:
            raise dojoir.ArgumentError(
                f"the state before {row.hash[:12]} was written after it: dojoir db check says what is wrong",
                "stale-trace",
            )
        at, row = row.parent, _row(connection, row.parent)


def _row(connection: sql.Connection, state: int) -> Any:
    columns = sql.select(states.c.parent, states.c.move, states.c.kernel, states.c.hash)
    row = connection.execute(columns.where(states.c.id == state)).first()
    if row is None:
        raise dojoir.ArgumentError(f"the database has no state {state}", "unknown-state")
    return row


_BEFORE = states.alias("before")


def evaluations() -> sql.Select[Any]:
    """A row for each evaluation, of which `of_row` makes the state."""
    return (
        sql.select(
            builds.c.id, builds.c.state, builds.c.digest, builds.c.status, builds.c.reason, builds.c.stages,
            builds.c.made, builds.c.imported, states.c.hash, states.c.move, states.c.length, states.c.choice,
            _BEFORE.c.hash.label("parent"), kernels.c.hash.label("start"), kernels.c.name.label("kernel"),
            machines.c.name.label("machine"), machines.c.facts, contexts.c.target, contexts.c.sizes,
            contexts.c.threads, contexts.c.protocol, contexts.c.versions, runs.c.name.label("run"),
            verifications.c.cases, measurements.c.seconds, measurements.c.low, measurements.c.high,
            measurements.c.samples,
        )
        .join(states, states.c.id == builds.c.state)
        .join(kernels, kernels.c.id == states.c.kernel)
        .join(contexts, contexts.c.id == builds.c.context)
        .join(machines, machines.c.id == contexts.c.machine)
        .outerjoin(_BEFORE, _BEFORE.c.id == states.c.parent)
        .outerjoin(runs, runs.c.id == builds.c.run)
        .outerjoin(verifications, verifications.c.build == builds.c.id)
        .outerjoin(measurements, measurements.c.build == builds.c.id)
    )  # fmt: skip


def of_row(row: Any) -> State:
    """The state in a row."""
    samples, counts = ((), ()) if row.samples is None else from_lists(json.loads(row.samples))
    interval = None if row.seconds is None else (float(row.low), float(row.high))
    stages: Mapping[str, float] = json.loads(row.stages)
    outcome = runtime.Evaluation(
        row.hash, row.status, row.seconds, interval, tuple(map(float, samples)), row.cases or 0, row.digest, stages,
        row.reason, counts=counts,
    )  # fmt: skip
    at = Context(row.machine, row.facts, row.target, row.sizes, row.threads, row.protocol, row.versions)
    return State(
        row.start, row.hash, row.parent, row.move, outcome, at, row.made, row.kernel, row.length, row.run,
        bool(row.imported), row.state, row.choice,
    )  # fmt: skip
