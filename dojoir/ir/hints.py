"""Hints: what a scope says to the target beside its marks. A hint never changes what a kernel means.

What moves do to hints. A scope keeps them as long as its iterations are what they were, wherever it goes
(`swap_scopes`, `shift`, `peel`, both parts of `cut` and of `split_scopes`), and scopes with different hints do not
fuse. A move that makes other iterations of a scope (`split`, `collapse`, `tile`, their inverses), or takes it away,
is refused, and says how to take the hint off. After any move, each hint must still fit what its scope runs
(`dojoir.proof.core.hint_rules`); else the move is refused. So no move drops a hint but those made for that,
`unprefetch` and `unuse_instr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from dojoir.errors import Span
from dojoir.ir.instruction import Instruction
from dojoir.support.frozen import dataclass

LARGEST_DISTANCE = 2**20


@dataclass(frozen=True)
class Prefetch:
    """In each iteration, fetch into cache what this body's accesses to `buffer` touch `distance` iterations on."""

    buffer: str
    distance: int
    loc: Span | None = field(default=None, compare=False, repr=False)

    @property
    def about(self) -> str:
        """The subject of the hint: a scope has no two hints on one subject."""
        return f"prefetch({self.buffer})"

    def removal(self, place: str) -> str:
        """The move that takes the hint off the scope at a place."""
        return f"unprefetch({place}, {self.buffer})"

    def renamed(self, names: Mapping[str, str]) -> Prefetch:
        """The hint with buffers renamed."""
        return replace(self, buffer=names.get(self.buffer, self.buffer))

    def __str__(self) -> str:
        return f"prefetch({self.buffer}, {self.distance})"


@dataclass(frozen=True)
class Use:
    """This scope is an instruction: a target that has it spells it so, any other lowers the scope as usual."""

    instruction: Instruction
    loc: Span | None = field(default=None, compare=False, repr=False)

    @property
    def about(self) -> str:
        """The subject of the hint: a scope has no two hints on one subject."""
        return "use"

    def removal(self, place: str) -> str:
        """The move that takes the hint off the scope at a place."""
        return f"unuse_instr({place})"

    def renamed(self, names: Mapping[str, str]) -> Use:
        """The hint with buffers renamed: it names none."""
        return self

    def __str__(self) -> str:
        return f"use({self.instruction.name})"


Hint = Prefetch | Use


def in_order(hints: tuple[Hint, ...]) -> tuple[Hint, ...]:
    """The hints in the order in which they are written: their order says nothing."""
    return tuple(sorted(hints, key=str))
