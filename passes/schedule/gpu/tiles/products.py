"""Products of matrices on a GPU: tiles of the operands in shared memory, a tile of the result in registers.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition
from dojoir.passes.base.move import Move, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.sinking import LiftScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.products import Product, products
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.gpu.sharing.copies import Marked, mark_all, without_ones
from dojoir.passes.schedule.gpu.sharing.padded import guards_outside, lanes_at_most
from dojoir.passes.schedule.gpu.sharing.threads import known_extent, shared_among
from dojoir.passes.schedule.gpu.tiles.turns import Operand, through_two_buffers
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fusing import fuse
from dojoir.passes.schedule.steps.spots import Spot, act, first_nest, nested, spot, stand_alone
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PadDims, PlaceBuffer, ReorderDims
from dojoir.passes.storage.staging import Stage
from dojoir.sets.kernel_sets import sets_of
from dojoir.types.quads import QUAD

GROUP = 4
"""How many neighbours of a tile a thread has: one access of shared memory gives so many f32."""

PADDING = 4
"""By how many elements the rows of a turned tile are apart more, so that threads write to different banks."""


class BlockTile(NamedTuple):
    """The part of a product that a block of a GPU has at a time: rows and columns of the result, and the number of
    terms of the sums. Then come the rows and columns of each thread."""

    height: int
    width: int
    depth: int
    down: int
    across: int

    @property
    def threads(self) -> int:
        """How many threads have it."""
        return (self.height // self.down) * (self.width // self.across)

    def has_room(self, machine: Machine, itemsize: int) -> bool:
        """Whether a machine has room for it, of elements of so many bytes: the results of a thread in half of its
        registers, two tiles of each operand in the memory of a block."""
        results = self.down * self.across * max(itemsize, 4)
        copies = 2 * self.depth * (self.height + self.width + 2 * PADDING) * itemsize
        return results <= (machine.thread_bytes + 4) // 2 and copies <= machine.shared_bytes


def share_tile(trace: Trace, node: str, array: str, copy: str, threads: int) -> None:
    """Makes the node at `node`, inside of a block of a GPU, work on a `copy` of what it touches of an `array`, in
    shared memory. `threads` threads fill it, 16 bytes an access as the array lies, where their number divides it. A
    tile that is higher than wide is turned, its rows padded.

    >>> import dojoir
    >>> kernel = dojoir.parse('''kernel turned(N)
    ... in  x: f32[16*N, 64]
    ... out y: f32[N, 64, 16]
    ... N
    ... | 64 : bx
    ... | | 16
    ... | | | y[{0}, {1}, {2}] = x[16*{0} + {2}, {1}]
    ... ''')
    >>> trace = dojoir.parse_pipeline("share_tile(0.0, x, t, 64)")[0].on(kernel)
    >>> print(trace.apply("bind(0, gx)"))
    kernel turned(N)
    in  x: f32[16*N, 64]
    out y: f32[N, 64, 16]
    tmp t: f32[16, 64] shared
    <BLANKLINE>
    N : gx
    | 64 : bx
    | | 4 : u
    | | | 4 : v
    | | | | t[4*{2} + {1} // 16, {3} + 4*({1} % 16)] = x[16*{0} + 4*{2} + {1} // 16, {3} + 4*({1} % 16)]
    | 64 : bx
    | | 16
    | | | y[{0}, {1}, {2}] = t[{2}, {1}]
    <BLANKLINE>
    """
    mark_all(trace, tile_in_shared(trace, spot(trace, trace.kernel.path(node)), array, copy, threads))


def tile_in_shared(
    trace: Trace,
    node: Spot,
    array: str,
    copy: str,
    threads: int,
    only: tuple[int, ...] = (),
    quads: int | None = None,
    lay: Callable[[Trace, str], None] | None = None,
) -> list[Marked]:
    """Does `share_tile` without the marks, for a node that is followed; `only` are the accesses that `stage`
    redirects. Along the dimension `quads` the copy is in fours, which lie side by side; `lay` says another way to
    lay it out, whose innermost dimension stays that of the array. Returns the marks: each move after a mark is held
    against what it promises, so they come last."""
    act(trace, Stage, node, array, copy, "in", only)
    copied = without_ones(trace, node.beside(-1))
    act(trace, PlaceBuffer, copy, "shared")
    itemsize = trace.kernel.buffer(array).dtype.itemsize
    widest = QUAD if quads is not None else ACCESS_BYTES // itemsize
    dims = [_constant(dim.extent, copy) for dim in trace.kernel.buffer(copy).dims]
    last = len(dims) - 1
    high = max((d for d in range(last) if dims[d] > 1), default=last)
    if quads is not None:
        lay_in_fours(trace, copy, quads)
    elif lay is not None:
        lay(trace, copy)
    elif dims[last] < dims[high]:
        act(trace, ReorderDims, copy, (*(d for d in range(last + 1) if d != high), high))
        act(trace, PadDims, copy, high, PADDING)
    return spread_copy(trace, copied, copy, dims, threads, widest)


def spread_copy(
    trace: Trace, copied: Spot, copy: str, dims: Sequence[int], threads: int, widest: int
) -> list[Marked]:
    """Shares the nest that fills a copy, which has a tile of so many elements, out over threads, in accesses of
    `widest` neighbours at most. Returns the marks."""
    marks: list[Marked] = []
    *around, innermost = nested(copied)
    elements, width = prod(dims), lanes_at_most(innermost, widest)
    while width > 1 and (dims[-1] % width or elements % (width * threads)):
        width //= 2
    if elements % (width * threads):
        message = f"{threads} threads do not share the {elements} elements of {copy} equally"
        raise ArgumentError(message, "bad-arguments")
    lanes = innermost
    if 1 < width < dims[-1]:
        act(trace, Split, innermost, width)
        around, lanes = [*around, innermost], innermost.child(0)
    if width > 1:
        marks += [(Vectorize, scope) for scope in guards_outside(trace, lanes)]
        around.pop()
    for _ in around:
        act(trace, Collapse, copied)
    shared = copied
    if elements > width * threads:
        shared = shared_among(trace, copied, threads)
        marks.append((Unroll, copied))
    return [*marks, (Bind, shared, "bx")]


def lay_in_fours(trace: Trace, copy: str, dim: int) -> None:
    """Makes four neighbours along a dimension of an array contiguous: the dimension is split by four, and the part
    of four elements becomes the innermost one."""
    last = len(trace.kernel.buffer(copy).dims) - 1
    act(trace, SplitDim, copy, dim, QUAD)
    others = (d for d in range(last + 2) if d not in (dim, dim + 1))
    act(trace, ReorderDims, copy, (dim, *others, dim + 1))


def tile_product(
    trace: Trace, rows: str, height: int = 128, width: int = 128, depth: int = 8, down: int = 8, across: int = 8
) -> None:
    """Gives the product of matrices whose rows are at `rows` to blocks of a GPU, `height`×`width` results each.
    Tiles of `depth` elements of each row and column go through shared memory, in turns of two buffers where the
    threads share a tile equally. A thread has `down`×`across` results in registers, in groups of 4 neighbours. The
    tile divides all sizes: constants, or open ones of which facts say so.

    >>> import dojoir
    >>> kernel = dojoir.kernels.load("matmul").specialize(N=256, M=256, K=64)
    >>> tiled = dojoir.parse_pipeline("tile_product(0, 64, 64, 8, 4, 8)")[0].on(kernel).kernel
    >>> for buffer in tiled.buffers:
    ...     if buffer.storage == "shared":
    ...         print(buffer.name, [str(dim.extent) for dim in buffer.dims])
    a_tile ['64', '4', '2', '8']
    b_tile ['4', '2', '8', '64']
    """
    outermost = spot(trace, trace.kernel.path(rows))
    tile_blocks(trace, outermost, BlockTile(height, width, depth, down, across))
    grid_of_tiles(trace, outermost)


def grid_of_tiles(trace: Trace, rows: Spot) -> None:
    """Gives the blocks of a tiled product, rows and in them columns, to those of a GPU."""
    act(trace, Bind, rows, "gy")
    act(trace, Bind, rows.child(0), "gx")


def tile_blocks(trace: Trace, rows: Spot, tile: BlockTile) -> None:
    """Does `tile_product` for the product whose rows are at a place, without the marks of the grid."""
    product = next((p for p in products(trace.kernel) if p.rows == rows.path), None)
    if product is None:
        message = f"{rows} is no scope over the rows of a product of matrices such as library:matmul"
        raise ArgumentError(message, "bad-arguments")
    _fits(rows, product, tile)
    fuse(trace, product.site.path)
    columns = rows.child(0)
    act(trace, Tile, (rows, columns), (tile.height, tile.width))
    down = columns.child(0)
    known_extent(trace, down, tile.height)
    known_extent(trace, down.child(0), tile.width)
    result = product.site.statement.target.buffer
    own = fresh_name(trace.kernel, f"{result}_tile")
    act(trace, Stage, down, result, own, "out")
    written = without_ones(trace, down.beside(1))
    multiplied = stand_alone(trace, first_nest(down.child(0)), 2)
    sums = multiplied.child(0, 0)
    act(trace, LiftScope, sums, 2)
    act(trace, Split, sums, tile.depth)
    known_extent(trace, sums.child(0), tile.depth)
    for nest in columns.scopes():
        if nest.path == sums.path:
            multiplied = _spread(trace, multiplied, tile, 1, Unroll)
        else:
            _spread(trace, nest, tile, 0, Vectorize if nest.path == written.path else Unroll)
    dims = len(trace.kernel.buffer(own).dims)
    for dim, size, each in ((dims - 1, tile.width, tile.across), (dims - 2, tile.height, tile.down)):
        act(trace, SplitDim, own, dim, size * GROUP // each)
        act(trace, SplitDim, own, dim + 1, GROUP)
    act(trace, PlaceBuffer, own, "reg")
    several = product.site.scopes[-1].extent.constant != tile.depth
    operands = _operands(product, tile) if several else None
    if operands and tried(trace, lambda t: through_two_buffers(t, sums, operands, tile.depth, tile.threads)):
        return
    inner = len(product.site.scopes) - 1
    for array in dict.fromkeys(a.buffer for a in product.site.statement.reads if depends(a, inner)):
        copy = fresh_name(trace.kernel, f"{array}_tile")
        mark_all(trace, tile_in_shared(trace, multiplied, array, copy, tile.threads))


def _fits(rows: Spot, product: Product, tile: BlockTile) -> None:
    """Raises ArgumentError where a tile has no whole groups, or is not seen to divide the sizes of a product."""
    sizes, parts = (tile.height, tile.width, tile.depth), (tile.down, tile.across, 0)
    for scope, size, each in zip(product.site.scopes[-3:], sizes, parts, strict=True):
        _whole(rows, scope.extent.bounds[0], max(size, 1))
        if size < 1 or (each and size % each) or each % GROUP or each < 0:
            message = f"tiles of {size} in parts of {each or 1} are not in groups of {GROUP}"
            raise ArgumentError(message, "bad-arguments")


def _operands(product: Product, tile: BlockTile) -> tuple[Operand, Operand] | None:
    """The two arrays of a product of f32, with their dimensions; None where their elements are found otherwise."""
    row, column, inner = (len(product.site.scopes) - n for n in (3, 2, 1))
    found: list[Operand] = []
    for access in product.site.statement.reads:
        dims = {depth: [d for d, i in enumerate(access.indices) if isinstance(i, Affine) and depth in i.iterators]
                for depth in (row, column, inner)}  # fmt: skip
        along = row if dims[row] else column
        if len(dims[along]) != 1 or len(dims[inner]) != 1 or access.buffer == product.site.statement.target.buffer:
            return None
        found.append(
            Operand(access.buffer, dims[along][0], dims[inner][0], tile.height if along == row else tile.width)
        )
    return (found[0], found[1]) if len({operand.array for operand in found}) == 2 == len(found) else None


class Spread(NamedTuple):
    """A nest over a tile, shared out: rows and columns of threads, and inside of them what a thread does."""

    down: Spot
    across: Spot
    last: type[Move]
    """How the innermost scope of a thread runs."""

    def mark(self, trace: Trace) -> None:
        """Runs it on threads, and writes out what a thread does. Raises IllegalMove where a mark is refused."""
        act(trace, Bind, self.down, "by")
        act(trace, Bind, self.across, "bx")
        *around, innermost = nested(self.across.child(0))
        for scope in around:
            act(trace, Unroll, scope)
        act(trace, self.last, innermost)


def spread_tile(trace: Trace, rows: Spot, tile: BlockTile, loops: int, last: type[Move]) -> Spread:
    """Shares a nest over the rows and columns of a tile out, with `loops` scopes around it inside of what goes to
    threads. Raises IllegalMove where a move is refused."""
    columns = rows.child(0)
    for scope, size, each in ((rows, tile.height, tile.down), (columns, tile.width, tile.across)):
        act(trace, Split, scope, size * GROUP // each)
        act(trace, Split, scope.child(0), GROUP)
    down, across = rows.child(0), columns.child(0)
    act(trace, LiftScope, down, 1 + loops)
    act(trace, LiftScope, across, 3 + loops)
    return Spread(down, across, last)


def _spread(trace: Trace, rows: Spot, tile: BlockTile, loops: int, last: type[Move]) -> Spot:
    """The same on threads. Returns the outermost scope over threads, which is around all of it."""
    spread = spread_tile(trace, rows, tile, loops, last)
    spread.mark(trace)
    return spread.down


def _whole(rows: Spot, extent: Affine, size: int) -> None:
    """Raises ArgumentError where tiles of `size` are not seen to divide an extent of the nest that begins with
    `rows`."""
    if extent.is_constant and extent.offset % size:
        raise ArgumentError(f"tiles of {size} do not divide {extent}", "bad-arguments")
    if not extent.is_constant:
        whole = Condition(extent % size, "==", Affine.constant(0))
        if not sets_of(rows.trace.kernel).holds_around(rows.path, [whole]):
            message = (
                f"{extent} of {rows} is no constant, and not known to be a multiple of {size}: fix its size, "
                f"or say `where {extent} % {size} == 0`"
            )
            raise ArgumentError(message, "bad-arguments")


def _constant(extent: Affine, what: str) -> int:
    if not extent.is_constant:
        message = f"{extent} of {what} is no constant: fix its size"
        raise ArgumentError(message, "bad-arguments")
    return extent.offset
