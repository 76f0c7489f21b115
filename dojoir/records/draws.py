"""The moves that were drawn or listed at a state, with their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dojoir
from dojoir.records.engine import sql
from dojoir.records.path import by_paths
from dojoir.records.schema import draws, states

CANDIDATE = "candidate"
"""The verdict of a move that was not asked of the checker yet: a later one takes its place."""

Drawn = tuple[str, str]
"""The text of a move, and its verdict: `legal`, the code of a refusal, `refused` where it was not shown to be legal
within the steps of a draw, or `candidate`."""


def write_draws(
    connection: sql.Connection, run: int, state: int, kernel: dojoir.Kernel, moves: Sequence[Drawn], listed: bool
) -> None:
    """Writes what was drawn at a state of a run, whose kernel it is; what is there already is not written twice."""
    chosen = sql.select(draws.c.id, draws.c.move, draws.c.verdict)
    found = connection.execute(chosen.where(draws.c.run == run, draws.c.state == state))
    known = {row.move: row for row in found}
    rows: list[dict[str, Any]] = []
    new: set[str] = set()
    for text, verdict in moves:
        move = _with_paths(text, kernel)
        if move in new:
            continue
        before = known.get(move)
        if before is not None and before.verdict == CANDIDATE != verdict:
            new.add(move)
            connection.execute(draws.update().where(draws.c.id == before.id).values(verdict=verdict))
        elif before is None:
            new.add(move)
            rows.append({"run": run, "state": state, "move": move, "verdict": verdict, "listed": int(listed)})
    if rows:
        connection.execute(draws.insert(), rows)


def _with_paths(text: str, kernel: dojoir.Kernel) -> str:
    """A move with paths for labels; as it is where it names what is not there."""
    try:
        return str(by_paths(dojoir.parse_move(text), kernel))
    except dojoir.DojoError:
        return text


def draw_lines(connection: sql.Connection, run: int, since: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The draws of a run after one of a number, those of a state together. The number of the last, the state,
    and the fields of a line but for the names of state and kernel."""
    chosen = sql.select(draws).where(draws.c.run == run, draws.c.id > since).order_by(draws.c.id)
    group: list[Any] = []
    for row in connection.execute(chosen):
        if group and (group[0].state, group[0].listed) != (row.state, row.listed):
            yield _group(group)
            group = []
        group.append(row)
    if group:
        yield _group(group)


def _group(rows: list[Any]) -> tuple[int, int, dict[str, Any]]:
    moves = [[row.move, row.verdict] for row in rows]
    return rows[-1].id, rows[0].state, {"moves": moves, "listed": bool(rows[0].listed)}


def read_draws(connection: sql.Connection, run: int) -> dict[str, list[Drawn]]:
    """The moves that a run drew, by the hash of the state."""
    found: dict[str, list[Drawn]] = {}
    chosen = (
        sql.select(draws.c.move, draws.c.verdict, states.c.hash)
        .join(states, states.c.id == draws.c.state)
        .where(draws.c.run == run)
        .order_by(draws.c.id)
    )
    for row in connection.execute(chosen):
        found.setdefault(row.hash, []).append((row.move, row.verdict))
    return found
