"""Tiles of the operands of a product in shared memory, as matrix units take them: their copies, how they lie.

Operands that are windows of an array: tiles of them are copied from there, and no matrix of all windows is
stored.

`passes/schedule/forms/packed.py` writes the factors of a convolution into matrices. A thread copies chunks of
16 bytes of such a matrix. Where these lie side by side in its source too, tiles are copied from there: only the
places are computed (implicit matrix products).

Source: S. Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Kernel, Site
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import given, is_nest_of_one, require, sites_in, step_of
from dojoir.passes.schedule.gpu.sharing.threads import without_ones
from dojoir.passes.schedule.gpu.tiles.product_tiles import spread_copy
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.padding import whole_nest, zeros_beside
from dojoir.passes.schedule.steps.spots import Array, Marked, Spot, act, nested, spot
from dojoir.passes.storage.dead import DeleteTemporary
from dojoir.passes.storage.layout import Swizzle
from dojoir.passes.values.indexing import SetIndex
from dojoir.passes.values.recomputing import Recompute
from dojoir.sets.ranges import without_divisions

ROWS, COLUMNS = 16, 8
"""The tile of the result of one instruction."""

DEPTH = ROW = 128
"""How many bytes of each row and column a block multiplies at a time, and those of a row of shared memory."""

WORD, PAD = 4, 4
"""The bytes of the smallest copy that lands later. Then by how many elements rows of a copy are padded at least:
four of them, each of as many f64, lie in different banks."""


class MatrixUnit(NamedTuple):
    """How matrix units multiply operands of some types: the instruction, and the name of its loads but for their
    type. Then how many terms it adds up, a load moves in one matrix, and a thread has side by side."""

    product: str
    load: str
    terms: int
    chunk: int
    pair: int
    transposes: bool = True
    """Whether there are loads of what lies with its terms in rows."""

    @property
    def has_fragments(self) -> bool:
        """Whether a warp multiplies fragments in registers; else four warps multiply what lies in shared memory."""
        return bool(self.load)

    @property
    def parts(self) -> tuple[int, ...]:
        """The sizes by which terms are split: those of a matrix, and those of a word, if it has several."""
        return tuple(size for size in (self.chunk, self.pair) if size > 1)

    def loads(self, operand: TileOperand, turned: bool, dtype: str) -> str:
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


class TileOperand(NamedTuple):
    """An array that is multiplied, its dimensions along the result and along the sums. Where the right factor is
    the same array at other indices, `among` is the number of the left one of the two."""

    array: str
    kept: int
    summed: int
    is_left: bool
    among: int | None = None

    def split(self) -> TileOperand:
        """The same where the dimension along the sums is the second of two."""
        return self._replace(kept=self.kept + (self.kept > self.summed), summed=self.summed + 1)


class Copied(NamedTuple):
    """A copy in shared memory of what a block multiplies of an operand, the nest that fills it, and the sizes of
    its scopes. `in_rows` says that the terms of a sum are rows of it."""

    name: str
    operand: TileOperand
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
            Array(trace, self.name).split(along, row)
            order = list(trace.kernel.buffer(self.name).order or range(len(buffer.dims) + 1))
            rows += rows > along
            order.remove(along)
            order.insert(order.index(rows), along)
            Array(trace, self.name).order(order)
        act(trace, Swizzle, self.name, ROW)

    def padded(self, trace: Trace) -> None:
        """Pads its rows, so that neighbouring ones lie in different banks."""
        widest = ACCESS_BYTES // trace.kernel.buffer(self.name).dtype.itemsize
        Array(trace, self.name).pad(self.dims[1], max(widest, PAD))

    def spread(self, trace: Trace, nests: Sequence[Spot], threads: int) -> list[Marked]:
        """Shares the nests that fill it out over threads. Returns the marks."""
        Array(trace, self.name).place("shared")
        widest = ACCESS_BYTES // trace.kernel.buffer(self.name).dtype.itemsize
        return [mark for nest in nests for mark in spread_copy(nest, self.name, self.sizes, threads, widest)]


def copied(
    trace: Trace, node: Spot, operand: TileOperand, tile: WarpTiles, unit: MatrixUnit, ahead: bool = False
) -> Copied:
    """Stages what a block multiplies of an operand at a node in shared memory, zeros where the array ends: all of
    it, a tile after the other, if it is to be copied `ahead`. Where no load takes terms in rows, they lie side by
    side there: a thread then reads elements of as many rows, its neighbours those beside them."""
    copy = fresh_name(trace.kernel, f"{operand.array}_tile")
    if operand.among is not None or not tried(
        trace, partial(copy_windows, node=node, array=operand.array, copy=copy)
    ):
        node.stage(operand.array, "tile", "in", only=() if operand.among is None else (operand.among,), name=copy)
    filled = without_ones(node.beside(-1))
    require(len(nested(filled)) == 2, "a product of tiles")
    kept, in_rows = tile.height if operand.is_left else tile.width, operand.summed < operand.kept
    if ahead:
        terms = filled if in_rows else filled.child(0)
        terms.split(tile.depth)
        if not in_rows:
            terms.lift(1)
        filled = terms.child(0)
        Array(trace, copy).split(operand.summed, tile.depth)
        order = [operand.summed, *(d for d in range(len(trace.kernel.buffer(copy).dims)) if d != operand.summed)]
        if order != sorted(order):
            Array(trace, copy).order(order)
        operand = operand.split()
    whole_chunks(trace, filled)
    sizes: tuple[int, ...] = (tile.depth, kept) if in_rows else (kept, tile.depth)
    zeros_beside(whole_nest(nested(filled), sizes))
    if in_rows and not unit.transposes:
        Array(trace, copy).inside(operand.summed)
        filled.split(unit.chunk).sink(1)
        in_rows, sizes = False, (tile.depth // unit.chunk, kept, unit.chunk)
    return Copied(copy, operand, in_rows, filled, sizes)


def in_words(trace: Trace, operand: TileOperand, unit: MatrixUnit) -> bool:
    """Whether the copy of an operand moves whole words of memory as they lie."""
    buffer = trace.kernel.buffer(operand.array)
    row, turned = buffer.dims[-1].extent, operand.summed < operand.kept and not unit.transposes
    return not turned and row.is_constant and row.offset * buffer.dtype.itemsize % WORD == 0


def copy_windows(trace: Trace, node: Spot, array: str, copy: str) -> None:
    """Copies what a node reads of an array right before it from what the array was copied from, in chunks. Raises
    ArgumentError where it is no copy in chunks, IllegalMove where a move is refused."""
    site = given(_copied_in_chunks(trace.kernel, array), "a copy in chunks")
    nest = spot(trace, site.path[:1])
    for depth in reversed(_joined(site)):
        nested(nest)[depth].collapse()
    statement = nested(nest)[-1].child(0)
    (site,) = sites_in(trace.kernel, nest.path)
    for dim, index in enumerate(site.statement.target.indices):
        for depth in index.iterators if isinstance(index, Affine) else ():  # the one that is left
            if index != Affine.iterator(depth):
                act(trace, SetIndex, statement, dim, Affine.iterator(depth))
    filled = nest.path
    act(trace, Recompute, node, array, copy)
    if not any(array in site.statement.buffers_read for site in trace.kernel.sites):
        spot(trace, filled).delete()
        act(trace, DeleteTemporary, array)


def whole_chunks(trace: Trace, nest: Spot) -> None:
    """Writes the indices of the copies in a nest without the divisions that the sizes of its tiles decide."""
    for site in sites_in(trace.kernel, nest.path):
        statement, accesses = spot(trace, site.path), site.statement.accesses
        for number, index in enumerate(index for access in accesses for index in access.indices):
            if isinstance(index, Affine) and (plain := without_divisions(index, site.scopes)) != index:
                act(trace, SetIndex, statement, number, plain)


def _copied_in_chunks(kernel: Kernel, array: str) -> Site | None:
    """The statement that alone writes an array, where it copies chunks of another one; else None."""
    writers = [site for site in kernel.sites if site.statement.target.buffer == array]
    if kernel.buffer(array).role != "tmp" or len(writers) != 1:
        return None
    (site,) = writers
    target, value = site.statement.target, site.statement.value
    if not isinstance(value, Access) or site.statement.accumulation or not is_nest_of_one(kernel, site):
        return None
    source, chunk = kernel.buffer(value.buffer), ACCESS_BYTES // kernel.buffer(array).dtype.itemsize
    last = (source.order or range(len(source.dims)))[-1]
    along = [d for d in range(len(site.scopes)) if step_of(kernel, target, d) == 1 == step_of(kernel, value, d)]
    whole = [d for d in along if value.indices[last] == Affine.iterator(d)]
    row = source.dims[last].extent
    fits = row.is_constant and row.offset % chunk == 0 and source.dtype == kernel.buffer(array).dtype
    return site if fits and any((site.scopes[d].extent.constant or 1) % chunk == 0 for d in whole) else None


def _joined(site: Site) -> list[int]:
    """The depths of the scopes that go along one dimension of what is written together with the next scope, the
    outermost first. Raises ArgumentError where the scopes of a dimension do not follow one another."""
    indices = site.statement.target.indices
    along = [sorted(index.iterators) for index in indices if isinstance(index, Affine) and index.iterators]
    require(all(depths == [*range(depths[0], depths[-1] + 1)] for depths in along), "rows of a matrix")
    depths = [depth for of_dim in along for depth in of_dim]
    require(len(depths) == len({*depths}), "rows of a matrix")
    return sorted(depth for of_dim in along for depth in of_dim[:-1])
