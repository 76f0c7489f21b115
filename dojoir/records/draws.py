"""The moves that were drawn or listed at a state, with their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dojoir
from dojoir.records.connected import Reads, Writes
from dojoir.records.engine import sql
from dojoir.records.path import by_paths, path_of
from dojoir.records.schema import draws, runs, states

CANDIDATE = "candidate"
"""The verdict of a move that was not asked of the checker yet: a later one takes its place."""

Drawn = tuple[str, str]
"""The text of a move, and its verdict: `legal`, the code of a refusal, `refused` where it was not shown to be legal
within the steps of a draw, or `candidate`."""


def write_draws(database: Writes, run: str, trace: dojoir.Trace, moves: Sequence[Drawn], listed: bool) -> None:
    """Writes what was drawn at the last kernel of a trace in a run; what is there already is not written twice.
    Raises as `Database.record` does."""
    if not trace.is_safe:
        raise dojoir.ArgumentError(f"an unsafe trace is not recorded: {trace.unchecked}", "unsafe-trace")
    if not moves:
        return
    chain = path_of(trace)
    with database.writing() as connection:
        state = database.chain_rows(connection, database.kernel_row(connection, trace.start), chain)
        number = database.run_row(connection, run)
        chosen = sql.select(draws.c.id, draws.c.move, draws.c.verdict)
        known = {
            row.move: row for row in connection.execute(chosen.where(draws.c.run == number, draws.c.state == state))
        }
        rows: list[dict[str, Any]] = []
        new: set[str] = set()
        for text, verdict in moves:
            move = _with_paths(text, trace.kernel)
            if move in new:
                continue
            before = known.get(move)
            if before is not None and before.verdict == CANDIDATE != verdict:
                new.add(move)
                connection.execute(draws.update().where(draws.c.id == before.id).values(verdict=verdict))
            elif before is None:
                new.add(move)
                rows.append({
                    "run": number, "state": state, "move": move, "verdict": verdict, "listed": int(listed)
                })  # fmt: skip
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


def read_draws(database: Reads, run: str) -> dict[str, list[Drawn]]:
    """The moves that a run drew, by the hash of the state. Raises ArgumentError, `unknown-run`."""
    found: dict[str, list[Drawn]] = {}
    with database.reading() as connection:
        number = database.run_row(connection, run)
        chosen = (
            sql.select(draws.c.move, draws.c.verdict, states.c.hash)
            .join(states, states.c.id == draws.c.state)
            .join(runs, runs.c.id == draws.c.run)
            .where(draws.c.run == number)
            .order_by(draws.c.id)
        )
        for row in connection.execute(chosen):
            found.setdefault(row.hash, []).append((row.move, row.verdict))
    return found
