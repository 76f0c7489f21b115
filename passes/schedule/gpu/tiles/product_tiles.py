"""Products of matrices on a GPU: tiles of the operands in shared memory, a tile of the result in registers.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).

Products of matrices of open sizes on a GPU: tiles where they divide the sizes of a call, chosen there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Path, Scope
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.product_facts import MatrixProduct, product_at
from dojoir.passes.schedule.facts.strides import depends, dims_along, require
from dojoir.passes.schedule.gpu.sharing.threads import (
    copied_in_shared,
    guards_outside,
    lanes_at_most,
    shared_among,
    without_ones,
)
from dojoir.passes.schedule.gpu.tiles.double_buffers import StagedOperand, through_two_buffers
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.padding import whole_nest
from dojoir.passes.schedule.steps.spots import Array, Marked, Spot, act, first_nest, fuse, mark_all, nested, spot
from dojoir.passes.schedule.steps.versions import AtMost, Multiple, split_versions
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

    def kept(self, down: Spot, result: str, way: str, home: str = "reg") -> tuple[str, Spot]:
        """Keeps the tile of a result in registers around its rows. Returns its name and the nest that stores it."""
        own = down.stage(result, "tile", way, home)
        if way == "inout":
            without_ones(down.beside(-1))
        return own, without_ones(down.beside(1))

    def spread(self, rows: Spot, loops: int = 0, written: Spot | None = None) -> SharedNest:
        """Shares a nest over the rows and columns of a tile out, what is past the end of the result under a guard,
        with `loops` scopes around it inside of what goes to threads. What is `written` is so in lanes, where it has
        no guard. Raises IllegalMove where a move is refused."""
        is_written = written is not None and rows.path == written.path
        columns = rows.child(0)
        is_masked = whole_nest((rows, columns), (self.height, self.width)) is not None
        for scope, size, each in ((rows, self.height, self.down), (columns, self.width, self.across)):
            scope.split(size * GROUP // each).split(GROUP)
        down, across = rows.child(0), columns.child(0)
        down.lift(1 + loops)
        across.lift(3 + loops)
        return SharedNest(down, across, "v" if is_written and not is_masked else "u")

    def in_groups(self, trace: Trace, own: str, rows: int, columns: int) -> None:
        """Gives two dimensions of an array, along the rows and the columns of a tile, the parts that `spread` gives
        a nest: a thread has some groups of neighbours."""
        sizes = ((rows, self.height * GROUP // self.down), (columns, self.width * GROUP // self.across))
        for dim, size in sorted(sizes, reverse=True):
            Array(trace, own).split(dim, size).split(dim + 1, GROUP)


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
    mark_all(tile_in_shared(spot(trace, trace.kernel.path(node)), array, threads, name=copy))


def tile_in_shared(
    node: Spot, array: str, threads: int, only: tuple[int, ...] = (), quads: int | None = None, name: str = ""
) -> list[Marked]:
    """Does `share_tile` without the marks, for a node that is followed; `only` is of `stage`. Along the dimension
    `quads` the copy is in fours, which lie side by side. Returns the marks: each move after a mark is held against
    what it promises, so they come last."""
    trace = node.trace
    copy = node.stage(array, "tile", "in", only=only, name=name)
    copied = without_ones(node.beside(-1))
    home, buffer = Array(trace, copy).place("shared"), trace.kernel.buffer(copy)
    widest = QUAD if quads is not None else ACCESS_BYTES // buffer.dtype.itemsize
    dims = [_constant(dim.extent, copy) for dim in buffer.dims]
    last = len(dims) - 1
    high = max((d for d in range(last) if dims[d] > 1), default=last)
    if quads is not None:
        lay_in_fours(home, quads)
    elif dims[last] < dims[high]:
        home.inside(high).pad(high, PADDING)
    return spread_copy(copied, copy, dims, threads, widest)


def spread_copy(copied: Spot, copy: str, dims: Sequence[int], threads: int, widest: int) -> list[Marked]:
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
        around, lanes = [*around, innermost], innermost.split(width)
    if width > 1:
        marks += [(scope, "v") for scope in guards_outside(lanes)]
        around.pop()
    for _ in around:
        copied.collapse()
    shared = copied
    if elements > width * threads:
        shared = shared_among(copied, threads)
        marks.append((copied, "u"))
    return [*marks, (shared, "bx")]


def lay_in_fours(copy: Array, dim: int) -> None:
    """Makes four neighbours along a dimension of an array contiguous: the dimension is split by four, and the part
    of four elements becomes the innermost one."""
    copy.split(dim, QUAD)
    count = len(copy.trace.kernel.buffer(copy.name).dims)
    copy.order((dim, *(d for d in range(count) if d not in (dim, dim + 1)), dim + 1))


def copied_tile(
    node: Spot, array: str, threads: int, only: tuple[int, ...] = (), quads: int | None = None
) -> list[Marked]:
    """Copies the tile of an array to shared memory, by wide accesses where that is possible, along the dimension
    `quads` in fours. Returns the marks."""
    marks: list[Marked] = []
    if not tried(node.trace, lambda _: marks.extend(tile_in_shared(node, array, threads, only, quads))):
        copy, marks = copied_in_shared(node, array, threads, only)
        if quads is None:
            _longest_contiguous(Array(node.trace, copy))
        else:
            lay_in_fours(Array(node.trace, copy), quads)
    return marks


def _longest_contiguous(copy: Array) -> None:
    """Lays a tile in shared memory out with its longest dimension side by side, as threads read it, its rows padded
    so that threads write to different banks."""
    extents = [dim.extent.offset for dim in copy.trace.kernel.buffer(copy.name).dims]
    longest = max(range(len(extents)), key=lambda d: (extents[d], d))
    if longest != len(extents) - 1:
        copy.inside(longest)
        if any(extents[d] > 1 for d in range(len(extents)) if d != longest):
            copy.pad(longest, GROUP)


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
    grid_of_tiles(outermost)


def grid_of_tiles(rows: Spot) -> None:
    """Gives the blocks of a tiled product, rows and in them columns, to those of a GPU."""
    mark_all(((rows, "gy"), (rows.child(0), "gx")))


def tile_blocks(trace: Trace, rows: Spot, tile: BlockTile) -> None:
    """Does `tile_product` for the product whose rows are at a place, without the marks of the grid."""
    product = product_at(trace.kernel, rows.path)
    if product is None:
        message = f"{rows} is no scope over the rows of a product of matrices such as library:matmul"
        raise ArgumentError(message, "bad-arguments")
    _fits(rows, product, tile)
    fuse(trace, product.site.path)
    columns = rows.child(0)
    act(trace, Tile, (rows, columns), (tile.height, tile.width))
    down = columns.child(0)
    down.constant(tile.height)
    down.child(0).constant(tile.width)
    target = product.site.statement.target
    row_dim, column_dim = (dims_along(target, depth)[-1] for depth in (columns.depth - 1, columns.depth))
    goes_on = isinstance(down.child(0).body[0], Scope)  # sums that something before has begun
    own, written = tile.kept(down, target.buffer, "inout" if goes_on else "out", "")
    require(
        prod(d.extent.offset for d in trace.kernel.buffer(own).dims) == tile.height * tile.width, "one result each"
    )
    multiplied = down if goes_on else first_nest(down.child(0)).alone(2)
    sums = multiplied.child(0, 0)
    sums.lift(2)
    sums.split(tile.depth)
    sums.child(0).constant(tile.depth)
    for nest in columns.scopes():
        if nest.path == sums.path:
            spread = tile.spread(multiplied, 1)
            multiplied = spread.down
        else:
            spread = tile.spread(nest, 0, written)
        spread.mark()
    tile.in_groups(trace, own, row_dim, column_dim)
    Array(trace, own).place("reg")
    several = product.site.scopes[-1].extent.constant != tile.depth
    operands = _operands(product, tile) if several else None
    if operands and tried(trace, lambda t: through_two_buffers(t, sums, operands, tile.depth, tile.threads)):
        return
    inner = len(product.site.scopes) - 1
    for array in dict.fromkeys(a.buffer for a in product.site.statement.reads if depends(a, inner)):
        mark_all(tile_in_shared(multiplied, array, tile.threads))


def _fits(rows: Spot, product: MatrixProduct, tile: BlockTile) -> None:
    """Raises ArgumentError where a tile has no whole groups, or is not seen to divide the sizes of a product."""
    sizes, parts = (tile.height, tile.width, tile.depth), (tile.down, tile.across, 0)
    for scope, size, each in zip(product.site.scopes[-3:], sizes, parts, strict=True):
        _whole(rows, scope.extent.bounds[0], max(size, 1))
        if size < 1 or (each and size % each) or each % GROUP or each < 0:
            message = f"tiles of {size} in parts of {each or 1} are not in groups of {GROUP}"
            raise ArgumentError(message, "bad-arguments")


def _operands(product: MatrixProduct, tile: BlockTile) -> tuple[StagedOperand, StagedOperand] | None:
    """The two arrays of a product of f32, with their dimensions; None where their elements are found otherwise."""
    row, column, inner = (len(product.site.scopes) - n for n in (3, 2, 1))
    found: list[StagedOperand] = []
    for access in product.site.statement.reads:
        depth, size = (row, tile.height) if dims_along(access, row) else (column, tile.width)
        along, summed = dims_along(access, depth), dims_along(access, inner)
        if len(along) != 1 or len(summed) != 1 or access.buffer == product.site.statement.target.buffer:
            return None
        found.append(StagedOperand(access.buffer, along[0], summed[0], size))
    return (found[0], found[1]) if len({operand.array for operand in found}) == 2 == len(found) else None


class SharedNest(NamedTuple):
    """A nest over a tile, shared out: rows and columns of threads, and inside of them what a thread does."""

    down: Spot
    across: Spot
    last: str
    """The role of the innermost scope of a thread."""

    def mark(self) -> None:
        """Runs it on threads, and writes out what a thread does. Raises IllegalMove where a mark is refused."""
        *around, innermost = nested(self.across.child(0))
        mark_all(
            [(self.down, "by"), (self.across, "bx"), *((scope, "u") for scope in around), (innermost, self.last)]
        )


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


LARGE, MIDDLE = BlockTile(256, 128, 8, 16, 8), BlockTile(128, 128, 8, 16, 8)
DEEP, SMALL = BlockTile(64, 64, 16, 8, 4), BlockTile(64, 64, 8, 4, 8)
HALVES = BlockTile(128, 64, 16, 8, 8), BlockTile(128, 64, 8, 8, 8)
"""In place of the larger ones, where a thread has no room for these: of elements of 8 bytes. The deeper one waits
half as often."""

ENOUGH = 0.9
"""The least share of the multiprocessors that tiles must occupy, to be worth their size."""


def product_by_size(
    trace: Trace, path: Path, batched: bool, machine: Machine, rest: Callable[[Trace, Path], None]
) -> None:
    """Gives the product of matrices at `path` (of a batch of them, if `batched`) tiles. Large ones where there are
    enough of these for all multiprocessors, small ones where there are not, and the schedule of `rest` to sizes
    that these do not divide. Raises DojoError where it is no product."""
    product = _product_of(spot(trace, path), batched)
    extents = [scope.extent.bounds[0] for scope in product.site.scopes[-3:]]
    itemsize = max(trace.kernel.buffer(a.buffer).dtype.itemsize for a in product.site.statement.accesses)
    fitting = [tile for tile in (LARGE, MIDDLE, DEEP, SMALL) if tile.has_room(machine, itemsize)]
    if MIDDLE not in fitting:
        fitting[:0] = [tile for tile in HALVES if tile.has_room(machine, itemsize)]
    if all(extent.is_constant for extent in extents):
        results = prod(scope.extent.constant or 1 for scope in product.site.scopes[-4 if batched else -3 : -1])
        for tile in _in_order(results, batched, machine, fitting):
            if tried(trace, partial(_whole_product, path=path, batched=batched, tile=tile)):
                return
        raise ArgumentError("no tile divides the sizes", "bad-arguments")
    open_tiles = [tile for tile in ((SMALL,) if batched else (MIDDLE, HALVES[1], SMALL)) if tile in fitting]
    if not open_tiles:
        raise ArgumentError(f"{machine.name} has no room for a tile", "bad-arguments")
    tile = open_tiles[0]
    uneven = [e for e, size in zip(extents, tile, strict=False) if e.is_constant and e.offset % size]
    if uneven:
        raise ArgumentError(f"no tile divides {uneven[0]}", "bad-arguments")
    properties = [Multiple(str(e), size) for e, size in zip(extents, tile, strict=False) if not e.is_constant]
    others, here = split_versions(trace, path, *properties)
    places = [here]
    if tile != SMALL:
        side = 2 * int((machine.multiprocessors * tile.height * tile.width) ** 0.5)
        places = [*split_versions(trace, here, AtMost(f"{extents[0]} + {extents[1]}", side - 1))]
    versions = [spot(trace, at) for at in places]
    rest(trace, others)
    for version, size in zip(versions, (tile, SMALL), strict=False):
        tile_blocks(trace, _rows(version, batched), size)
    for version in versions:  # last, as each move after them is held against what they promise
        _grid(version, batched)


def _in_order(results: int, batched: bool, machine: Machine, fitting: Sequence[BlockTile]) -> list[BlockTile]:
    """The tiles to try for so many results of a product, or of a batch of them, of those for which there is room:
    the largest of which there are enough first, then smaller ones. Blocks of one small product, of which few run at
    once, wait half as often for each other's copies with deep tiles."""
    tiles = [tile for tile in fitting if not (batched and tile == DEEP)]
    enough = [tile for tile in tiles if results >= ENOUGH * tile.height * tile.width * machine.multiprocessors]
    return [*enough, *(tile for tile in reversed(tiles) if tile not in enough)]


def _product_of(nest: Spot, batched: bool) -> MatrixProduct:
    """The product of matrices, rows, columns and sums inside each other, of a nest."""
    rows = _rows(nest, batched).path
    product = product_at(nest.trace.kernel, rows)
    if product is None or any(len(scope.extent.bounds) > 1 for scope in product.site.scopes[-3:]):
        raise ArgumentError("no product of matrices", "bad-arguments")
    return product


def _rows(nest: Spot, batched: bool) -> Spot:
    """The rows of a product, or of each in a batch."""
    return nest.child(0) if batched else nest


def _grid(nest: Spot, batched: bool) -> None:
    """Gives the tiles of a product, or of each in a batch, to the blocks of a GPU."""
    grid_of_tiles(_rows(nest, batched))
    if batched:
        nest.mark("gz")


def _whole_product(trace: Trace, path: Path, batched: bool, tile: BlockTile) -> None:
    nest = spot(trace, path)
    tile_blocks(trace, _rows(nest, batched), tile)
    _grid(nest, batched)
