"""The register tile: what `default_schedule` makes of a nest that multiplies matrices.

The tile of the result stays in registers while the reduction runs over it, and the panel of the operand that
all rows share is packed.

Source: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Access, Kernel, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.cpu.tiles.quads import sum_in_quads
from dojoir.passes.schedule.cpu.tiles.tile_shape import default_shape, shape_for, sums_in_lanes
from dojoir.passes.schedule.cpu.tiles.transposes import transpose_squares
from dojoir.passes.schedule.facts.narrow import is_tiny
from dojoir.passes.schedule.facts.products import MOST_SUMS, Product, products
from dojoir.passes.schedule.facts.sizes import Sizes, bytes_of, count_of
from dojoir.passes.schedule.facts.strides import ONE, depends, follows, sites_in, step_of
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.fusing import fuse
from dojoir.passes.schedule.steps.keeping import keep_results
from dojoir.passes.schedule.steps.spots import Spot, act, first_nest, spot, stand_alone
from dojoir.passes.storage.boxes import accesses_to
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import ReorderDims
from dojoir.passes.storage.staging import Stage
from dojoir.types.quads import multiplies_bytes

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
    product: Product,
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
    scope = trace.kernel.at(product.rows)
    assert isinstance(scope, Scope)
    count = count_of(scope.extent, sizes)
    if count == 1 and not shape:
        raise ArgumentError("one row shares nothing with another", "bad-arguments")
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
        act(trace, SwapScopes, block)
    for panel, dim in product.panels:
        if not ((single or by_rows) and dim == len(trace.kernel.buffer(panel).dims) - 1):
            mine = replace(product, panel=panel, column_dim=dim)
            around = block if by_rows else _around_panel(trace.kernel, block, mine)
            tried(trace, partial(_pack, block=block, around=around, product=mine, machine=machine, columns=columns))
    target = product.site.statement.target
    copy = keep_results(trace, row, target.buffer)
    column = len(product.site.scopes) - product.sums - 1
    along = [d for d in range(len(target.indices)) if follows(target, d, column)]
    if along != [len(target.indices) - 1]:
        others = [d for d in range(len(target.indices)) if d not in along]
        act(trace, ReorderDims, copy, (*others, *along))
    nest = stand_alone(trace, first_nest(row.child(0)), 2)
    if (
        multiplies_bytes(product.site.statement, trace.kernel.buffer)
        and product.sums == 1
        and sum_in_quads(trace, nest, machine)
    ):
        pass
    elif product.sums + product.guards == 1:
        act(trace, SwapScopes, nest.child(0))
        act(trace, SwapScopes, nest)
    else:
        act(trace, SinkScope, nest.child(0), product.sums + product.guards)
        act(trace, SinkScope, nest, product.sums + product.guards)
    _mark(trace, block, rows)


def _goes_by_rows(trace: Trace, product: Product, machine: Machine, sizes: Sizes) -> bool:
    """Whether a product is known to sum over so few elements that writing its result, more than the second cache
    holds, is much of the work, and what all rows share stays there. Then the result is written as it lies in
    memory, and not in pieces as wide as a tile, a row apart."""
    summed = _summed(product, sizes)
    written = bytes_of(trace.kernel.buffer(product.site.statement.target.buffer), sizes)
    if summed is None or written is None or len(machine.caches) < 2:
        return False
    held = 0
    for panel, _ in product.panels:
        size = bytes_of(trace.kernel.buffer(panel), sizes)
        if size is None:
            return False
        held += size
    second = machine.caches[1]
    return summed <= SHORT_SUM and written > second and held <= second // 2


def _summed(product: Product, sizes: Sizes) -> int | None:
    """How many elements a product sums over, where that is known."""
    total = 1
    for scope in product.site.scopes[-product.sums :]:
        count = count_of(scope.extent, sizes)
        if count is None:
            return None
        total *= count
    return total


def _sums_in_lanes(trace: Trace, product: Product, machine: Machine, sizes: Sizes) -> bool:
    """Whether there are too few columns for a tile."""
    lanes, columns = _lanes(trace, product, machine), count_of(product.column_scope.extent, sizes)
    if columns is None or columns >= lanes:
        return False
    return sums_in_lanes(lanes, columns, _summed(product, sizes))


def _sum_in_lanes(trace: Trace, product: Product) -> None:
    """Runs the sum in lanes, for fewer columns than a vector has. The panel is packed for it where what is summed
    over does not lie side by side. Raises DojoError where it does not in the rows either, or a move is refused."""
    if product.sums > 1 or product.more:
        raise ArgumentError("more than one scope is summed over, or one product", "bad-arguments")
    kernel, rows, summed = trace.kernel, spot(trace, product.rows), spot(trace, product.site.path[:-1])
    inner = kernel.depth_of(summed.path)
    reads = [access for access in product.site.statement.reads if depends(access, inner)]
    steps = {access.buffer: step_of(kernel, access, inner) for access in reads}
    if any(step != 1 for name, step in steps.items() if name != product.panel):
        raise ArgumentError("the rows do not lie along the sum", "bad-arguments")
    if steps[product.panel] != 1:
        name = fresh_name(kernel, f"{product.panel}_panel")
        act(trace, Stage, rows, product.panel, name, "in")
        panel = next(access for access in reads if access.buffer == product.panel)
        along = [d for d, i in enumerate(panel.indices) if isinstance(i, Access) or inner in i.iterators]
        order = [d for d in range(len(panel.indices)) if d not in along] + along
        act(trace, ReorderDims, name, tuple(order))
    act(trace, Vectorize, summed)


def tile_shape(
    trace: Trace, product: Product, machine: Machine, sizes: Sizes = MappingProxyType({})
) -> tuple[int, int]:
    """The rows and columns of a tile of a product."""
    lanes = _lanes(trace, product, machine)
    if multiplies_bytes(product.site.statement, trace.kernel.buffer):
        return default_shape(machine, lanes)
    scope = trace.kernel.at(product.rows)
    assert isinstance(scope, Scope)
    return shape_for(machine, lanes, count_of(scope.extent, sizes), count_of(product.column_scope.extent, sizes))


def _lanes(trace: Trace, product: Product, machine: Machine) -> int:
    """How many results a vector has."""
    size = trace.kernel.buffer(product.site.statement.target.buffer).dtype.itemsize
    return max(machine.vector_bytes // size, 1)


def _mark(trace: Trace, block: Spot, rows: int) -> None:
    """Runs the innermost scopes of a tile in lanes and writes out the others of constant extent. Those that have a
    mark keep it."""
    for path, node in trace.kernel.walk():
        if is_inside(path, block.path) and path != block.path and isinstance(node, Scope) and not node.marks:
            if all(isinstance(child, Statement) for child in node.body):
                act(trace, Vectorize, spot(trace, path))
            elif 1 <= (node.constant_bound or 0) <= rows:
                act(trace, Unroll, spot(trace, path))


def _pack(trace: Trace, block: Spot, around: Spot | None, product: Product, machine: Machine, columns: int) -> None:
    """Copies the panel that all blocks of rows share, its columns side by side: through squares, where they do not
    lie so; and all of it once before the scope `around`, where there is one."""
    name = fresh_name(trace.kernel, f"{product.panel}_panel")
    node, row = around or block, block.depth
    used = accesses_to(node.node, {product.panel})
    shared = [
        n for n, access in enumerate(used) if not depends(access, row)
    ]  # a matrix by itself has rows of it too
    act(trace, Stage, node, product.panel, name, "in", shared if len(shared) < len(used) else [])
    last, column = len(trace.kernel.buffer(name).dims) - 1, product.column_dim
    if around is not None:
        act(trace, SplitDim, name, column, columns)
        order = [column, *(d for d in range(last + 2) if d not in (column, column + 1)), column + 1]
        act(trace, ReorderDims, name, order)
    elif column != last:
        act(trace, ReorderDims, name, [d for d in range(last + 1) if d != column] + [column])
        if column == last - 1 and trace.kernel.buffer(name).dims[last].extent != ONE:
            outer = block.beside(-1).child(*(0,) * column)
            tried(trace, lambda t: transpose_squares(t, outer.path, machine))


def _around_panel(kernel: Kernel, block: Spot, product: Product) -> Spot | None:
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
