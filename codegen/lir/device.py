"""The device part of a program for a GPU: launches, and inside of them threads that meet at barriers.

A launch is a grid of blocks, each of `threads` threads. Its body is what every thread of a block runs; a `Phase` in
it is for the first threads only. The printers of CPUs never see any of this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dojoir.support.frozen import dataclass

if TYPE_CHECKING:
    from dojoir.codegen.lir.program import Array, Stmt, Type, Value, Var

AXES = ("x", "y", "z")

_WORDS = frozenset({"i32", "u32", "i64", "u64"})
ATOMICS = {
    "add": _WORDS | {"f32", "f64"},
    **dict.fromkeys(("max", "min", "bitand", "bitor", "bitxor"), _WORDS),
}
"""The elements of which GPUs have an atomic, by its operation."""


# -- values ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ThreadNumber:
    """The number of the thread in its block."""

    type: Type


@dataclass(frozen=True)
class BlockNumber:
    """The number of the block in the grid, along one of the AXES."""

    type: Type
    axis: int


@dataclass(frozen=True)
class Extract:
    """One element of a wide value, as it stands in memory."""

    arg: Value
    lane: int

    @property
    def type(self) -> Type:
        return replace(self.arg.type, lanes=1)


@dataclass(frozen=True)
class Pack:
    """A wide value of its elements."""

    type: Type
    args: tuple[Value, ...]


@dataclass(frozen=True)
class Shuffle:
    """The value that `arg` has in another thread of the warp: whose number is this one's exclusive-or `by` (`xor`),
    or `by` less (`up`; the first `by` of each group of `width` threads keep their own). All threads of the groups
    of `width` that run it run it together."""

    how: str
    arg: Value
    by: Value
    width: int

    @property
    def type(self) -> Type:
        return self.arg.type


# -- statements --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Barrier:
    """A barrier: all work of the threads before it is done for all of them after it: for those of the block, or of
    each group of `lanes` threads. `about` are the buffers for which it stands here."""

    about: tuple[str, ...]
    lanes: int = 0


@dataclass(frozen=True)
class Phase:
    """The body, for the first `threads` of the block; None: for all of them."""

    threads: int | None
    body: tuple[Stmt, ...]
    comment: str = ""


@dataclass(frozen=True)
class Atomic:
    """Combines the element of `buffer` at `offset` with a value (add, max, min), in one step for all threads of the
    grid."""

    op: str
    buffer: str
    offset: Value
    value: Value


@dataclass(frozen=True)
class Launch:
    """Runs `body` in every thread of a grid: `grid` are its extents along the AXES, outermost last; a launch of
    which one is 0 or less does nothing. `shared` are the arrays that each block has one of; `captures` and
    `captured_arrays` what it takes from the host, in the order of its parameters. `wide` are the bytes to which the
    beginning of an array must be aligned, by name, where it must be more than an element. `alone` are the arrays of
    which no thread uses an element that another writes. Its indices have
    `index_bits`, 64 or 32: then no value of type i64 in it needs more, for the sizes that it is launched with
    (`codegen.lir.offsets`)."""

    name: str
    grid: tuple[Value, ...]
    threads: int
    shared: tuple[Array, ...]
    captures: tuple[Var, ...]
    captured_arrays: tuple[Array, ...]
    body: tuple[Stmt, ...]
    comment: str = ""
    wide: tuple[tuple[str, int], ...] = ()
    alone: frozenset[str] = frozenset()
    index_bits: int = 64
