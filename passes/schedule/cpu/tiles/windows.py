"""Sums over windows and rows: what `default_schedule` makes of a nest that adds up for each of many neighbours.

Around a window, as of a pooling or of a convolution of each channel by itself, a vector of neighbouring results
stays in a register while the window is gone through. The lanes go inside of it. Around a sum of rows, the rows are
gone through one after the other, as they lie in memory, and as many results as stay in a cache add up side by side.
So few that registers hold them all stay there. A product that is known to have one column is such a sum where the
rows of its result lie side by side in a factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path, Scope, Site, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.tiles.convolution import levels_outside, mark_tile, take_trivial_away
from dojoir.passes.schedule.facts.convolutions import is_box
from dojoir.passes.schedule.facts.products import Product, products
from dojoir.passes.schedule.facts.sizes import Sizes, count_of, is_short
from dojoir.passes.schedule.facts.strides import NEAR, depends, step_of
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.fusing import fuse
from dojoir.passes.schedule.steps.keeping import keep_results
from dojoir.passes.schedule.steps.spots import Spot, act, first_nest, spot, stand_alone
from dojoir.passes.storage.staging import Stage
from dojoir.support.frozen import dataclass

WIDE = 64
"""How many neighbours are worth going through row by row, each time for what is around them: some lines of memory,
of which the processor fetches the next ones by itself."""


ROWS = 4
"""How many rows are added to a vector of results that stays in a cache, each time."""

PARTLY = 3
"""The cost of a vector with masked lanes, in whole vectors."""

LEAST = 4
"""The fewest lanes of a vector that is used in the place of a longer one."""


@dataclass(frozen=True)
class Window:
    """A nest `w > (…, scopes > y[w] op= x[w], …)`: the path of the scope over neighbours, and the statement. It is
    a window of several scopes, or a sum of `rows`."""

    columns: Path
    site: Site
    rows: bool


def window_tiles(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Keeps results of windows and of sums over rows in registers or in a cache while these are gone through."""
    for window in windows(kernel, sizes):
        yield Fit(window.columns, partial(tile_window, window=window, machine=machine, sizes=sizes))


def windows(kernel: Kernel, sizes: Sizes = MappingProxyType({})) -> Iterator[Window]:
    """The nests that accumulate into neighbours from neighbours, in the order of the text."""
    found: set[Path] = set()
    for site in kernel.sites:
        window = _window(kernel, site, sizes)
        if window is not None and window.columns not in found:
            found.add(window.columns)
            yield window


def _window(kernel: Kernel, site: Site, sizes: Sizes) -> Window | None:
    target, *reads = site.statement.accesses
    kept = [d for d in range(len(site.scopes)) if depends(target, d)]
    if site.statement.accumulation is None or not kept or any(scope.marks for scope in site.scopes):
        return None
    column = kept[-1]
    path = site.scope_paths[column]
    inner = len(site.scopes) - column - 1
    once = all(is_short(scope.extent, sizes, 2) for scope in site.scopes[:column])
    wide = (count_of(site.scopes[column].extent, sizes) or 0) >= WIDE
    rows = inner == 1 and len(path) == column + 1 and (once or wide)
    if not (inner > 1 or rows) or not is_box(site, column) or step_of(kernel, target, column) != 1:
        return None
    near = all(step_of(kernel, access, column, 1 if rows else NEAR) is not None for access in reads)
    if not near or not any(depends(access, column) for access in reads):
        return None
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    single = sum(isinstance(node, Scope) for node in scope.body) == 1
    plain = all(isinstance(node, Scope | Statement) for node in scope.body)
    return Window(path, site, rows) if single and plain else None


def tile_window(trace: Trace, window: Window, machine: Machine, sizes: Sizes = MappingProxyType({})) -> None:
    """Gives a window one vector of results in a register, a shorter one where a known number of results is mostly
    a multiple of that. It gives a sum of rows as many results as fill half of the first cache, or all of them in
    registers where they are known to be few. Raises IllegalMove where a move of it is refused."""
    block, target = spot(trace, window.columns), window.site.statement.target.buffer
    size = trace.kernel.buffer(target).dtype.itemsize
    count, vector = count_of(block.scope.extent, sizes), max(machine.vector_bytes // size, 1)
    few = count if window.rows else None
    beside = max(machine.caches[0] // 2 // size, 1) if window.rows else _lanes(count, vector)
    if few is not None and few <= WIDE:
        beside = vector * max(-(-few // vector), 1)
    else:
        few = None
    fuse(trace, window.site.path)
    act(trace, Split, block, beside)
    lanes = block.child(0)
    if not window.rows or few is not None:
        keep_results(trace, lanes, target)
    nest = stand_alone(trace, first_nest(lanes), 1)
    levels = levels_outside(trace.kernel, nest.path, frozenset({trace.kernel.depth_of(nest.path)}))
    act(trace, SinkScope, nest, levels)
    take_trivial_away(trace, block.path)
    mark_tile(trace, block.path, 0)
    if window.rows and few is None:
        tried(trace, partial(_several_rows, lanes=nest))


def _several_rows(trace: Trace, lanes: Spot) -> None:
    """Adds several rows to a vector of results each time that this is loaded and stored. Raises DojoError where a
    move of it is refused."""
    summed = lanes.around()
    act(trace, Split, summed, ROWS)
    rows = summed.child(0)
    act(trace, SwapScopes, rows)
    act(trace, Unroll, rows)


def _lanes(count: int | None, most: int) -> int:
    """The lanes of the vectors in which so many results, if that is known, take the least time: all of a register,
    or half or less of it."""
    shorter = [lanes for lanes in (most, most // 2, most // 4) if lanes >= LEAST]
    if not count or not shorter:
        return most
    return min(shorter, key=lambda lanes: count // lanes + PARTLY * (count % lanes > 0))


def columns_alone(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Makes sums over rows of the products that are known to have one column, and whose rows lie side by side in
    the factor that they are summed with."""
    for product in products(kernel):
        row = kernel.depth_of(product.rows)
        factors = [access for access in product.site.statement.reads if depends(access, row)]
        along = all(step_of(kernel, a, row) == 1 for a in factors if a != product.site.statement.target)
        if count_of(product.column_scope.extent, sizes) == 1 and along:
            yield Fit(product.rows, partial(turn_column, product=product, machine=machine))


def turn_column(trace: Trace, product: Product, machine: Machine) -> None:
    """Makes a product of one column a sum of rows. What it sums over outside of the rows of its result, of which as
    many as fill half of the first cache add up side by side. Raises IllegalMove where a move of it is refused."""
    target = product.site.statement.target.buffer
    fuse(trace, product.site.path)
    column = spot(trace, product.columns)
    act(trace, SwapScopes, spot(trace, product.rows))
    rows = column.child(0)
    act(trace, Split, rows, max(machine.caches[0] // 2 // trace.kernel.buffer(target).dtype.itemsize, 1))
    lanes = rows.child(0)
    tile = fresh_name(trace.kernel, f"{target}_tile")
    act(trace, Stage, lanes, target, tile, "out")
    nest = stand_alone(trace, first_nest(lanes), 1)
    act(trace, SinkScope, nest, 1)
    take_trivial_away(trace, column.path)
    mark_tile(trace, column.path, 0)
