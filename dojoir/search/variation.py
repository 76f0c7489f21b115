"""New traces from old ones: one parameter changed in the middle, the moves of one after those of another."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Sequence

import dojoir

LONGEST = 200
"""How many moves a trace may come to have."""


def replayed(start: dojoir.Trace, moves: Iterable[dojoir.Move]) -> dojoir.Trace:
    """A trace with as many of some moves after it as are legal there, in their order; the others are left out."""
    found = start.copy()
    for move in moves:
        if len(found.moves) >= LONGEST:
            break
        with contextlib.suppress(dojoir.DojoError):
            found.apply(move)
    return found


def made(kernel: dojoir.Kernel, moves: Iterable[str]) -> dojoir.Trace:
    """The trace of some moves, all of them. Raises DojoError for one that is not legal."""
    trace = dojoir.Trace(kernel)
    for move in moves:
        trace.apply(move)
    return trace


def prefix(trace: dojoir.Trace, count: int) -> dojoir.Trace:
    """The first moves of a trace, and no others."""
    found = trace.copy()
    while len(found.moves) > count:
        found.undo()
    return found


def mutated(trace: dojoir.Trace, rng: random.Random, target: str, tries: int = 4) -> dojoir.Trace | None:
    """The trace with one of its moves made with other parameters, and what came after it replayed; None where no
    try gives another kernel."""
    machine = dojoir.machine_for(target)
    for _ in range(tries if trace.moves else 0):
        at = rng.randrange(len(trace.moves))
        before, old = prefix(trace, at), trace.moves[at]
        with contextlib.suppress(dojoir.DojoError):
            place = old.anchor(before.kernel)
            if place is None:
                continue
            others = [m for m in type(old).space(before.kernel, place, machine) if m != old]
            if not others:
                continue
            new = replayed(before.then(rng.choice(_near(others, old))), trace.moves[at + 1 :])
            if new.kernel != trace.kernel:
                return new
    return None


def crossed(one: dojoir.Trace, other: dojoir.Trace) -> dojoir.Trace | None:
    """The moves of one trace after those of another, without those that both began with; None where that adds
    nothing."""
    shared = 0
    for mine, its in zip(one.moves, other.moves, strict=False):
        if mine != its:
            break
        shared += 1
    found = replayed(one, other.moves[shared:])
    return found if found.kernel not in (one.kernel, other.kernel) else None


def _near(moves: Sequence[dojoir.Move], old: dojoir.Move) -> list[dojoir.Move]:
    """Those that differ from a move in one argument only, where there are any."""
    near = [
        move for move in moves if sum(a != b for a, b in zip(move.arguments(), old.arguments(), strict=False)) == 1
    ]
    return near or [*moves]
