"""The register tile: what `default_schedule` makes of a nest that multiplies matrices.

The tile of the result stays in registers while the reduction runs over it, and the panel of the operand that
all rows share is packed.

Source: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Kernel, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.combinators import tried
from dojoir.passes.schedule.quads import multiplies_bytes, sum_in_quads
from dojoir.passes.schedule.sizes import Sizes, count_of
from dojoir.passes.schedule.spots import Spot, act, first_nest, move, spot, stand_alone
from dojoir.passes.schedule.strides import depends, sites_in, step_of
from dojoir.passes.schedule.tile_shape import default_shape, shape_for, sums_in_lanes
from dojoir.passes.schedule.transposes import transpose_squares
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.storage.reorder_dims import ReorderDims
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.fma import ToFma
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Product:
    """A nest `i > j > (…, k > c[i, j] += a[i, k] * b[k, j], …)`: the path of its scope over rows, and the array
    that does not depend on the row (`b`), with the dimension of it that goes with the columns. It may sum over
    several scopes inside each other, as over the heads of an attention and what each has. And it may add up several
    products at once: `more` are the arrays like `b` that come after the first."""

    rows: Path
    site: Site
    panel: str
    column_dim: int
    sums: int
    more: tuple[tuple[str, int], ...] = ()

    @property
    def panels(self) -> tuple[tuple[str, int], ...]:
        """All arrays that do not depend on the row."""
        return ((self.panel, self.column_dim), *self.more)

    @property
    def columns(self) -> Path:
        """The path of its scope over columns."""
        return (*self.rows, 0)

    @property
    def column_scope(self) -> Scope:
        return self.site.scopes[-1 - self.sums]


SHORT = 32
"""How many products a short sum has at most: less is read for an element of the result than a line of it is."""

MOST_SUMS = 3
"""Over how many scopes a product sums at most, to have a register tile."""


def products(kernel: Kernel, most_sums: int = 1) -> Iterator[Product]:
    """The nests that multiply matrices and sum over so many scopes at most, in the order of the text."""
    for site in kernel.sites:
        found = _product(kernel, site)
        if found is not None and found.sums <= most_sums:
            yield found


def _product(kernel: Kernel, site: Site) -> Product | None:
    target, *reads = site.statement.accesses
    kept = [d for d in range(len(site.scopes)) if depends(target, d)]
    sums = len(site.scopes) - kept[-1] - 1 if kept else 0
    if site.statement.accumulation != "+=" or sums < 1 or len(kept) < 2 or kept[-2] != kept[-1] - 1:
        return None
    row, column = kept[-2:]
    inner = range(column + 1, len(site.scopes))
    nest = site.ancestors[-2 - sums :]
    i, j, *summed = site.scopes[row:]
    plain = all(isinstance(node, Scope) for node in nest) and all(len(s.body) == 1 for s in (i, *summed))
    single = sum(isinstance(node, Scope) for node in j.body) == 1
    bounds = (bound for scope in (i, j, *summed) for bound in scope.extent.bounds)
    square = not any(d >= row for bound in bounds for d in bound.iterators)
    unmarked = not any(scope.marks for scope in site.scopes)
    if not (plain and single and square and unmarked and all(isinstance(n, Scope | Statement) for n in j.body)):
        return None
    if step_of(kernel, target, column) != 1:
        return None
    factors = list(dict.fromkeys(a for a in reads if any(depends(a, d) for d in inner)))
    panels = [a for a in factors if depends(a, column) and not depends(a, row)]
    others = [a for a in factors if depends(a, row) and not depends(a, column)]
    if not panels or not others or len(panels) + len(others) < len(factors):
        return None
    found: dict[str, int] = {}
    for panel in panels:
        dims = [d for d, index in enumerate(panel.indices)
                if isinstance(index, Access) or column in index.iterators]  # fmt: skip
        if len(dims) != 1 or (sums > 1 and panel.indices[dims[0]] != Affine.iterator(column)):
            return None
        if found.setdefault(panel.buffer, dims[0]) != dims[0]:
            return None
    (first, dim), *more = found.items()
    return Product(site.path[: -2 - sums], site, first, dim, sums, tuple(more))


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


def tile_registers(
    trace: Trace,
    product: Product,
    machine: Machine,
    shape: tuple[int, int] | None = None,
    sizes: Sizes = MappingProxyType({}),
) -> None:
    """Gives a product its register tile: of `shape`, rows and columns, or as many vectors of columns, and rows, as
    leave a few registers for the operands. At the edges of the product tiles are cut, by the extents of their
    scopes. A product that is known to have one row is none; for one whose rows all fit in one tile, what lies side
    by side is not packed. Raises DojoError where a move of it is refused."""
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
    wide = not shape and not single and _goes_along_rows(trace, product, machine, sizes, columns)
    fuse(trace, product.site.path)
    block = spot(trace, product.rows)
    act(trace, Tile, (block, block.child(0)), (rows, columns))
    row = block.child(0, 0)
    if not wide:
        act(trace, SwapScopes, block)
    for panel, dim in product.panels:
        if not ((single or wide) and dim == len(trace.kernel.buffer(panel).dims) - 1):
            mine = replace(product, panel=panel, column_dim=dim)
            around = block if wide else _around_panel(trace.kernel, block, mine)
            tried(trace, partial(_pack, block=block, around=around, product=mine, machine=machine, columns=columns))
    target = product.site.statement.target.buffer
    tile = fresh_name(trace.kernel, f"{target}_tile")
    given = any(gives(site.statement, target) for site in sites_in(trace.kernel, row.path))
    if not given or not tried(trace, move(Stage, row, target, tile, "out")):  # it adds to what is there
        act(trace, Stage, row, target, tile, "inout")
    act(trace, PlaceBuffer, tile, "reg")
    nest = stand_alone(trace, first_nest(row.child(0)), 2)
    if multiplies_bytes(trace.kernel, product.site) and product.sums == 1 and sum_in_quads(trace, nest, machine):
        pass
    elif product.sums == 1:
        act(trace, SwapScopes, nest.child(0))
        act(trace, SwapScopes, nest)
    else:
        act(trace, SinkScope, nest.child(0), product.sums)
        act(trace, SinkScope, nest, product.sums)
    _mark(trace, block, rows)


def _goes_along_rows(trace: Trace, product: Product, machine: Machine, sizes: Sizes, columns: int) -> bool:
    """Whether blocks of rows are known to go along all columns, one after the other. Sums are short, so that the
    result is most of the memory, and is written as it lies; and a cache holds all panels."""
    counts = [
        count_of(scope.extent, sizes) for scope in (product.column_scope, *product.site.scopes[-product.sums :])
    ]
    if None in counts or len(machine.caches) < 2:
        return False
    across, *summed = (count for count in counts if count is not None)
    held = prod((across, *summed)) * trace.kernel.buffer(product.panel).dtype.itemsize * len(product.panels)
    return across > columns and prod(summed) <= SHORT and held <= machine.caches[1] // 2


def gives(statement: Statement, buffer: str) -> bool:
    """Whether a statement gives an element of a buffer a value that it did not have before."""
    return statement.target.buffer == buffer and statement.accumulation is None


def _sums_in_lanes(trace: Trace, product: Product, machine: Machine, sizes: Sizes) -> bool:
    """Whether there are too few columns for a tile."""
    lanes, columns = _lanes(trace, product, machine), count_of(product.column_scope.extent, sizes)
    if columns is None or columns >= lanes:
        return False
    counts = [count_of(scope.extent, sizes) for scope in product.site.scopes[-product.sums :]]
    summed = None if None in counts else prod(count for count in counts if count is not None)
    return sums_in_lanes(lanes, columns, summed)


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
    if multiplies_bytes(trace.kernel, product.site):
        return default_shape(machine, lanes)
    scope = trace.kernel.at(product.rows)
    assert isinstance(scope, Scope)
    return shape_for(machine, lanes, count_of(scope.extent, sizes), count_of(product.column_scope.extent, sizes))


def _lanes(trace: Trace, product: Product, machine: Machine) -> int:
    """How many results a vector has."""
    size = trace.kernel.buffer(product.site.statement.target.buffer).dtype.itemsize
    return max(machine.vector_bytes // size, 1)


def fuse(trace: Trace, path: Path) -> None:
    """Multiplies and adds in one instruction where the statement at `path` adds up products of floats."""
    tried(trace, ToFma(place_of(path), 0))


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
    act(trace, Stage, around or block, product.panel, name, "in")
    last, column = len(trace.kernel.buffer(name).dims) - 1, product.column_dim
    if around is not None:
        act(trace, SplitDim, name, column, columns)
        order = [column, *(d for d in range(last + 2) if d not in (column, column + 1)), column + 1]
        act(trace, ReorderDims, name, order)
    elif column != last:
        act(trace, ReorderDims, name, [d for d in range(last + 1) if d != column] + [column])
        if column == last - 1:
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
