"""The register tile: what `default_schedule` makes of a nest that multiplies matrices.

The tile of the result stays in registers while the reduction runs over it, and the panel of the operand that
all rows share is packed.

Source: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Access, Kernel, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.combinators import tried
from dojoir.passes.schedule.sizes import Sizes, count_of, is_short
from dojoir.passes.schedule.spots import Spot, act, first_nest, move, spot, stand_alone
from dojoir.passes.schedule.strides import depends, step_of
from dojoir.passes.schedule.transposes import transpose_squares
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.storage.reorder_dims import ReorderDims
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.fma import ToFma
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Product:
    """A nest `i > j > (…, k > c[i, j] += a[i, k] * b[k, j], …)`: the path of its scope over rows, and the array
    that does not depend on the row (`b`), with the dimension of it that goes with the columns."""

    rows: Path
    site: Site
    panel: str
    column_dim: int


def products(kernel: Kernel) -> Iterator[Product]:
    """The nests that multiply matrices, in the order of the text."""
    for site in kernel.sites:
        found = _product(kernel, site)
        if found is not None:
            yield found


def _product(kernel: Kernel, site: Site) -> Product | None:
    depth = len(site.scopes)
    inner_three = site.ancestors[-3:]
    if depth < 3 or not all(isinstance(node, Scope) for node in inner_three) or site.statement.accumulation != "+=":
        return None
    row, column, inner = depth - 3, depth - 2, depth - 1
    i, j, k = site.scopes[row:]
    target, *reads = site.statement.accesses
    plain = len(i.body) == 1 and sum(isinstance(node, Scope) for node in j.body) == 1 and len(k.body) == 1
    square = not any(d >= row for scope in (i, j, k) for bound in scope.extent.bounds for d in bound.iterators)
    unmarked = not any(scope.marks for scope in site.scopes)
    if not (plain and square and unmarked and all(isinstance(n, Scope | Statement) for n in j.body)):
        return None
    if depends(target, inner) or not depends(target, row) or step_of(kernel, target, column) != 1:
        return None
    panels = [a for a in reads if depends(a, column) and depends(a, inner) and not depends(a, row)]
    others = [a for a in reads if depends(a, row) and depends(a, inner) and not depends(a, column)]
    if len(panels) != 1 or not others:
        return None
    dims = [d for d, index in enumerate(panels[0].indices)
            if isinstance(index, Access) or column in index.iterators]  # fmt: skip
    return Product(site.path[:-3], site, panels[0].buffer, dims[0]) if len(dims) == 1 else None


MOST_COLUMNS = 64
"""How many columns a tile has at most: so many lanes a scope may have."""


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
    scopes. A product that is known to have one row is none, and one with fewer rows than a tile has wider tiles;
    what lies side by side is not packed for it. Raises DojoError where a move of it is refused."""
    rows, columns = shape or tile_shape(trace, product, machine)
    scope = trace.kernel.at(product.rows)
    assert isinstance(scope, Scope)
    count = count_of(scope.extent, sizes) or rows
    if count == 1 and not shape:
        raise ArgumentError("one row shares nothing with another", "bad-arguments")
    if not shape and is_short(product.site.scopes[-2].extent, sizes, _columns(trace, product, machine, 1)):
        _sum_in_lanes(trace, product)
        return
    single = count < rows and not shape
    if single:
        rows, columns = count, _columns(trace, product, machine, (machine.registers - 2) // (count + 1))
    fuse(trace, product.site.path)
    block = spot(trace, product.rows)
    act(trace, Tile, (block, block.child(0)), (rows, columns))
    row = block.child(0, 0)
    act(trace, SwapScopes, block)
    if not (single and product.column_dim == len(trace.kernel.buffer(product.panel).dims) - 1):
        tried(trace, lambda t: _pack(t, block, product, machine))
    target = product.site.statement.target.buffer
    tile = fresh_name(trace.kernel, f"{target}_tile")
    if not tried(trace, move(Stage, row, target, tile, "out")):  # it adds to what is there
        act(trace, Stage, row, target, tile, "inout")
    act(trace, PlaceBuffer, tile, "reg")
    nest = stand_alone(trace, first_nest(row.child(0)), 2)
    act(trace, SwapScopes, nest.child(0))
    act(trace, SwapScopes, nest)
    _mark(trace, block, rows)


def _sum_in_lanes(trace: Trace, product: Product) -> None:
    """Runs the sum in lanes, for fewer columns than a vector has. The panel is packed for it where what is summed
    over does not lie side by side. Raises DojoError where it does not in the rows either, or a move is refused."""
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


def tile_shape(trace: Trace, product: Product, machine: Machine) -> tuple[int, int]:
    """The rows and columns of a tile. An instruction that multiplies and adds needs a load of a row's element, or
    of a vector of columns, for as many others as the tile has columns or rows: so it is nearly square in registers,
    with more vectors than fit only where there are few registers."""
    return tile_rows(machine), _columns(trace, product, machine, _vectors(machine))


def _columns(trace: Trace, product: Product, machine: Machine, vectors: int) -> int:
    """The columns of a tile of so many vectors."""
    size = trace.kernel.buffer(product.site.statement.target.buffer).dtype.itemsize
    return min(max(vectors * machine.vector_bytes // size, 1), MOST_COLUMNS)


def tile_rows(machine: Machine) -> int:
    """The rows of a tile: as many as leave registers for a row's element and a vector of each column."""
    return (machine.registers - _vectors(machine) - 2) // _vectors(machine)


def _vectors(machine: Machine) -> int:
    return 4 if machine.registers >= 32 else 2


def fuse(trace: Trace, path: Path) -> None:
    """Multiplies and adds in one instruction where the statement at `path` adds up products of floats."""
    tried(trace, ToFma(place_of(path), 0))


def alone(trace: Trace, nest: Path) -> Path:
    """Distributes a tile, `i > j > (before, k, after)`, so that the nest of `k` stands alone. Returns its place."""
    return stand_alone(trace, first_nest(spot(trace, (*nest, 0))), 2).path


def _mark(trace: Trace, block: Spot, rows: int) -> None:
    """Runs the innermost scopes of a tile in lanes and writes out the others of constant extent."""
    for path, node in trace.kernel.walk():
        if is_inside(path, block.path) and path != block.path and isinstance(node, Scope):
            if all(isinstance(child, Statement) for child in node.body):
                act(trace, Vectorize, spot(trace, path))
            elif 1 <= (node.constant_bound or 0) <= rows:
                act(trace, Unroll, spot(trace, path))


def _pack(trace: Trace, block: Spot, product: Product, machine: Machine) -> None:
    """Copies the panel that all blocks of rows share, its columns side by side: through squares, where they do not
    lie so."""
    name = fresh_name(trace.kernel, f"{product.panel}_panel")
    act(trace, Stage, block, product.panel, name, "in")
    last = len(trace.kernel.buffer(name).dims) - 1
    if product.column_dim != last:
        order = [d for d in range(last + 1) if d != product.column_dim] + [product.column_dim]
        act(trace, ReorderDims, name, order)
        if product.column_dim == last - 1:
            outer = block.beside(-1).child(*(0,) * product.column_dim)
            tried(trace, lambda t: transpose_squares(t, outer.path, machine))
