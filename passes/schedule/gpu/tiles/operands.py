"""Tiles of the operands of a product in shared memory, as matrix units take them: their copies, how they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.sinking import LiftScope, SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.gpu.sharing.copies import Marked, without_ones
from dojoir.passes.schedule.gpu.sharing.padded import whole_nest, zeros_beside
from dojoir.passes.schedule.gpu.tiles.products import spread_copy
from dojoir.passes.schedule.gpu.tiles.windows import copy_windows, whole_chunks
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, nested
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PadDims, PlaceBuffer, ReorderDims, Swizzle
from dojoir.passes.storage.staging import Stage

ROWS, COLUMNS = 16, 8
"""The tile of the result of one instruction."""

DEPTH = ROW = 128
"""How many bytes of each row and column a block multiplies at a time, and those of a row of shared memory."""

WORD, PAD = 4, 4
"""The bytes of the smallest copy that lands later. Then by how many elements rows of a copy are padded at least:
four of them, each of as many f64, lie in different banks."""


class Unit(NamedTuple):
    """How matrix units multiply operands of some types: the instruction, and the name of its loads but for their
    type. Then how many terms it adds up, a load moves in one matrix, and a thread has side by side."""

    product: str
    load: str
    terms: int
    chunk: int
    pair: int
    turns: bool = True
    """Whether there are loads of what lies with its terms in rows."""

    @property
    def has_fragments(self) -> bool:
        """Whether a warp multiplies fragments in registers; else four warps multiply what lies in shared memory."""
        return bool(self.load)

    @property
    def parts(self) -> tuple[int, ...]:
        """The sizes by which terms are split: those of a matrix, and those of a word, if it has several."""
        return tuple(size for size in (self.chunk, self.pair) if size > 1)

    def loads(self, operand: Operand, turned: bool, dtype: str) -> str:
        """The instruction that loads fragments of an operand."""
        which = f"{'a' if operand.is_left else 'b'}{'_trans' if turned else ''}"
        return f"{self.load.format(which)}_{dtype}"


class WarpTiles(NamedTuple):
    """The rows and columns of a block, those of each of its warps, and the terms at a time. `stages` are the tiles
    of operands that a block has at once, all but one of them on their way."""

    height: int
    width: int
    down: int
    across: int
    depth: int
    stages: int = 3
    group: int = 32

    @property
    def parts_of_columns(self) -> tuple[int, ...]:
        """By what columns are split: those of a warp, if several have them, of an instruction, and of a thread."""
        return (*((self.across,) if self.across < self.width else ()), COLUMNS, 2)

    @property
    def threads(self) -> int:
        return self.group * (self.height // self.down) * (self.width // self.across)


class Operand(NamedTuple):
    """An array that is multiplied, its dimensions along the result and along the sums. Where the right factor is
    the same array at other indices, `among` is the number of the left one of the two."""

    array: str
    kept: int
    summed: int
    is_left: bool
    among: int | None = None

    def split(self) -> Operand:
        """The same where the dimension along the sums is the second of two."""
        return self._replace(kept=self.kept + (self.kept > self.summed), summed=self.summed + 1)


class Copied(NamedTuple):
    """A copy in shared memory of what a block multiplies of an operand, the nest that fills it, and the sizes of
    its scopes. `in_rows` says that the terms of a sum are rows of it."""

    name: str
    operand: Operand
    in_rows: bool
    nest: Spot
    sizes: tuple[int, ...]

    @property
    def dims(self) -> tuple[int, int]:
        """The dimension of its rows, and that along them."""
        kept, summed = self.operand.kept, self.operand.summed
        return (summed, kept) if self.in_rows else (kept, summed)

    def swizzled(self, trace: Trace) -> None:
        """Lays it out in rows of 128 bytes, parts of longer rows one after another, and exchanges their chunks.
        Other rows are padded, and those of words of 8 bytes."""
        rows, along = self.dims
        buffer = trace.kernel.buffer(self.name)
        row = ROW // buffer.dtype.itemsize
        if buffer.dims[along].extent.offset % row or buffer.dtype.itemsize == 8:
            self.padded(trace)
            return
        if buffer.dims[along].extent.offset > row:
            act(trace, SplitDim, self.name, along, row)
            order = list(trace.kernel.buffer(self.name).order or range(len(buffer.dims) + 1))
            rows += rows > along
            order.remove(along)
            order.insert(order.index(rows), along)
            act(trace, ReorderDims, self.name, order)
        act(trace, Swizzle, self.name, ROW)

    def padded(self, trace: Trace) -> None:
        """Pads its rows, so that neighbouring ones lie in different banks."""
        widest = ACCESS_BYTES // trace.kernel.buffer(self.name).dtype.itemsize
        act(trace, PadDims, self.name, self.dims[1], max(widest, PAD))

    def spread(self, trace: Trace, nests: Sequence[Spot], threads: int) -> list[Marked]:
        """Shares the nests that fill it out over threads. Returns the marks."""
        act(trace, PlaceBuffer, self.name, "shared")
        widest = ACCESS_BYTES // trace.kernel.buffer(self.name).dtype.itemsize
        return [mark for nest in nests for mark in spread_copy(trace, nest, self.name, self.sizes, threads, widest)]


def copied(trace: Trace, node: Spot, operand: Operand, tile: WarpTiles, unit: Unit, ahead: bool = False) -> Copied:
    """Stages what a block multiplies of an operand at a node in shared memory, zeros where the array ends: all of
    it, a tile after the other, if it is to be copied `ahead`. Where no load takes terms in rows, they lie side by
    side there: a thread then reads elements of as many rows, its neighbours those beside them."""
    copy = fresh_name(trace.kernel, f"{operand.array}_tile")
    if operand.among is not None or not tried(
        trace, partial(copy_windows, node=node, array=operand.array, copy=copy)
    ):
        act(trace, Stage, node, operand.array, copy, "in", () if operand.among is None else (operand.among,))
    filled = without_ones(trace, node.beside(-1))
    known(len(nested(filled)) == 2, "a product of tiles")
    kept, in_rows = tile.height if operand.is_left else tile.width, operand.summed < operand.kept
    if ahead:
        terms = filled if in_rows else filled.child(0)
        act(trace, Split, terms, tile.depth)
        if not in_rows:
            act(trace, LiftScope, terms, 1)
        filled = terms.child(0)
        act(trace, SplitDim, copy, operand.summed, tile.depth)
        order = [operand.summed, *(d for d in range(len(trace.kernel.buffer(copy).dims)) if d != operand.summed)]
        if order != sorted(order):
            act(trace, ReorderDims, copy, order)
        operand = operand.split()
    whole_chunks(trace, filled)
    sizes: tuple[int, ...] = (tile.depth, kept) if in_rows else (kept, tile.depth)
    zeros_beside(trace, whole_nest(trace, nested(filled), sizes))
    if in_rows and not unit.turns:
        others = (d for d in range(len(trace.kernel.buffer(copy).dims)) if d != operand.summed)
        act(trace, ReorderDims, copy, (*others, operand.summed))
        act(trace, Split, filled, unit.chunk)
        act(trace, SinkScope, filled.child(0), 1)
        in_rows, sizes = False, (tile.depth // unit.chunk, kept, unit.chunk)
    return Copied(copy, operand, in_rows, filled, sizes)


def in_words(trace: Trace, operand: Operand, unit: Unit) -> bool:
    """Whether the copy of an operand moves whole words of memory as they lie."""
    buffer = trace.kernel.buffer(operand.array)
    row, turned = buffer.dims[-1].extent, operand.summed < operand.kept and not unit.turns
    return not turned and row.is_constant and row.offset * buffer.dtype.itemsize % WORD == 0
