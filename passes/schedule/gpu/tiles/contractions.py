"""Contractions on a GPU: a block has a tile of the result, a thread a few rows and columns of it in registers, and
what they share of the operands goes through shared memory.

Of what the result goes along, one scope is the columns, along which it lies side by side, and one the rows, along
which another operand goes; all others are the grid's. Of what is summed, one scope is tiled; the others, as the
windows of a convolution, are loops of a block around it. Sizes that a tile does not divide have guards.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).
"""

from __future__ import annotations

from typing import Literal

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Condition, Path, Site
from dojoir.ir.words import GRID
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.once import RemoveScope
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.loops.sinking import LiftScope, SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.forms.nests import Sum, known, sum_at, trips
from dojoir.passes.schedule.gpu.sharing.copies import Marked, copied_in_shared, mark_all, without_ones
from dojoir.passes.schedule.gpu.sharing.threads import known_extent
from dojoir.passes.schedule.gpu.tiles.convolutions import guards_inside
from dojoir.passes.schedule.gpu.tiles.products import BlockTile, lay_in_fours, spread_tile, tile_in_shared
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fusing import fuse
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body, in_two, nested, spot, stand_alone
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PadDims, PlaceBuffer, ReorderDims
from dojoir.passes.storage.staging import Stage
from dojoir.types.quads import QUAD, multiplies_bytes

MOST_STEP = 4
"""How many elements apart neighbours of the result may be: those of a residue of a transposed convolution."""

MOST_FACTORS = 4
"""How many accesses have a tile of their own, where one array has several."""

WASTE = 17 / 16
"""By how much more than smaller tiles larger ones may cover: a thread with more results reads less for each."""

ZERO = Affine.constant(0)

Triangle = Literal["", "begins", "ends"]
"""Where the sums of a triangle do so at the row."""

QUADS_DEPTHS = (32, 16, 8, 4)
"""How many terms of products of bytes a block has at a time, the first that divides their number."""

GROUP = 4
"""How many neighbours of a tile a thread has: one access of shared memory gives so many f32."""


def large_tiles(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles for results of which there are many."""
    _contraction(trace, path, True)


def small_tiles(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles for results of which there are few: more blocks, each thread with fewer results. Not of f64, of which
    fewer results a thread were slower in all shapes measured."""
    narrow = all(
        trace.kernel.buffer(s.statement.target.buffer).dtype.bits <= 32 for s in sites_in(trace.kernel, path)
    )
    known(narrow, "sums of at most 32 bits")
    _contraction(trace, path, False)


def quad_tiles(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles for sums of products of bytes, whose terms lie in fours in shared memory and are summed four at a time:
    GPUs have an instruction for that. Raises DojoError where the nest is none, or a sum has a rest."""
    _contraction(trace, path, True, True)


def _contraction(trace: Trace, path: Path, large: bool, quads: bool = False) -> None:
    """Brings rows and columns inside of all else that is kept, and tiles them."""
    _whole_result(trace, path)
    guards_inside(trace, spot(trace, path))
    found = sum_at(trace, path)
    first = _shifted(trace, found)
    row, column = roles(trace, found)
    begins = first is not None and first.path == row.path
    known(
        quads or first is not None or not _in_two_buffers(trace, found), "a product that the rules give two buffers"
    )
    known(not quads or multiplies_bytes(found.site.statement, trace.kernel.buffer), "a sum of products of bytes")
    triangle: Triangle = "begins" if begins else "ends" if _squared(trace, found, row) else ""
    for scope in (row, column):
        order = [s.path for s in sorted(found.kept, key=lambda s: len(s.path))]
        levels = len(order) - 1 - order.index(scope.path)
        if levels:
            act(trace, SinkScope, scope, levels)
    tile = _shape(found, row, column, large)
    if quads:
        tile = tile._replace(depth=_whole_quads(found))
    _tile(trace, found, row, column, tile, triangle, quads)


def _whole_quads(found: Sum) -> int:
    """How many terms of products of bytes a block has at a time: what divides their number, in fours."""
    longest = max(map(_extent, found.summed))
    depth = next((depth for depth in QUADS_DEPTHS if longest % depth == 0), 0)
    known(depth > 0, "a sum of whole fours")
    return depth


def _in_two_buffers(trace: Trace, found: Sum) -> bool:
    """Whether a contraction is a plain product of matrices that whole tiles divide: the rules fetch the next tiles
    of it while a block multiplies with those at hand, of which the model of the machine says nothing."""
    arrays = {access.buffer for access in found.site.statement.reads}
    whole = all((s.scope.extent.constant or 1) % 64 == 0 for s in (*found.kept, *found.summed))
    return (
        len(found.kept) == 2
        and len(found.summed) == 1
        and whole
        and len(arrays - {found.site.statement.target.buffer}) == 2
    )


def _whole_result(trace: Trace, path: Path) -> None:
    """Lets a scope over a triangle of a result run to a constant, under a guard beyond the diagonal."""
    scopes = nested(spot(trace, path))
    for scope in scopes:
        for other in scopes:
            end = scope.scope.extent.bounds[0]
            result = all(depends(s.statement.target, scope.depth) for s in sites_in(trace.kernel, scope.path))
            size = other.scope.extent.constant
            if result and size is not None and end.iterators and (end - other.iterator).is_constant:
                guard_body(trace, scope, [Condition(scope.iterator, "<", end)])
                act(trace, SetExtent, scope, end - other.iterator + (size - 1))


def _shifted(trace: Trace, found: Sum) -> Spot | None:
    """Counts the terms of a sum that begins at a row or a column, as `{k} + {row}` says, from the start of the
    array, under a guard before it. Returns the scope at which it begins, if there is one."""
    for scope in found.summed:
        bounds = scope.scope.extent.bounds
        for row in found.kept:
            if len(bounds) == 1 and row.depth in bounds[0].iterators - (bounds[0] + row.iterator).iterators:
                known(len(found.summed) == 1, "a sum that begins at the row")
                act(trace, Shift, scope, row.iterator)
                return row
    return None


def _squared(trace: Trace, found: Sum, row: Spot) -> bool:
    """Lets a sum that ends at the row run to a constant, under a guard beyond the row. Returns whether there
    is one."""
    triangular = False
    for scope in found.summed:
        end = scope.scope.extent.bounds[0]
        if row.depth in end.iterators:
            known(end - row.iterator in (ZERO, ZERO + 1) and len(found.summed) == 1, "a sum that ends at the row")
            guard_body(trace, scope, [Condition(scope.iterator, "<", end)])
            act(trace, SetExtent, scope, end - row.iterator + (_extent(row) - 1))
            triangular = True
    return triangular


def roles(trace: Trace, found: Sum) -> tuple[Spot, Spot]:
    """The scopes over rows and columns."""
    site = found.site
    target, *reads = site.statement.accesses
    factors = [a for a in dict.fromkeys(reads) if any(depends(a, s.depth) for s in found.summed)]
    known(len(factors) >= 2, "a contraction of two arrays")
    steps = {s.path: step_of(trace.kernel, target, s.depth, MOST_STEP) or 0 for s in found.kept}
    columns = [s for s in reversed(found.kept) if steps[s.path] > 0]
    known(bool(columns), "a result with columns")
    column = min(columns, key=lambda s: steps[s.path])
    across = [a for a in factors if depends(a, column.depth)]
    others = [a for a in factors if not depends(a, column.depth)]
    known(bool(across) and bool(others), "a contraction with columns")
    rows = [
        s for s in found.kept
        if s.path != column.path and any(depends(a, s.depth) for a in others)
        and not any(depends(a, s.depth) for a in across)
    ]  # fmt: skip
    known(bool(rows), "a contraction with rows")
    return max(rows, key=trips), column


def _extent(scope: Spot) -> int:
    extent = scope.scope.extent.constant
    known(extent is not None, "a contraction of constant sizes")
    return extent or 1


def _shape(found: Sum, row: Spot, column: Spot, large: bool) -> BlockTile:
    """The tile of a block. Of the shapes that were measured on an H200 (f32, sums of 64 to 4096 terms), 64 by 128
    with 8 by 8 a thread is within 2% of the fastest where there are many blocks, 64 by 64 with 4 by 4 where few."""
    width, across = side_of_tile(_extent(column), 128 if large else 64, 8 if large else 4)
    high = large and width < 64 and _extent(row) % 128 == 0  # as many results for a block of short rows
    height, down = side_of_tile(_extent(row), 128 if high else 64, 8 if large else 4)
    summed = max(map(_extent, found.summed))
    depth = next((d for d in (16, 8) if summed % d == 0), min(8, summed))
    return BlockTile(height, width, depth, down, across)


def side_of_tile(extent: int, most: int, each: int) -> tuple[int, int]:
    """How much of a dimension a block and a thread have: all of it where it is short and threads share it."""
    for size in (most, most // 2):
        if extent % size == 0:
            return size, each if size >= 64 else GROUP
    if extent <= most and extent % GROUP == 0:
        return extent, each if extent % each == 0 and extent >= 32 else GROUP
    covered = {size: -(-extent // size) * size for size in (most, most // 2)}
    size = most if covered[most] <= WASTE * covered[most // 2] else most // 2
    return size, each if size >= 64 else GROUP


def _tile(
    trace: Trace, found: Sum, row: Spot, column: Spot, tile: BlockTile, triangle: Triangle, quads: bool
) -> None:
    """Gives the tiles of a contraction, whose rows and columns are the innermost of what is kept, to blocks. Of a
    `triangle`, what all rows of a block sum up is without a guard, and what none of them does goes. With `quads`,
    four terms are the innermost scope."""
    site = found.site
    reads = dict.fromkeys(a for a in site.statement.reads if any(depends(a, s.depth) for s in found.summed))
    arrays = [a.buffer for a in reads]
    square = len(set(arrays)) < len(arrays) <= MOST_FACTORS  # of one array, each access has a tile, in their order
    operands = [(a, (0,) if square and a in arrays[n + 1 :] else ()) for n, a in enumerate(arrays)]
    if not square:
        operands = list(dict.fromkeys(operands))
    result = site.statement.target.buffer
    dims = [
        (dim_along(site.statement.target, row.depth), tile.height, tile.down),
        (dim_along(site.statement.target, column.depth), tile.width, tile.across),
    ]
    depths = [s.depth for s in found.summed]
    fuse(trace, site.path)
    others = [s for s in found.kept if s.path not in (row.path, column.path)]
    act(trace, Tile, (row, column), (tile.height, tile.width))
    down = column.child(0)
    own = fresh_name(trace.kernel, f"{result}_tile")
    act(trace, Stage, down, result, own, "out" if found.begins else "inout")
    act(trace, PlaceBuffer, own, "reg")  # here, where the nest is small: it is a question about all of it
    written = without_ones(trace, down.beside(1))
    sums = list(found.summed)
    multiplied = stand_alone(trace, sums[0], 2) if found.begins else down
    longest = max(sums, key=lambda s: (trips(s), _beside(trace, found.site, s)))
    in_fours = depths[sums.index(longest)] if quads else None
    if longest.path != sums[-1].path:
        act(trace, SinkScope, longest, len(sums) - 1 - [s.path for s in sums].index(longest.path))
        sums = [*(s for s in sums if s.place != longest.place), longest]
    for scope in sums:
        act(trace, LiftScope, scope, 2)
    if triangle:
        known(_extent(longest) % tile.height == 0, "a triangle of whole tiles")
        first = row.iterator * tile.height
        if triangle == "begins":
            before, longest = in_two(trace, Cut, longest, first)
            act(trace, DeleteNode, before)
            first = Affine.constant(tile.height)
        else:
            act(trace, SetExtent, longest, first + tile.height)
        parts = list(in_two(trace, Cut, longest, first))
        guards_inside(trace, parts[1 if triangle == "begins" else 0])
        parts = [turn for part in parts for turn in _turns(trace, part, tile.depth)]
    else:
        parts = _parts(trace, longest, tile.depth)
    products = sums[0].path if len(sums) > 1 else None
    turns = [part.path for part in parts]
    apart = [nest for nest in column.scopes() if nest.path != products and nest.path not in turns]
    shared = []
    for part in parts:
        whole_tile(trace, part.child(0, 0), tile)
        shared.append(spread_tile(trace, part.child(0, 0), tile, 1, Unroll))
        if quads:
            terms = shared[-1].across.child(0)
            act(trace, Split, terms, QUAD)
            act(trace, SinkScope, terms.child(0), len(nested(terms)) - 2)
    spread = [*shared]
    for nest in apart:
        is_masked = whole_tile(trace, nest, tile)
        last = Vectorize if nest.path == written.path and not is_masked else Unroll
        spread.append(spread_tile(trace, nest, tile, 0, last))
    for dim, size, each in sorted(dims, reverse=True):
        act(trace, SplitDim, own, dim, size * GROUP // each)
        act(trace, SplitDim, own, dim + 1, GROUP)
    marks: list[Marked] = []
    for multiplied in (one.down for one in shared):
        for array, only in operands:
            copy = fresh_name(trace.kernel, f"{array}_tile")
            along = None if in_fours is None else dim_along(next(a for a in reads if a.buffer == array), in_fours)
            marks += copied_tile(trace, multiplied, array, copy, tile.threads, only, along)
    mark_all(trace, marks)
    for one in spread:  # last, as each move after a mark is held against what it promises
        one.mark(trace)
    grid_of(trace, row, column, others)


def copied_tile(
    trace: Trace,
    node: Spot,
    array: str,
    copy: str,
    threads: int,
    only: tuple[int, ...] = (),
    quads: int | None = None,
) -> list[Marked]:
    """Copies the tile of an array to shared memory, by wide accesses where that is possible, along the dimension
    `quads` in fours. Returns the marks."""
    marks: list[Marked] = []
    if not tried(trace, lambda t: marks.extend(tile_in_shared(t, node, array, copy, threads, only, quads))):
        marks = copied_in_shared(trace, node, array, copy, threads, only)
        if quads is None:
            _turn(trace, copy)
        else:
            lay_in_fours(trace, copy, quads)
    return marks


def _parts(trace: Trace, summed: Spot, depth: int) -> list[Spot]:
    """Splits the longest sum into turns of `depth` terms, and one of the rest of them, which is a scope of its own.
    Returns the scopes over turns."""
    extent = _extent(summed)
    parts = [summed]
    if extent % depth and extent > depth:
        parts = list(in_two(trace, Cut, summed, Affine.constant(extent - extent % depth)))
    return [turn for part in parts for turn in _turns(trace, part, min(depth, _extent(part)))]


def _turns(trace: Trace, part: Spot, each: int) -> list[Spot]:
    """Splits a sum into turns of so many terms, which divide it."""
    act(trace, Split, part, each)
    known_extent(trace, part.child(0), each)
    return [part]


def _beside(trace: Trace, site: Site, scope: Spot) -> int:
    """How many arrays of a statement lie side by side along a scope."""
    return sum(step_of(trace.kernel, access, scope.depth) == 1 for access in site.statement.reads)


def _turn(trace: Trace, copy: str) -> None:
    """Lays a tile in shared memory out with its longest dimension side by side, as threads read it, its rows padded
    so that threads write to different banks."""
    extents = [dim.extent.offset for dim in trace.kernel.buffer(copy).dims]
    longest = max(range(len(extents)), key=lambda d: (extents[d], d))
    if longest != len(extents) - 1:
        order = [*(d for d in range(len(extents)) if d != longest), longest]
        act(trace, ReorderDims, copy, tuple(order))
        outer = max((d for d in order[:-1] if extents[d] > 1), default=None)
        if outer is not None:
            act(trace, PadDims, copy, longest, GROUP)


def dim_along(access: Access, depth: int) -> int:
    """The one dimension of an array that an access goes along with an iterator, which is the index of it."""
    found = [d for d, index in enumerate(access.indices) if isinstance(index, Affine) and depth in index.iterators]
    known(len(found) == 1, "a result with plain rows and columns")
    return found[0]


def whole_tile(trace: Trace, rows: Spot, tile: BlockTile) -> bool:
    """Makes the extents of the rows and columns of a tile constants, what is not of the result under a guard.
    Returns whether there is a guard."""
    columns = rows.child(0)
    ends = [
        Condition(scope.iterator, "<", bound)
        for scope in (rows, columns)
        for bound in scope.scope.extent.bounds
        if not bound.is_constant
    ]
    if ends:
        guard_body(trace, columns, ends)
    for scope, size in ((rows, tile.height), (columns, tile.width)):
        known_extent(trace, scope, size)
    return bool(ends)


def grid_of(trace: Trace, row: Spot, column: Spot, others: list[Spot]) -> None:
    """Blocks of columns and of rows, and all else; where that is more than a grid has dimensions, the outermost of
    it as one."""
    inner = [column, row]
    for single in [s for s in inner if s.scope.extent.constant == 1]:
        if len(others) + len(inner) > len(GRID):
            act(trace, RemoveScope, single)
            inner.remove(single)
    while len(others) + len(inner) > len(GRID):
        act(trace, Collapse, others[-2])
        others.pop()
    for scope, mark in zip((*inner, *reversed(others)), GRID, strict=False):
        act(trace, Bind, scope, mark)
