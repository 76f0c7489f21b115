"""Choices: what a planner or a search decides between, each a structure or a pass with its parameters by name.

A choice is made as the moves that it takes, each of them checked: the trace has no more than moves. For GPUs
they are the forms of a kernel and the structures of its nests that the planner tries, for CPUs the passes with
parameters that a search draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import dojoir
from dojoir.search.actions import FORMS, NESTS, STRUCTURES, make, spread

EACH = 12
"""Of a family of passes so many parameters are choices, evenly spread."""


@dataclass(frozen=True)
class Choice:
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


def choices(target: str, threads: int) -> tuple[Choice, ...]:
    """The choices for a target, always in the same order. Raises ArgumentError for a target that there is not."""
    if dojoir.machine_for(target).kind != "gpu":
        return tuple(Choice(family, text) for text, family in spread(target, threads, EACH).items())
    forms = [Choice("arrange", f"arrange({form})") for form in FORMS]
    structures = [Choice(name, f"structure({nest}, {name})", nest) for nest in range(NESTS) for name in STRUCTURES]
    return (Choice("simple", "simplify"), *forms, *structures, Choice("simple", "default_schedule"))


def made(trace: dojoir.Trace, choice: Choice, target: str) -> dojoir.Trace | str:
    """The trace after a choice, or why there is none. The trace that is given stays as it is."""
    try:
        longer = make(trace.copy(), choice.text, target)
    except dojoir.DojoError as error:
        return f"{choice}: {error.diagnostic.message}"
    return longer if longer.kernel != trace.kernel else f"{choice} changes nothing here"
