"""Products that sum over more than a cache holds, in blocks of the sum.

A product of few rows and columns that sums over many, `c[i, j] += x[k, i] * x[k, j]`, reads its operands once for
each of its tiles. Where a panel of these does not stay in a core's cache, each pass is one through memory. In
blocks of the sum, all tiles use what is there, and each adds to a result that is small. A factor that is computed
from several elements is then computed once a block, and not in each tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.expressions import affine_parts, expr_accesses, parts
from dojoir.ir.nodes import Kernel, Op, Scope, Site
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.tiles.tile_shape import MOST_COLUMNS
from dojoir.passes.schedule.facts.products import Product, products
from dojoir.passes.schedule.facts.sizes import Sizes, count_of
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import Spot, act, first_nest, spot, stand_alone
from dojoir.passes.storage.layout import ReorderDims, ReuseDims
from dojoir.passes.values.hoisting import Hoist

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


def _is_long(kernel: Kernel, product: Product, machine: Machine, sizes: Sizes) -> bool:
    rows = kernel.at(product.rows)
    assert isinstance(rows, Scope)
    counts = [count_of(s.extent, sizes) for s in (rows, product.column_scope, product.site.scopes[-1])]
    if None in counts:
        return False
    high, wide, long = (count or 0 for count in counts)
    item = kernel.buffer(product.panel).dtype.itemsize
    tiles = -(-high // machine.registers) * -(-wide // MOST_COLUMNS)
    held = machine.caches[-1] // 2 if machine.caches else 0
    block = BLOCK * (high + wide) * item
    return tiles >= TILES and long * min(high + wide, MOST_COLUMNS) * item > held >= block


def _block(trace: Trace, product: Product) -> None:
    """Raises IllegalMove where a move of it is refused."""
    rows = stand_alone(trace, first_nest(spot(trace, product.columns)), 2)
    columns, summed = rows.child(0), rows.child(0, 0)
    act(trace, Split, summed, BLOCK)
    act(trace, SwapScopes, columns)
    act(trace, SwapScopes, rows)
    for other in (columns, rows):
        while (number := _factor(trace, rows, other)) is not None:
            _compute_once(trace, rows, number)
    known(any(found.rows == rows.path for found in products(trace.kernel)), "a product without weights then")


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
        act(trace, ReuseDims, name, dim)
    if turned:
        act(trace, ReorderDims, name, (*range(dims - 2), dims - 1, dims - 2))


def _lies_across(trace: Trace, site: Site, number: int) -> bool:
    """Whether an element of a part goes on along rows or columns to the next one, and not along the sum."""
    inner = len(site.scopes) - 1
    accesses = list(expr_accesses(list(parts(site.statement.value))[number]))
    steps = [
        step_of(trace.kernel, a, depth) for a in accesses for depth in (inner - 2, inner - 1) if depends(a, inner)
    ]
    return 1 in steps
