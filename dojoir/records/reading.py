"""The queries on a database: the fastest states, and the way to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dojoir
from dojoir.records.connected import Reads
from dojoir.records.contexts import Sizes, here
from dojoir.records.engine import sql
from dojoir.records.result import Ranked
from dojoir.records.schema import builds, contexts, kernels, machines, measurements, states, verifications

STATIC = "static"
"""The protocol of what was ranked by its text alone: no times, and nothing to verify."""

MOST = 20
"""How many of the fastest are tried: the moves of some may not be legal any more."""


def ranked(
    database: Reads,
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
    with database.reading() as connection:
        row = connection.execute(sql.select(kernels.c.id).where(kernels.c.hash == kernel.hash)).scalar()
        if row is None:
            return []
        context = _context(connection, kernel, row, (target, sizes, threads), protocol)
        if context is None:
            return []
        timed = _timed(context, verified=protocol != STATIC)
        chosen = timed.order_by(measurements.c.seconds)
        if than is not None:
            against = connection.execute(
                timed.where(states.c.hash == than).order_by(measurements.c.seconds).limit(1)
            ).first()
            if against is None:
                return []
            chosen = chosen.where(measurements.c.seconds < against.seconds, states.c.hash != than)
        return list(dict.fromkeys(connection.execute(chosen.limit(MOST)).scalars()))


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
    chosen = (
        sql.select(measurements.c.state, measurements.c.seconds)
        .join(builds, builds.c.id == measurements.c.build)
        .join(states, states.c.id == measurements.c.state)
        .where(measurements.c.context == context, builds.c.imported == 0)
    )
    return chosen.join(verifications, verifications.c.build == measurements.c.build) if verified else chosen


def fastest(database: Reads, kernel: str | None, count: int, target: str | None) -> list[Ranked]:
    """The fastest states of a kernel by its name or hash, of all by default: the first `count` of each context,
    contexts in the order of their best."""
    chosen = (
        sql.select(contexts, kernels.c.name.label("of"), machines.c.name.label("on"))
        .join(kernels, kernels.c.id == contexts.c.kernel)
        .join(machines, machines.c.id == contexts.c.machine)
    )
    if kernel is not None:
        chosen = chosen.where(sql.or_(kernels.c.name == kernel, kernels.c.hash == kernel))
    if target is not None:
        chosen = chosen.where(contexts.c.target == target)
    best = (
        sql.select(
            measurements.c.seconds, measurements.c.low, measurements.c.high,
            states.c.id, states.c.hash, states.c.length, builds.c.imported,
        )
        .join(states, states.c.id == measurements.c.state)
        .join(builds, builds.c.id == measurements.c.build)
        .join(verifications, verifications.c.build == measurements.c.build)
        .where(measurements.c.context == sql.bindparam("at"))
        .order_by(measurements.c.seconds)
        .limit(count)
    )  # fmt: skip
    groups: list[list[Ranked]] = []
    with database.reading() as connection:
        for at in connection.execute(chosen).all():
            group = [
                Ranked(
                    at.of, row.hash, row.length, row.seconds, row.low, row.high, at.on, at.target, at.sizes,
                    at.threads, at.protocol, at.versions, row.id, bool(row.imported),
                )
                for row in connection.execute(best, {"at": at.id})
            ]  # fmt: skip
            if group:
                groups.append(group)
    groups.sort(key=lambda group: group[0].seconds)
    return [row for group in groups for row in group]


def way_to(database: Reads, state: int) -> tuple[str, list[str], str]:
    """The text of a state's kernel, the moves to it, and its hash. Raises ArgumentError, `unknown-state`, where
    it is not there, `stale-trace` where the way to it has no beginning: a state is written after its parent."""
    moves: list[str] = []
    with database.reading() as connection:
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
