"""Choices: what a planner or a search decides between, each a structure or a pass with its parameters by name.

A choice is made as the moves that it takes, each of them checked: the trace has no more than moves. For GPUs
they are the forms of a kernel and the structures of its nests that the planner tries, for CPUs the passes with
parameters that a search draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import dojoir
from dojoir.passes.schedule.plan.parts import asked_for
from dojoir.search.actions import FORMS, NESTS, STRUCTURES, make, spread

EACH = 12
"""Of a family of passes so many parameters are choices, evenly spread."""


@dataclass(frozen=True)
class GameChoice:
    """A choice: `name` is its family, `text` the pipeline that makes it; `nest` the outermost scope that it is
    about, None where it is about all."""

    name: str
    text: str
    nest: int | None = None

    def __str__(self) -> str:
        return self.text

    def is_about(self, kernel: dojoir.Kernel) -> bool:
        """Whether what it is about is there: its nest is a scope without a mark."""
        if self.nest is None:
            return True
        try:
            return bool(dojoir.find(kernel, f"scope unmarked {self.nest}"))
        except dojoir.DojoError:
            return False


def choices(target: str, threads: int) -> tuple[GameChoice, ...]:
    """The choices for a target, always in the same order. Raises ArgumentError for a target that there is not."""
    if dojoir.machine_for(target).kind != "gpu":
        return tuple(GameChoice(family, text) for text, family in spread(target, threads, EACH).items())
    forms = [GameChoice("arrange", f"arrange({form})") for form in FORMS]
    structures = [
        GameChoice(name, f"structure({nest}, {name})", nest) for nest in range(NESTS) for name in STRUCTURES
    ]
    return (GameChoice("simple", "simplify"), *forms, *structures, GameChoice("simple", "default_schedule"))


def made(trace: dojoir.Trace, choice: GameChoice, target: str) -> dojoir.Trace | str:
    """The trace after a choice, or why there is none. The trace that is given stays as it is."""
    try:
        longer = make(trace.copy(), choice.text, target)
    except dojoir.DojoError as error:
        return f"{choice}: {error.diagnostic.message}"
    return longer if longer.kernel != trace.kernel else f"{choice} changes nothing here"


ALIKE = ("register_tile", "blocks")
"""Families that fit a kernel or do not, whatever their parameters: the first of one speaks for all."""


def absent(trace: dojoir.Trace, could: Sequence[GameChoice], target: str) -> dict[int, str]:
    """The choices that are not offered at a state, by number, with the reason: those about a nest that is not
    there, those of ALIKE families whose first changes nothing, and to leave out a structure that does not fit it.
    Others may turn out to change nothing as well, when they are made."""
    kernel, start = trace.kernel, dojoir.Trace(trace.kernel)
    fits = _asked_for(kernel, target)
    found, alike = dict[int, str](), dict[str, str]()
    for number, choice in enumerate(could):
        if not choice.is_about(kernel):
            found[number] = f"{choice}: there is no nest {choice.nest} without a mark"
        elif choice.name == "without" and choice.text.partition("(")[2][:-1] not in fits:
            found[number] = f"{choice}: it does not fit the kernel, there is nothing to leave out"
        elif choice.name in ALIKE:
            if choice.name not in alike:
                first = made(start, choice, target)
                alike[choice.name] = first if isinstance(first, str) else ""
            if alike[choice.name]:
                found[number] = f"{choice}: as {alike[choice.name]}"
    return found


@lru_cache(maxsize=256)
def _asked_for(kernel: dojoir.Kernel, target: str) -> frozenset[str]:
    machine = dojoir.machine_for(target)
    return asked_for(kernel, machine) if machine.kind == "cpu" else frozenset()


def outcomes(
    trace: dojoir.Trace, could: Sequence[GameChoice], target: str, stop: object = False
) -> Iterator[tuple[int, GameChoice, dojoir.Trace]]:
    """What choices make of a state, those that lead to a kernel which none before them leads to, with their
    numbers; until `stop`."""
    known, left_out = {trace.kernel.hash}, absent(trace, could, target)
    for number, choice in enumerate(could):
        if stop:
            return
        longer = left_out.get(number) or made(trace, choice, target)
        if not isinstance(longer, str) and longer.kernel.hash not in known:
            known.add(longer.kernel.hash)
            yield number, choice, longer
