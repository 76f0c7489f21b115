"""Plans made into states: each step through the checker, until one is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import dojoir

MOST_MOVES = 400
"""The most moves of a state."""

LONGEST = 500
"""The most characters of a reason."""

Drew = Callable[[dojoir.Trace, list[tuple[str, str]]], object]


@dataclass(frozen=True)
class MadePlan:
    """A plan that was made: the trace, the steps that are in it, and why the others are not."""

    trace: dojoir.Trace
    steps: tuple[str, ...]
    refused: tuple[str, ...] = ()


def made(
    trace: dojoir.Trace, steps: tuple[str, ...], listed: Mapping[str, str], target: str, drew: Drew | None = None
) -> MadePlan:
    """Makes steps on a state, one after another; the first that is refused ends it, and those before it stay made.
    `listed` are the texts of what can be named by number; `drew` is told of each move with its verdict. Never
    raises for what a step says."""
    at, done = trace.copy(), list[str]()
    for number, step in enumerate(steps, 1):
        text = listed.get(step.lstrip("#"), step)
        longer, refused = _step(at, text, target, drew)
        if refused:
            return MadePlan(at, tuple(done), (f"step {number}, {text}: {refused}",))
        if len(longer.moves) > MOST_MOVES:
            return MadePlan(at, tuple(done), (f"step {number}, {text}: it makes more than {MOST_MOVES} moves",))
        at = longer
        done.append(text)
    return MadePlan(at, tuple(done))


def _step(trace: dojoir.Trace, text: str, target: str, drew: Drew | None) -> tuple[dojoir.Trace, str]:
    """The trace after a step; or why it is refused, with the hint of the checker."""
    longer = trace.copy()
    if text.isdecimal():
        return trace, f"there is no move or choice of the number {text} in the list"
    try:
        elements = dojoir.parse_pipeline(text, machine=dojoir.machine_for(target))
    except dojoir.DojoError as error:
        return trace, _short(error.diagnostic.message)
    for element in elements:
        try:
            if isinstance(element, dojoir.Pass):
                element(longer)
                continue
            before = longer.copy()
            longer.apply(element)
            if drew is not None:
                drew(before, [(str(element), "legal")])
        except dojoir.IllegalMove as error:
            if isinstance(element, dojoir.Pass):
                return trace, _short(str(error.verdict.reason or error.verdict.code))
            if drew is not None:
                drew(before, [(str(element), "refused")])
            return trace, refusal(before.kernel, element)
        except dojoir.DojoError as error:
            return trace, _short(error.diagnostic.message)
    return longer, ""


def refusal(kernel: dojoir.Kernel, move: dojoir.Move) -> str:
    """The verdict on a move in a line, with the nearest legal one, where one is found."""
    verdict = dojoir.suggest(kernel, move)
    hint = f"; hint: {verdict.hint}" if verdict.hint else ""
    return _short(f"[{verdict.code}] {verdict.reason}{hint}")


def _short(text: str) -> str:
    return " ".join(text.split())[:LONGEST]
