"""Triangles of products in blocks of rows. What all rows of a block have is a product of its own, which a register
tile fits, and what is left of each block is a small triangle.

A triangle is either in the sum, which grows or shrinks with the row, as in a product with a triangular matrix. Or
it is in the columns of the result, as where a matrix is symmetric and a text gives one half of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Kernel, Path, Site, Statement
from dojoir.ir.places import sites_inside
from dojoir.passes.base.move import Formula
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.tiles.tile_shape import tile_rows
from dojoir.passes.schedule.facts.strides import Sizes, depends, dims_along, is_short, scope_at, step_of
from dojoir.passes.schedule.steps.combinators import Fit
from dojoir.passes.schedule.steps.spots import Array, spot
from dojoir.support.frozen import dataclass

TALL = 8
"""How many register tiles high a block of columns is: so often what its rows share is used out of a cache."""


@dataclass(frozen=True)
class Triangle:
    """A nest `i > j > (…, k > c[i, j] += a * b, …)` whose columns end, or begin, at the row. The place of its
    scope over rows, the number of the scope over the sum among the children of that over columns, and by how much
    the columns grow with the row: 1, or -1 where they are counted from the row on. Then the first is so many
    `ahead` of it."""

    rows: Path
    number: int
    way: int
    ahead: int


def triangles(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Gives each product of which a triangle is asked blocks of rows: what all rows of a block have is a product of
    its own then. Where its sum is as long as `i` is far from an end of its range (`{i} + 1`, or `M - {i}`), blocks
    are as high as a register tile. Where its columns end or begin at `i`, they are several tiles high, and the
    triangle that is left of each has blocks of one tile. What stands behind such a product gets a nest of its own,
    and what it reads down columns is copied, turned."""
    rows = tile_rows(machine)
    for site in kernel.sites:
        if any(scope.marks for scope in site.scopes):
            continue
        if way := _way_of_sum(site):
            yield Fit(site.path[:-3], partial(_block_sum, path=site.path, way=way, rows=rows))
        elif found := _columns(site):
            scope = scope_at(kernel, found.rows)
            if not is_short(scope.extent, sizes, 2 * rows):
                yield Fit(found.rows, partial(_block_columns, found=found, rows=rows, sizes=sizes))


# -- in the sum -------------------------------------------------------------------------------------------------
def _way_of_sum(site: Site) -> int:
    """1 where the sum of a product grows by one with the row, -1 where it shrinks by one, else 0."""
    depth = len(site.scopes)
    if site.statement.accumulation != "+=" or depth < 3 or len(site.path) != depth + 1:
        return 0
    target, *reads = site.statement.accesses
    across = [a for a in reads if a.buffer != target.buffer and depends(a, depth - 1)]
    if len(across) != 2 or sum(depends(a, depth - 2) for a in across) != 1 or depends(target, depth - 1):
        return 0
    rows, _, summed = site.scopes[depth - 3 :]
    if len(summed.extent.bounds) != 1 or len(rows.body) != 1 or len(rows.extent.bounds) != 1:
        return 0
    (bound,) = summed.extent.bounds
    way = bound.coefficient(Iter(depth - 3))
    rest = bound - Affine.iterator(depth - 3) * way
    return int(way) if abs(way) == 1 and not rest.iterators & {depth - 3, depth - 2} else 0


def _block_sum(trace: Trace, path: Path, way: int, rows: int) -> None:
    """Cuts the rows into whole blocks and the rest, the sum of a block into what its rows share and a triangle, and
    distributes the block. Raises IllegalMove where a move of it is refused."""
    outer, inner = path[:-3], path[-2]
    (extent,) = scope_at(trace.kernel, outer).extent.bounds
    block, _ = spot(trace, outer).cut((extent // rows) * rows)
    row = block.split(rows)
    column = row.child(0)
    shared = f"{rows}*{{{block.depth}}}" if way > 0 else f"{rows} - {{{row.depth}}}"
    column.child(inner).cut(Formula(shared))
    count = len(column.body)
    for child in (inner + 1, inner):
        if 0 < child < count:
            spot(trace, (*outer, 0, 0)).part(child)
            spot(trace, (*outer, 0)).part(1)


# -- in the columns ---------------------------------------------------------------------------------------------
def _columns(site: Site) -> Triangle | None:
    """The triangle of columns of a statement, or None where it is in none."""
    depth, target = len(site.scopes), site.statement.target
    if site.statement.accumulation != "+=" or depth < 3 or len(site.path) != depth + 1:
        return None
    i, j, k = depth - 3, depth - 2, depth - 1
    rows, columns, summed = site.scopes[i:]
    if len(rows.body) != 1 or len(summed.body) != 1 or len(rows.extent.bounds) != 1:
        return None
    if any({i, j} & bound.iterators for bound in summed.extent.bounds):
        return None
    if sum(not isinstance(node, Statement) for node in columns.body) != 1 or depends(target, k):
        return None
    ways = {bound.coefficient(Iter(i)) for bound in columns.extent.bounds}
    index = target.indices[-1] if target.indices else None
    if len(ways) != 1 or not isinstance(index, Affine) or index.coefficient(Iter(j)) != 1:
        return None
    way, along = ways.pop(), index.coefficient(Iter(i))
    if (way, along) not in {(1, 0), (-1, 1)} or (way > 0 and len(columns.extent.bounds) != 1):
        return None
    if not _multiplies(site, i, j, k):
        return None
    return Triangle(site.path[:-3], site.path[-2], int(way), int(index.offset))


def _multiplies(site: Site, i: int, j: int, k: int) -> bool:
    """Whether a statement adds up products of something along the row and something along the column."""
    target, *reads = site.statement.accesses
    across = [a for a in reads if depends(a, k)]
    return (
        depends(target, i)
        and all(a.buffer != target.buffer for a in across)
        and any(depends(a, i) and not depends(a, j) for a in across)
        and any(depends(a, j) for a in across)
    )


def _block_columns(trace: Trace, found: Triangle, rows: int, sizes: Sizes) -> None:
    """Raises IllegalMove where a move of it is refused."""
    path = _alone(trace, found)
    path = (*path[:-1], path[-1] + _transpose_columns(trace, path))
    scope = scope_at(trace.kernel, path)
    if not is_short(scope.extent, sizes, 2 * TALL * rows):
        path = _cut_columns(trace, path, found, TALL * rows)
    _cut_columns(trace, path, found, rows)


def _alone(trace: Trace, found: Triangle) -> Path:
    """Gives what stands behind a sum in the scope over columns nests of its own, and what stands before it and
    accumulates, as a scaling by a factor. Returns the place of the rows of the sum."""
    path, number = found.rows, found.number
    columns = scope_at(trace.kernel, (*path, 0))
    scaled = [n for n in range(number) if isinstance(node := columns.body[n], Statement) and node.accumulation]
    for place in (number + 1, scaled[-1] + 1 if scaled else 0):
        if 0 < place < len(columns.body):
            spot(trace, (*path, 0)).part(place)
            spot(trace, path).part(1)
    return (*path[:-1], path[-1] + 1) if scaled else path


def _transpose_columns(trace: Trace, rows: Path) -> int:
    """Copies the arrays that the columns of a product read down, turned, once for all of a child of the kernel, so
    that columns lie side by side. Returns how many nests that puts before the one with the triangle, where it is a
    child of the kernel, else 0."""
    count = 0
    for name, dim in _read_down(trace.kernel, rows):
        place = rows[0] + (count if len(rows) == 1 else 0)
        copy = spot(trace, (place,)).stage(name, "turned", "in")
        Array(trace, copy).inside(dim)
        count += 1
    return count if len(rows) == 1 else 0


def _read_down(kernel: Kernel, rows: Path) -> Iterator[tuple[str, int]]:
    """The arrays that a nest reads at an index which goes with its columns, and not from one element to the next,
    with the dimension of that index."""
    column = kernel.depth_of(rows) + 1
    seen: set[str] = set()
    for site in sites_inside(kernel, rows):
        for access in site.statement.reads:
            if access.buffer not in seen and depends(access, column) and step_of(kernel, access, column) is None:
                dims = dims_along(access, column)
                if len(dims) == 1 and site.statement.accumulation:
                    seen.add(access.buffer)
                    yield access.buffer, dims[0]


def _cut_columns(trace: Trace, path: Path, found: Triangle, rows: int) -> Path:
    """Cuts the rows at `path` into blocks, the columns of a block into what its rows share and a triangle, and
    distributes the block. Returns where the rows of the triangles are."""
    block = spot(trace, path)
    if found.way > 0:
        rest = block.child(0).scope.extent.bounds[0] - block.iterator
        shared = block.iterator * rows + rest - rest.offset % rows
    else:
        shared = Affine.constant(rows - found.ahead % rows) - Affine.iterator(block.depth + 1)
    row = block.split(rows)
    row.child(0).cut(shared)
    row.part(1)
    first, behind = spot(trace, path).part(1)
    return (behind if found.way > 0 else first).child(0).path
