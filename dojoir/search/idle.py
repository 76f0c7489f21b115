"""Idle moves of an answer: those without which the code for the target is the same."""

from __future__ import annotations

import contextlib
import time

import dojoir
from dojoir.ir.text import canonical_text
from dojoir.search.variation import prefix

COMMENTS = (";", "//")
"""The prefixes of comments in LLVM IR or C, which are not part of the code."""


def code_of(kernel: dojoir.Kernel, target: str) -> str | None:
    """The source for a target without its comments and the names that labels give; None where it cannot be
    emitted."""
    with contextlib.suppress(dojoir.DojoError):
        lines = dojoir.emit(dojoir.parse(canonical_text(kernel)), target).splitlines()
        return "\n".join(line for line in lines if not line.lstrip().startswith(COMMENTS))
    return None


def without(trace: dojoir.Trace, number: int) -> dojoir.Trace:
    """The trace without one move, and without the later ones that are not legal then."""
    shorter = prefix(trace, number)
    for move in trace.moves[number + 1 :]:
        with contextlib.suppress(dojoir.DojoError):
            shorter.apply(move)
    return shorter


def without_idle(trace: dojoir.Trace, target: str, seconds: float) -> dojoir.Trace:
    """The trace without its idle moves, from the last one to the first, each proved again; as far as that goes
    within `seconds`. A move that a later one takes back goes with that one."""
    end = time.monotonic() + seconds
    code = code_of(trace.kernel, target)
    for number in reversed(range(len(trace.moves))):
        if code is None or time.monotonic() > end:
            return trace
        shorter = without(trace, number)
        if code_of(shorter.kernel, target) == code:
            trace = shorter
    return trace
