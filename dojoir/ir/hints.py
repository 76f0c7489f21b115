"""Hints: what a scope says to the target beside its marks. A hint never changes what a kernel means.

What moves do to hints. A scope keeps them as long as its iterations are what they were, wherever it goes
(`swap_scopes`, `shift`, `peel`, both parts of `cut` and of `split_scopes`), and scopes with different hints do not
fuse. A move that makes other iterations of a scope (`split`, `collapse`, `tile`, their inverses), or takes it away,
is refused, and says how to take the hint off. After any move, each hint must still fit what its scope runs
(`dojoir.proof.core.hint_rules`); else the move is refused. So no move drops a hint but those made for that,
`unprefetch` and `unuse_instr`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field, replace

from dojoir.errors import Span
from dojoir.support.frozen import dataclass

LARGEST_DISTANCE = 2**20


class Hint(ABC):
    """What the kinds of hints have in common: `Prefetch`, and `Use` of `dojoir.ir.instruction`."""

    loc: Span | None

    @property
    @abstractmethod
    def about(self) -> str:
        """The subject of the hint: a scope has no two hints on one subject."""

    @abstractmethod
    def removal(self, place: str) -> str:
        """The move that takes the hint off the scope at a place."""

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> Hint:
        """The hint with buffers renamed."""


@dataclass(frozen=True)
class Prefetch(Hint):
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


def in_order(hints: tuple[Hint, ...]) -> tuple[Hint, ...]:
    """The hints in the order in which they are written: their order says nothing."""
    return tuple(sorted(hints, key=str))
