"""The register tile: what `default_schedule` makes of a nest that multiplies matrices.

The tile of the result stays in registers while the reduction runs over it, and the panel of the operand that
all rows share is packed.

Source: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).

Products of bytes, summed four at a time: what processors have an instruction for.

The sum of a tile goes in blocks of four, innermost, and the packed panel has the four elements of a block side by
side, a column next to a column. The lowering makes one operation of that (`codegen.lower.vectors.dots`).

Squares: what is read along one dimension and written along another, a vector high and wide at a time.

Products that sum over more than a cache holds, in blocks of the sum.

A product of few rows and columns that sums over many, `c[i, j] += x[k, i] * x[k, j]`, reads its operands once for
each of its tiles. Where a panel of these does not stay in a core's cache, each pass is one through memory. In
blocks of the sum, all tiles use what is there, and each adds to a result that is small. A factor that is computed
from several elements is then computed once a block, and not in each tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.ir.expressions import affine_parts, expr_accesses, parts
from dojoir.ir.nodes import Access, Kernel, Op, Path, Scope, Site
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.cpu.tiles.tile_shape import MOST_COLUMNS, default_shape, shape_for, sums_in_lanes
from dojoir.passes.schedule.facts.narrow import is_tiny
from dojoir.passes.schedule.facts.product_facts import MOST_SUMS, MatrixProduct, products
from dojoir.passes.schedule.facts.strides import (
    ONE,
    Sizes,
    bytes_of,
    count_of,
    depends,
    dims_along,
    is_plain,
    lanes_of,
    product_of,
    require,
    scope_at,
    sites_in,
    step_of,
)
from dojoir.passes.schedule.steps.combinators import Fit, tried
from dojoir.passes.schedule.steps.spots import (
    Array,
    Spot,
    act,
    first_nest,
    fuse,
    keep_results,
    mark_all,
    scopes_inside,
    spot,
)
from dojoir.passes.storage.boxes import accesses_to
from dojoir.passes.values.hoisting import Hoist
from dojoir.types.quads import QUAD, multiplies_bytes

SHORT_SUM = 128
"""The longest sum, in elements, of a product whose result is written row by row."""


def register_tile(trace: Trace, rows: int = 0, columns: int = 0, machine: Machine | str = "host") -> None:
    """Gives each product of matrices, a nest `i > j > (…, k > c[i, j] += a[i, k] * b[k, j], …)`, a tile of `rows`
    by `columns` elements that stays in registers while the sum runs, and packs the panel that all rows share. Where
    rows or columns are 0, as many as the registers of the machine hold beside the operands. A product for which a
    move is refused stays as it was.

    >>> import dojoir
    >>> trace = dojoir.PASSES["register_tile"].given("4", "32").on(dojoir.kernels.load("matmul"))
    >>> print("\\n".join(line for line in str(trace.kernel).splitlines() if line.startswith("tmp")))
    tmp b_panel: f32[K, 32]
    tmp c_tile: f32[4, 32] reg
    """
    machine = machine if isinstance(machine, Machine) else machine_named(machine)
    for product in reversed(list(products(trace.kernel))):
        high, wide = tile_shape(trace, product, machine)
        shape = rows or high, columns or wide
        tried(trace, partial(tile_registers, product=product, machine=machine, shape=shape))


def register_tiles(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Gives each product of matrices a register tile, unless it has few columns and a sum as short."""
    for product in products(kernel, MOST_SUMS, guarded=True):
        if not is_tiny(product.site, machine):
            make = partial(tile_registers, product=product, machine=machine, sizes=sizes)
            yield Fit(product.rows, make)


def tile_registers(
    trace: Trace,
    product: MatrixProduct,
    machine: Machine,
    shape: tuple[int, int] | None = None,
    sizes: Sizes = MappingProxyType({}),
) -> None:
    """Gives a product its register tile: of `shape`, rows and columns, or as many vectors of columns, and rows, as
    leave a few registers for the operands. At the edges of the product tiles are cut, by the extents of their
    scopes. A product that is known to have one row is none; for one whose rows all fit in one tile, or which writes
    its rows one after the other, what lies side by side is not packed. Raises DojoError where a move of it is
    refused."""
    rows, columns = shape or tile_shape(trace, product, machine, sizes)
    scope = scope_at(trace.kernel, product.rows)
    count = count_of(scope.extent, sizes)
    require(count != 1 or shape is not None, "of several rows")
    if not shape and _sums_in_lanes(trace, product, machine, sizes):
        _sum_in_lanes(trace, product)
        return
    single = count is not None and count <= rows and not shape
    fuse(trace, product.site.path)
    block = spot(trace, product.rows)
    act(trace, Tile, (block, block.child(0)), (rows, columns))
    row = block.child(0, 0)
    by_rows = not shape and _goes_by_rows(trace, product, machine, sizes)
    if not by_rows:
        block.swap()
    for panel, dim in product.panels:
        if not ((single or by_rows) and dim == len(trace.kernel.buffer(panel).dims) - 1):
            mine = replace(product, panel=panel, column_dim=dim)
            around = block if by_rows else _around_panel(trace.kernel, block, mine)
            tried(trace, partial(_pack, block=block, around=around, product=mine, machine=machine, columns=columns))
    target = product.site.statement.target
    copy = keep_results(trace, row, target.buffer)
    along = dims_along(target, len(product.site.scopes) - product.sums - 1)
    if along != [len(target.indices) - 1]:
        Array(trace, copy).inside(*along)
    nest = first_nest(row.child(0)).alone(2)
    if (
        multiplies_bytes(product.site.statement, trace.kernel.buffer)
        and product.sums == 1
        and sum_in_quads(trace, nest, machine)
    ):
        pass
    elif product.sums + product.guards == 1:
        nest.child(0).swap()
        nest.swap()
    else:
        nest.child(0).sink(product.sums + product.guards)
        nest.sink(product.sums + product.guards)
    _mark(block, rows)


def _goes_by_rows(trace: Trace, product: MatrixProduct, machine: Machine, sizes: Sizes) -> bool:
    """Whether a product is known to sum over so few elements that writing its result, more than the second cache
    holds, is much of the work, and what all rows share stays there. Then the result is written as it lies in
    memory, and not in pieces as wide as a tile, a row apart."""
    summed = product_of(product.site.scopes[-product.sums :], sizes)
    written = bytes_of(trace.kernel.buffer(product.site.statement.target.buffer), sizes)
    held = [bytes_of(trace.kernel.buffer(panel), sizes) for panel, _ in product.panels]
    if summed is None or written is None or len(machine.caches) < 2 or None in held:
        return False
    second = machine.caches[1]
    return summed <= SHORT_SUM and written > second and sum(size or 0 for size in held) <= second // 2


def _sums_in_lanes(trace: Trace, product: MatrixProduct, machine: Machine, sizes: Sizes) -> bool:
    """Whether there are too few columns for a tile."""
    lanes, columns = (
        lanes_of(trace.kernel, product.site.statement.target.buffer, machine),
        count_of(product.column_scope.extent, sizes),
    )
    if columns is None or columns >= lanes:
        return False
    return sums_in_lanes(lanes, columns, product_of(product.site.scopes[-product.sums :], sizes))


def _sum_in_lanes(trace: Trace, product: MatrixProduct) -> None:
    """Runs the sum in lanes, for fewer columns than a vector has. The panel is packed for it where what is summed
    over does not lie side by side. Raises DojoError where it does not in the rows either, or a move is refused."""
    require(product.sums == 1 and not product.more, "one product that sums over one scope")
    kernel, rows, summed = trace.kernel, spot(trace, product.rows), spot(trace, product.site.path[:-1])
    inner = kernel.depth_of(summed.path)
    reads = [access for access in product.site.statement.reads if depends(access, inner)]
    steps = {access.buffer: step_of(kernel, access, inner) for access in reads}
    along = all(step == 1 for name, step in steps.items() if name != product.panel)
    require(along, "of rows that lie along the sum")
    if steps[product.panel] != 1:
        name = rows.stage(product.panel, "panel", "in")
        panel = next(access for access in reads if access.buffer == product.panel)
        dims = [d for d, i in enumerate(panel.indices) if isinstance(i, Access) or inner in i.iterators]
        Array(trace, name).inside(*dims)
    summed.mark("v")


def tile_shape(
    trace: Trace, product: MatrixProduct, machine: Machine, sizes: Sizes = MappingProxyType({})
) -> tuple[int, int]:
    """The rows and columns of a tile of a product."""
    lanes = lanes_of(trace.kernel, product.site.statement.target.buffer, machine)
    if multiplies_bytes(product.site.statement, trace.kernel.buffer):
        return default_shape(machine, lanes)
    scope = scope_at(trace.kernel, product.rows)
    return shape_for(machine, lanes, count_of(scope.extent, sizes), count_of(product.column_scope.extent, sizes))


def _mark(block: Spot, rows: int) -> None:
    """Runs the innermost scopes of a tile in lanes and writes out the others of constant extent. Those that have a
    mark keep it."""
    for scope in scopes_inside(block)[1:]:
        if not scope.scope.marks:
            if is_plain(scope.node):
                scope.mark("v")
            elif 1 <= (scope.scope.constant_bound or 0) <= rows:
                scope.mark("u")


def _pack(
    trace: Trace, block: Spot, around: Spot | None, product: MatrixProduct, machine: Machine, columns: int
) -> None:
    """Copies the panel that all blocks of rows share, its columns side by side: through squares, where they do not
    lie so; and all of it once before the scope `around`, where there is one."""
    node, row = around or block, block.depth
    used = accesses_to(node.node, {product.panel})
    shared = [n for n, access in enumerate(used) if not depends(access, row)]  # of a matrix by itself rows as well
    name = node.stage(product.panel, "panel", "in", only=shared if len(shared) < len(used) else [])
    last, column, panel = len(trace.kernel.buffer(name).dims) - 1, product.column_dim, Array(trace, name)
    if around is not None:
        panel.split(column, columns)
        panel.order([column, *(d for d in range(last + 2) if d not in (column, column + 1)), column + 1])
    elif column != last:
        panel.inside(column)
        if column == last - 1 and trace.kernel.buffer(name).dims[last].extent != ONE:
            outer = block.beside(-1).child(*(0,) * column)
            tried(trace, lambda t: transpose_squares(t, outer.path, machine))


def _around_panel(kernel: Kernel, block: Spot, product: MatrixProduct) -> Spot | None:
    """The outermost of the scopes around a product, from the innermost on, on which its panel does not depend; None
    where that is another for each iteration of the innermost. `block` is that of its rows, in that of its
    columns."""
    outermost = None
    for length in range(len(block.path) - 2, 0, -1):
        path = block.path[:length]
        around = kernel.at(path)
        sites = sites_in(kernel, path)
        found = [a for site in sites for a in site.statement.accesses if a.buffer == product.panel]
        plain = isinstance(around, Scope) and not around.marks and len(found) == 1
        if not plain or depends(found[0], kernel.depth_of(path)):
            break
        outermost = spot(block.trace, path)
    return outermost


def sum_in_quads(trace: Trace, nest: Spot, machine: Machine) -> bool:
    """Makes of a nest `rows > columns > sum` the nests `sum > rows > columns > four` and, for what is left,
    `sum > rows > columns`, if the machine adds four products at a time and the panel of the columns is packed.
    Returns whether it did."""
    return machine.dots and tried(trace, partial(_sum_in_quads, nest=nest))


def _sum_in_quads(trace: Trace, nest: Spot) -> None:
    """Raises DojoError where a move is refused, or the sum is short."""
    kernel, summed = trace.kernel, nest.child(0, 0)
    scope, depth = summed.scope, summed.depth
    (site,) = sites_in(kernel, summed.path)
    panel = next(a for a in site.statement.reads if depends(a, depth - 1))
    along = [d for d, i in enumerate(panel.indices) if isinstance(i, Access) or depth in i.iterators]
    alone = len(scope.extent.bounds) == len(along) == 1
    require(alone and kernel.buffer(panel.buffer).role == "tmp", "of a packed panel")
    (extent,) = scope.extent.bounds
    require(not extent.is_constant or extent.offset >= QUAD, "a sum of many")
    parts = [nest]
    if not (extent.is_constant and extent.offset % QUAD == 0):
        summed.cut(extent // QUAD * QUAD)
        nest.child(0).part(1)
        parts = [*nest.part(1)]
        nest = parts[0]
    nest.child(0, 0).split(QUAD)
    _side_by_side(trace, panel.buffer, along[0])
    for part in parts:
        part.child(0).swap()
        part.swap()
    mark_all(((nest.child(0), "v"), (nest.child(0, 0), "u")))


def _side_by_side(trace: Trace, name: str, dim: int) -> None:
    """Lays the elements of a block of four along a dimension side by side."""
    Array(trace, name).split(dim, QUAD)
    buffer = trace.kernel.buffer(name)
    order = buffer.order or tuple(range(len(buffer.dims)))
    Array(trace, name).order((*(d for d in order if d != dim + 1), dim + 1))


def transpose_squares(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles two scopes, of which reads go along the inner one and writes along the outer one, in squares of one
    vector, which is one line of a cache. What a square reads is copied as it lies in memory, and the result is
    written so. Where writes go along the inner one the two change places first. Raises IllegalMove where a move of
    it is refused."""
    depth = trace.kernel.depth_of(path)
    targets = [site.statement.target for site in sites_in(trace.kernel, path)]
    if all(step_of(trace.kernel, target, depth + 1) == 1 for target in targets):
        spot(trace, path).swap()
    kernel = trace.kernel
    found = [access for site in sites_in(kernel, path) for access in site.statement.accesses]
    side = min(lanes_of(kernel, access.buffer, machine) for access in found)
    outer = spot(trace, path)
    act(trace, Tile, (outer, outer.child(0)), (side, side))
    across = [a.buffer for a in found if step_of(kernel, a, depth + 1) == 1 and step_of(kernel, a, depth) is None]
    nest = outer.child(0, 0)
    for name in dict.fromkeys(across):
        nest.stage(name, "tile", "in", "stack")
    nest.swap()
    nest.mark("v")


BLOCK = 128
"""How much of the sum a block has: a tile is loaded and stored once for as many steps."""

TILES = 2
"""Of how many tiles a product must be: one reads its operands once in any way."""


def long_sums(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Blocks the sum of each product of which a panel is known to be larger than half of the cache that a core has
    for itself, on one core."""
    if machine.cores == 1:
        for product in products(kernel, weighted=True):
            if _is_long(kernel, product, machine, sizes):
                yield Fit(product.rows, partial(_block, product=product))


def _is_long(kernel: Kernel, product: MatrixProduct, machine: Machine, sizes: Sizes) -> bool:
    rows = scope_at(kernel, product.rows)
    counts = [count_of(s.extent, sizes) for s in (rows, product.column_scope, product.site.scopes[-1])]
    if None in counts:
        return False
    high, wide, long = (count or 0 for count in counts)
    item = kernel.buffer(product.panel).dtype.itemsize
    tiles = -(-high // machine.registers) * -(-wide // MOST_COLUMNS)
    held = machine.caches[-1] // 2 if machine.caches else 0
    block = BLOCK * (high + wide) * item
    return tiles >= TILES and long * min(high + wide, MOST_COLUMNS) * item > held >= block


def _block(trace: Trace, product: MatrixProduct) -> None:
    """Raises IllegalMove where a move of it is refused."""
    rows = first_nest(spot(trace, product.columns)).alone(2)
    columns, summed = rows.child(0), rows.child(0, 0)
    summed.split(BLOCK)
    columns.swap()
    rows.swap()
    for other in (columns, rows):
        while (number := _factor(trace, rows, other)) is not None:
            _compute_once(trace, rows, number)
    require(any(found.rows == rows.path for found in products(trace.kernel)), "a product without weights then")


def _factor(trace: Trace, rows: Spot, other: Spot) -> int | None:
    """The number of the largest part of a product that is computed from several elements, and does not go along the
    scope `other`, but along the sum and the other of rows and columns."""
    (site,) = sites_in(trace.kernel, rows.path)
    depths = {rows.depth, rows.depth + 1, rows.depth + 2} - {other.depth}
    for number, part in enumerate(parts(site.statement.value)):
        if isinstance(part, Op) and len(list(expr_accesses(part))) > 1:
            along = {depth for affine in affine_parts(part) for depth in affine.iterators}
            if depths <= along and other.depth not in along:
                return number
    return None


def _compute_once(trace: Trace, rows: Spot, number: int) -> None:
    """Computes a part before the rows of a block, side by side as what it is made of is. Raises IllegalMove where a
    move of it is refused."""
    (site,) = sites_in(trace.kernel, rows.path)
    name, turned = fresh_name(trace.kernel, "factor"), _lies_across(trace, site, number)
    act(trace, Hoist, rows, spot(trace, site.path), number, name)
    dims = len(trace.kernel.buffer(name).dims)
    for dim in range(dims - 2):
        Array(trace, name).reuse(dim)
    if turned:
        Array(trace, name).order((*range(dims - 2), dims - 1, dims - 2))


def _lies_across(trace: Trace, site: Site, number: int) -> bool:
    """Whether an element of a part goes on along rows or columns to the next one, and not along the sum."""
    inner = len(site.scopes) - 1
    accesses = list(expr_accesses(list(parts(site.statement.value))[number]))
    steps = [
        step_of(trace.kernel, a, depth) for a in accesses for depth in (inner - 2, inner - 1) if depends(a, inner)
    ]
    return 1 in steps
