"""Contractions on a GPU: a block has a tile of the result, a thread a few rows and columns of it in registers, and
what they share of the operands goes through shared memory.

Of what the result goes along, one scope is the columns, along which it lies side by side, and one the rows, along
which another operand goes; all others are the grid's. Of what is summed, one scope is tiled; the others, as the
windows of a convolution, are loops of a block around it. Sizes that a tile does not divide have guards.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).

Products whose terms are summed block by block, each sum with a factor of its own, on a GPU: as of weights in a
few bits, of which so many share a scale.

    y[m, n] = 0
    B
    | t = 0
    | 32
    | | t += x[m, 32*b + k] * q[n, 32*b + k]
    | y[m, n] += t * s[n, b]

A block has a tile of the result, as of any contraction, and a thread a few rows and columns of it, of which both
`y` and `t` are in registers. What the rows share goes through shared memory, one block of terms at a time. What is
packed is read by each thread for its columns: a word has several of its terms.
"""

from __future__ import annotations

from typing import Literal

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Condition, Path, Scope, Site, Statement
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.product_facts import goes_along
from dojoir.passes.schedule.facts.strides import depends, dims_along, is_plain, require, sites_in, step_of
from dojoir.passes.schedule.forms.parting import Sum, sum_at, trips
from dojoir.passes.schedule.gpu.sharing.threads import grid
from dojoir.passes.schedule.gpu.tiles.convolutions import guards_inside
from dojoir.passes.schedule.gpu.tiles.product_tiles import BlockTile, copied_tile
from dojoir.passes.schedule.steps.spots import Array, Marked, Spot, act, add_dim, fuse, mark_all, nested, spot
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


def large_tiles(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Tiles for results of which there are many. Returns the nests that it makes of a triangle of sums that are
    begun in it."""
    apart = _begun_apart(trace, path)
    if not apart:
        _contraction(trace, path, True)
    return apart


def small_tiles(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles for results of which there are few: more blocks, each thread with fewer results. Not of f64, of which
    fewer results a thread were slower in all shapes measured."""
    targets = (trace.kernel.buffer(s.statement.target.buffer) for s in sites_in(trace.kernel, path))
    require(all(target.dtype.bits <= 32 for target in targets), "sums of at most 32 bits")
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
    require(quads or first is not None or not _in_two_buffers(found), "a product that the rules give two buffers")
    require(not quads or multiplies_bytes(found.site.statement, trace.kernel.buffer), "a sum of products of bytes")
    triangle: Triangle = "begins" if begins else "ends" if _squared(trace, found, row) else ""
    found.sink_kept(row, column)
    tile = _shape(found, row, column, large)
    if quads:
        tile = tile._replace(depth=_whole_quads(found))
    _tile(trace, found, row, column, tile, triangle, quads)


def _begun_apart(trace: Trace, path: Path) -> list[Spot]:
    """Gives what the sums of a triangle begin with a nest of its own, as a tile goes beyond the diagonal. Returns
    that nest and the one of the sums; none where it is no triangle, or they are not begun in it."""
    scopes = nested(spot(trace, path))
    depths, last = {scope.depth for scope in scopes}, scopes[-1]
    triangle = any(depths & bound.iterators for scope in scopes for bound in scope.scope.extent.bounds)
    if not triangle or [isinstance(node, Statement) for node in last.body] != [True, False]:
        return []
    sums = last.child(1).alone(len(scopes))
    return [sums.beside(-1), sums]


def _whole_quads(found: Sum) -> int:
    """How many terms of products of bytes a block has at a time: what divides their number, in fours."""
    longest = max(map(_extent, found.summed))
    depth = next((depth for depth in QUADS_DEPTHS if longest % depth == 0), 0)
    require(depth > 0, "a sum of whole fours")
    return depth


def _in_two_buffers(found: Sum) -> bool:
    """Whether a contraction is a plain product of matrices that whole tiles divide: the rules fetch the next tiles
    of it while a block multiplies with those at hand, of which the model of the machine says nothing."""
    target, *reads = found.site.statement.accesses
    whole = all((s.scope.extent.constant or 1) % 64 == 0 for s in (*found.kept, *found.summed))
    arrays = {access.buffer for access in reads} - {target.buffer}
    return whole and (len(found.kept), len(found.summed), len(arrays)) == (2, 1, 2)


def _whole_result(trace: Trace, path: Path) -> None:
    """Lets a scope over a triangle of a result run to a constant, under a guard beyond the diagonal."""
    scopes = nested(spot(trace, path))
    for scope in scopes:
        for other in scopes:
            end = scope.scope.extent.bounds[0]
            result = all(depends(s.statement.target, scope.depth) for s in sites_in(trace.kernel, scope.path))
            size = other.scope.extent.constant
            if result and size is not None and end.iterators and (end - other.iterator).is_constant:
                _run_to(scope, end - other.iterator + (size - 1))


def _run_to(scope: Spot, end: Affine) -> None:
    """Lets a scope run to another end, under a guard beyond its own."""
    scope.guard([Condition(scope.iterator, "<", scope.scope.extent.bounds[0])])
    scope.bound(end)


def _shifted(trace: Trace, found: Sum) -> Spot | None:
    """Counts the terms of a sum that begins at a row or a column, as `{k} + {row}` says, from the start of the
    array, under a guard before it. Returns the scope at which it begins, if there is one."""
    for scope in found.summed:
        bounds = scope.scope.extent.bounds
        for row in found.kept:
            if len(bounds) == 1 and row.depth in bounds[0].iterators - (bounds[0] + row.iterator).iterators:
                require(len(found.summed) == 1, "a sum that begins at the row")
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
            require(end - row.iterator in (ZERO, ZERO + 1) and len(found.summed) == 1, "a sum that ends at the row")
            _run_to(scope, end - row.iterator + (_extent(row) - 1))
            triangular = True
    return triangular


def roles(trace: Trace, found: Sum) -> tuple[Spot, Spot]:
    """The scopes over rows and columns: those along which results lie side by side, if there are any."""
    site = found.site
    target, *reads = site.statement.accesses
    factors = [a for a in dict.fromkeys(reads) if any(depends(a, s.depth) for s in found.summed)]
    require(len(factors) >= 2, "a contraction of two arrays")
    steps = {s.path: step_of(trace.kernel, target, s.depth, MOST_STEP) or 0 for s in found.kept}
    side = [s for s in reversed(found.kept) if steps[s.path] > 0 or goes_along(trace.kernel, target, s.depth)]
    rest = [s for s in reversed(found.kept) if s not in side]
    for column in (*sorted(side, key=lambda s: steps[s.path]), *rest):
        across = [a for a in factors if depends(a, column.depth)]
        others = [a for a in factors if not depends(a, column.depth)]
        rows = [
            s for s in found.kept
            if s.path != column.path and any(depends(a, s.depth) for a in others)
            and not any(depends(a, s.depth) for a in across)
        ]  # fmt: skip
        if across and others and rows:
            return max(rows, key=trips), column
    raise ArgumentError("not a contraction with rows and columns", "bad-arguments")


def _extent(scope: Spot) -> int:
    extent = scope.scope.extent.constant
    require(extent is not None, "a contraction of constant sizes")
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
    dims = [dim_along(site.statement.target, scope.depth) for scope in (row, column)]
    depths = [s.depth for s in found.summed]
    fuse(trace, site.path)
    others = [s for s in found.kept if s.path not in (row.path, column.path)]
    act(trace, Tile, (row, column), (tile.height, tile.width))
    down = column.child(0)
    own, written = tile.kept(down, result, "out" if found.begins else "inout")
    sums = list(found.summed)
    if found.begins:
        sums[0].alone(2)
    accesses, kernel = found.site.statement.reads, trace.kernel
    longest = max(sums, key=lambda s: (trips(s), sum(step_of(kernel, a, s.depth) == 1 for a in accesses)))
    in_fours = depths[sums.index(longest)] if quads else None
    if longest.path != sums[-1].path:
        longest.sink(len(sums) - 1 - [s.path for s in sums].index(longest.path))
        sums = [*(s for s in sums if s.place != longest.place), longest]
    for scope in sums:
        scope.lift(2)
    if triangle:
        require(_extent(longest) % tile.height == 0, "a triangle of whole tiles")
        first = row.iterator * tile.height
        if triangle == "begins":
            before, longest = longest.cut(first)
            before.delete()
            first = Affine.constant(tile.height)
        else:
            longest.bound(first + tile.height)
        parts = list(longest.cut(first))
        guards_inside(trace, parts[1 if triangle == "begins" else 0])
    else:  # the terms that are no whole turn are a scope of their own
        rest = _extent(longest) % tile.depth if _extent(longest) > tile.depth else 0
        parts = list(longest.cut(Affine.constant(_extent(longest) - rest))) if rest else [longest]
    for part in parts:
        each = tile.depth if triangle else min(tile.depth, _extent(part))
        part.split(each).constant(each)
    products = sums[0].path if len(sums) > 1 else None
    turns = [part.path for part in parts]
    apart = [nest for nest in column.scopes() if nest.path != products and nest.path not in turns]
    shared = []
    for part in parts:
        shared.append(tile.spread(part.child(0, 0), 1))
        if quads:
            terms = shared[-1].across.child(0)
            terms.split(QUAD).sink(len(nested(terms)) - 2)
    spread = [*shared, *(tile.spread(nest, 0, written) for nest in apart)]
    tile.in_groups(trace, own, *dims)
    marks: list[Marked] = []
    for one in shared:
        for array, only in operands:
            along = None if in_fours is None else dim_along(next(a for a in reads if a.buffer == array), in_fours)
            marks += copied_tile(one.down, array, tile.threads, only, along)
    mark_all(marks)
    for one in spread:  # last, as each move after a mark is held against what it promises
        one.mark()
    grid_of(row, column, others)


def dim_along(access: Access, depth: int) -> int:
    """The one dimension of an array that an access goes along with an iterator, which is the index of it."""
    found = dims_along(access, depth)
    require(len(found) == 1, "a result with plain rows and columns")
    return found[0]


TOGETHER = 8
"""The blocks of rows, at most, that run before the next blocks of columns: what these read is then near for all."""


def grid_of(row: Spot, column: Spot, others: list[Spot]) -> None:
    """Blocks of columns and of rows, and all else; where that is more than a grid has dimensions, the outermost of
    it as one. In a grid of rows and columns alone some blocks of rows are next to each other."""
    inner = [column, row]
    for single in [s for s in inner if s.scope.extent.constant == 1]:
        if len(others) + len(inner) > len(GRID):
            single.remove()
            inner.remove(single)
    while len(others) + len(inner) > len(GRID):
        others[-2].collapse()
        others.pop()
    count = row.scope.extent.constant or 1  # an open number of columns stays along x, where any number has room
    together = max(n for n in range(1, TOGETHER + 1) if count % n == 0)
    if not others and together > 1 and column.scope.extent.constant:
        inner = [row, column] if together == count else [row.split(together), column, row]
    grid((*inner, *reversed(others)))


LONGEST = 64
"""The most terms of a block that share a factor."""

WRITTEN_OUT = 8
"""How many terms are written out."""


def scaled_tiles(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles for a product whose blocks of terms have factors. Raises DojoError where the nest is not one."""
    rows = spot(trace, path)
    columns = rows.child(0)
    require(len(rows.body) == 1 and isinstance(columns.node, Scope) and len(columns.body) == 2, "rows and columns")
    blocks = columns.child(1)
    require(isinstance(columns.body[0], Statement) and isinstance(blocks.node, Scope), "a result that is begun")
    require([type(node) for node in blocks.body] == [Statement, Scope, Statement], "blocks of terms")
    terms = blocks.child(1)
    site, result = _sum_of(terms), sites_in(trace.kernel, blocks.child(2).path)[0].statement.target
    name = site.statement.target.buffer
    scratch = trace.kernel.buffer(name)
    require(scratch.role == "tmp" and not scratch.dims, "sums in a scalar")
    sizes = [scope.scope.extent.constant or 0 for scope in (rows, columns, terms)]
    require(all(sizes) and sizes[2] <= LONGEST, "a product of constant sizes")
    require(result.indices[-2:] == (rows.iterator, columns.iterator), "a result of rows and columns")
    (height, down), (width, across) = side_of_tile(sizes[0], 64, 8), side_of_tile(sizes[1], 64, 4)
    shared = [a for a in site.statement.reads if depends(a, rows.depth) and not depends(a, columns.depth)]
    apart = [a for a in site.statement.reads if depends(a, columns.depth) and not depends(a, rows.depth)]
    require(bool(shared) and bool(apart), "a product of two arrays")
    arrays = [a.buffer for a in (*shared, *apart) if not trace.kernel.buffer(a.buffer).packed]
    if scratch.storage != "heap":
        Array(trace, name).place("heap")
    for number, scope in enumerate((rows, columns)):
        add_dim(trace, name, scope.depth, scope.scope.extent, number)
    tile = BlockTile(height, width, 1, down, across)
    _tile_scaled(trace, (rows, columns, blocks, terms), result.buffer, name, tile, arrays)


def _sum_of(terms: Spot) -> Site:
    """The one statement of a scope, which accumulates. Raises ArgumentError where there is none such."""
    require(is_plain(terms.node) and len(terms.body) == 1, "one sum of a block")
    (site,) = sites_in(terms.trace.kernel, terms.path)
    require(site.statement.accumulation == "+=", "one sum of a block")
    return site


def _tile_scaled(
    trace: Trace, nest: tuple[Spot, Spot, Spot, Spot], result: str, name: str, tile: BlockTile, arrays: list[str]
) -> None:
    rows, columns, blocks, terms = nest
    act(trace, Tile, (rows, columns), (tile.height, tile.width))
    for dim, size in ((1, tile.width), (0, tile.height)):
        Array(trace, name).split(dim, size).reuse(dim)
    Array(trace, name).place("reg")
    inside = columns.child(0)
    own, written = tile.kept(inside, result, "out")
    for scope in (blocks, terms):
        scope.alone(2)
        scope.lift(2)
    begun, closed = blocks.child(0), blocks.child(2)
    others = [scope for scope in columns.scopes() if scope.path != blocks.path]
    multiplied, loops = terms.child(0), 1
    if (terms.scope.extent.constant or 0) > WRITTEN_OUT:
        multiplied, loops = terms.split(WRITTEN_OUT).child(0), 2
    spread = [tile.spread(multiplied, loops)]
    spread += [tile.spread(scope, 0, written) for scope in (*others, begun, closed)]
    dims = len(trace.kernel.buffer(own).dims)
    tile.in_groups(trace, own, dims - 2, dims - 1)
    tile.in_groups(trace, name, 1, 3)
    mark_all([mark for array in dict.fromkeys(arrays) for mark in copied_tile(spread[0].down, array, tile.threads)])
    for one in spread:
        one.mark()
    grid((columns, rows))
