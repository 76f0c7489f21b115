"""The register tile of a direct convolution: what `default_schedule` makes of a sum of products over windows.

A tile of neighbouring columns and several channels of the result stays in registers while the sum runs over it.
What is read of the image serves all channels, what is read of the filters all columns. The filters are packed, with
the channels of a tile side by side. No matrix is built. Where the cache of a core does not keep an image until the
next channels read it, all channels of a row are done before the next row.

Source: E. Georganas et al., "Anatomy of high-performance deep learning convolutions on SIMD architectures" (2018).

Sums over windows and rows: what `default_schedule` makes of a nest that adds up for each of many neighbours.

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
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.once import RemoveScope
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.tiles.tile_shape import window_shape
from dojoir.passes.schedule.facts.narrow import is_tiny
from dojoir.passes.schedule.facts.product_facts import Convolution, MatrixProduct, convolutions, is_box, products
from dojoir.passes.schedule.facts.strides import (
    NEAR,
    Sizes,
    count_of,
    depends,
    dims_along,
    footprint,
    is_short,
    kept_by,
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
    first_nest,
    fuse,
    keep_results,
    move,
    scopes_inside,
    spot,
)
from dojoir.support.frozen import dataclass

ASKED = 260
"""The cost of asking whether a tile is inside of an edge, and of beginning its sum for either, in multiply-adds."""


def channel_tiles(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Gives each convolution a register tile, unless it has few columns and a sum as short."""
    for convolution in convolutions(kernel):
        if not is_tiny(convolution.site, machine):
            make = partial(tile_channels, convolution=convolution, machine=machine, sizes=sizes)
            yield Fit(convolution.channels, make)


def tile_channels(trace: Trace, convolution: Convolution, machine: Machine, sizes: Sizes) -> None:
    """Gives a convolution its register tile. The lanes are channels, whose filters lie side by side once they are
    packed. Two vectors of them, and so many columns that the sums fill the registers; each instruction that
    multiplies and adds then needs a fraction of a load. Where it has fewer channels, or the sums are short, and its
    columns are neighbours, the lanes are these. One vector of them, and as many channels as let half of the
    registers hold the sums (`window_shape`). Raises IllegalMove where a move of it is refused, ArgumentError where
    there is one channel."""
    base, target = convolution.channels, convolution.site.statement.target.buffer
    outer, along = spot(trace, base), spot(trace, convolution.columns)
    counts = count_of(outer.scope.extent, sizes), count_of(along.scope.extent, sizes)
    require(counts[0] != 1, "of several channels")
    inner = convolution.site.scopes[along.depth + 1 :]
    asks = not machine.masks and _asks_columns(trace.kernel, convolution)
    begun = ASKED / (count_of(inner[0].extent, sizes) or ASKED) if asks else 0.0
    lanes, summed = lanes_of(trace.kernel, target, machine), product_of(inner, sizes)
    across, channels, columns = window_shape(machine, lanes, *counts, summed, convolution.strided or asks, begun)
    rows_outside = _rows_outside(trace.kernel, convolution, channels, machine, sizes)
    fuse(trace, convolution.site.path)
    levels = len(convolution.columns) - len(base)
    outer.split(channels)
    outer.child(*(0,) * (levels + 1)).split(columns)
    outer.child(0).sink(levels)
    block = outer.child(*(0,) * levels)
    rows = block.child(0)
    tile = keep_results(trace, rows, target)
    nest = first_nest(rows.child(0)).alone(2)
    if across:
        rows = nest
        nest = rows.child(0)
        rows.swap()
        Array(trace, tile).inside(*dims_along(convolution.site.statement.target, trace.kernel.depth_of(base)))
        _interchange_beside(nest, tile)
    _sum_over_tile(nest)
    take_trivial_away(block)
    mark_tile(block, max(channels, columns))
    for _ in range(rows_outside):
        outer.swap()
    if rows_outside:
        tried(trace, lambda _: _keep_rows(convolution, outer, rows_outside))
    tried(trace, lambda t: _pack(t, convolution, channels))


def _rows_outside(kernel: Kernel, convolution: Convolution, channels: int, machine: Machine, sizes: Sizes) -> int:
    """How many of the scopes between channels and columns go around the blocks of so many channels. None where
    there is one block, or the cache that a core has for itself keeps what a block reads of the image until the next
    one reads it again. Else as few as leave inside what that cache is known to keep, filters included; none where
    no scope does, since the filters would then be read again in place of the image."""
    own, inner = kernel.depth_of(convolution.channels), kernel.depth_of(convolution.columns)
    counts = {depth: count_of(scope.extent, sizes) for depth, scope in enumerate(convolution.site.scopes)}
    held = machine.caches[-1] if machine.caches else 0
    accesses = set(convolution.site.statement.accesses)
    images = [access for access in accesses if not depends(access, own)]
    swept = footprint(kernel, images, {depth: count for depth, count in counts.items() if depth > own}, sizes)
    total = counts[own]
    if (total is not None and total <= channels) or (swept is not None and swept <= held):
        return 0
    for row in range(own + 1, inner):
        running = {depth: count for depth, count in counts.items() if depth == own or depth > row}
        touched = footprint(kernel, accesses, running, sizes)
        if touched is not None and touched <= held:
            return row - own
    return 0


def _keep_rows(convolution: Convolution, outer: Spot, rows: int) -> None:
    """Copies what all blocks of channels inside of so many `rows` read of the image before the first of them. Its
    rows lie far apart, often by a power of two: a few places of a cache would have to hold them all. Raises
    IllegalMove where a move is refused."""
    site, own = convolution.site, outer.depth - rows
    images = {access.buffer for access in site.statement.reads if not depends(access, own)}
    for image in sorted(images):
        outer.stage(image, "rows", "in")


def _interchange_beside(nest: Spot, tile: str) -> None:
    """Exchanges the scopes over channels and columns of what stands beside the sum of a tile, where it works on the
    tile and on what no column changes, as a bias and a maximum with 0. Its lanes are channels then, as they lie."""
    for rows in nest.around().scopes():
        statements = [site.statement for site in sites_in(nest.trace.kernel, rows.path)]
        others = [a for s in statements for a in s.accesses if a.buffer != tile]
        still = not any(depends(a, rows.depth + 1) for a in others)
        if rows.path != nest.path and still and all(s.target.buffer == tile for s in statements):
            tried(nest.trace, move(SwapScopes, rows))


def _sum_over_tile(nest: Spot) -> None:
    """Brings the two scopes of a tile inside of the sum: `c > p > q > o > w` instead of `o > w > c > p > q`."""
    lanes = nest.child(0)
    levels = levels_outside(lanes, nest)
    lanes.sink(levels)
    summed = nest.child(0)
    nest.sink(levels)
    if levels > 1 and _asks_the_same(summed):
        tried(nest.trace, move(SinkScope, summed, levels - 1))


def _asks_columns(kernel: Kernel, convolution: Convolution) -> bool:
    """Whether a condition depends on the column, as at an edge: lanes would each ask it for themselves."""
    column = kernel.depth_of(convolution.columns)
    return any(isinstance(node, Guard) and column in _depths_asked(node) for node in convolution.site.ancestors)


def _asks_the_same(nest: Spot) -> bool:
    """Whether there are conditions inside a scope, and its iterations do not change any of them: then those are
    found out once for all of it, if it goes inside of the scopes that do."""
    nodes, around = nest.trace.kernel.walk(), nest.path
    guards = [node for own, node in nodes if is_inside(own, around) and isinstance(node, Guard)]
    return bool(guards) and not any(nest.depth in _depths_asked(guard) for guard in guards)


def levels_outside(nest: Spot, *tile: Spot) -> int:
    """How many scopes and guards, each the only child of the one before, run alike for all of a tile, whose
    scopes are these: from the only child of a scope on."""
    levels, depths = 0, {scope.depth for scope in (nest, *tile)}
    node: Node = nest.body[0]
    while not isinstance(node, Statement) and not (isinstance(node, Guard) and depths & _depths_asked(node)):
        levels += 1
        if len(node.body) > 1:
            break
        node = node.body[0]
    return levels


def _depths_asked(guard: Guard) -> frozenset[int]:
    """The depths of the iterators that conditions are on."""
    return frozenset().union(*(c.left.iterators | c.right.iterators for c in guard.conditions))


def take_trivial_away(block: Spot) -> None:
    """Removes the scopes of extent 1 in a block: those of the copy of a tile."""
    trivial: Spot | None = block
    while trivial is not None:
        trivial = next((scope for scope in scopes_inside(block)[1:] if scope.count == 1), None)
        if trivial is None or not tried(block.trace, move(RemoveScope, trivial)):
            return


def mark_tile(block: Spot, short: int) -> None:
    """Runs the innermost scopes of a block in lanes, and writes out those around them as short as a tile."""
    for scope in scopes_inside(block)[1:]:
        inner = scopes_inside(scope)[1:]
        if not inner:
            scope.mark("v")
        elif len(inner) == 1 and inner[0].path[-1] == 0 and 0 < (scope.scope.constant_bound or 0) <= short:
            scope.mark("u")


def _pack(trace: Trace, convolution: Convolution, channels: int) -> None:
    """Copies the filters once for the whole nest: the channels of a tile side by side, and all else in the order in
    which it is read. A tile's channels are written one after the other, as they lie in the copy."""
    nest = spot(trace, convolution.channels[:1])
    name = nest.stage(convolution.filters, "packed", "in")
    Array(trace, name).split(convolution.channel_dim, channels)
    inner = convolution.channel_dim + 1
    reads = (access for site in trace.kernel.sites for access in site.statement.reads)
    read = next(access for access in reads if access.buffer == name)
    depths = [max(index.iterators, default=-1) for index in read.indices if isinstance(index, Affine)]
    order = sorted((d for d in range(len(depths)) if d != inner), key=depths.__getitem__)
    Array(trace, name).order((*order, inner))
    if levels := len(depths) - 1 - inner:
        copied = nest.beside(-1).child(*(0,) * convolution.channel_dim)
        lanes = copied.split(channels)
        lanes.sink(levels)
        lanes.mark("v")


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
class WindowNest:
    """A nest `w > (…, scopes > y[w] op= x[w], …)`: the path of the scope over neighbours, and the statement. It is
    a window of several scopes, or a sum of `rows`."""

    columns: Path
    site: Site
    rows: bool


def window_tiles(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Keeps results of windows and of sums over rows in registers or in a cache while these are gone through."""
    for window in windows(kernel, sizes):
        yield Fit(window.columns, partial(tile_window, window=window, machine=machine, sizes=sizes))


def windows(kernel: Kernel, sizes: Sizes = MappingProxyType({})) -> Iterator[WindowNest]:
    """The nests that accumulate into neighbours from neighbours, in the order of the text."""
    found: set[Path] = set()
    for site in kernel.sites:
        window = _window(kernel, site, sizes)
        if window is not None and window.columns not in found:
            found.add(window.columns)
            yield window


def _window(kernel: Kernel, site: Site, sizes: Sizes) -> WindowNest | None:
    target, *reads = site.statement.accesses
    kept = kept_by(site)
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
    scope = scope_at(kernel, path)
    single = sum(isinstance(node, Scope) for node in scope.body) == 1
    plain = all(isinstance(node, Scope | Statement) for node in scope.body)
    return WindowNest(path, site, rows) if single and plain else None


def tile_window(trace: Trace, window: WindowNest, machine: Machine, sizes: Sizes = MappingProxyType({})) -> None:
    """Gives a window one vector of results in a register, a shorter one where a known number of results is mostly
    a multiple of that. It gives a sum of rows as many results as fill half of the first cache, or all of them in
    registers where they are known to be few. Raises IllegalMove where a move of it is refused."""
    block, target = spot(trace, window.columns), window.site.statement.target.buffer
    count, vector = count_of(block.scope.extent, sizes), lanes_of(trace.kernel, target, machine)
    few = count if window.rows else None
    beside = _in_cache(trace.kernel, target, machine) if window.rows else _lanes(count, vector)
    if few is not None and few <= WIDE:
        beside = vector * max(-(-few // vector), 1)
    else:
        few = None
    fuse(trace, window.site.path)
    lanes = block.split(beside)
    if not window.rows or few is not None:
        keep_results(trace, lanes, target)
    nest = first_nest(lanes).alone(1)
    _lanes_inside(block, nest, levels_outside(nest))
    if window.rows and few is None:
        tried(trace, lambda _: _several_rows(nest.around()))


def _lanes_inside(block: Spot, nest: Spot, levels: int) -> None:
    """Brings the lanes of a block inside of so many scopes of a sum. Raises IllegalMove where that is refused."""
    nest.sink(levels)
    take_trivial_away(block)
    mark_tile(block, 0)


def _in_cache(kernel: Kernel, target: str, machine: Machine) -> int:
    """How many results fill half of the first cache."""
    return max(machine.caches[0] // 2 // kernel.buffer(target).dtype.itemsize, 1)


def _several_rows(summed: Spot) -> None:
    """Adds several rows to a vector of results each time that this is loaded and stored. Raises DojoError where a
    move of it is refused."""
    rows = summed.split(ROWS)
    rows.swap()
    rows.mark("u")


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
            yield Fit(product.rows, partial(as_row_sum, product=product, machine=machine))


def as_row_sum(trace: Trace, product: MatrixProduct, machine: Machine) -> None:
    """Makes a product of one column a sum of rows. What it sums over outside of the rows of its result, of which as
    many as fill half of the first cache add up side by side. Raises IllegalMove where a move of it is refused."""
    target = product.site.statement.target.buffer
    fuse(trace, product.site.path)
    column = spot(trace, product.columns)
    spot(trace, product.rows).swap()
    lanes = column.child(0).split(_in_cache(trace.kernel, target, machine))
    lanes.stage(target, "tile", "out")
    _lanes_inside(column, first_nest(lanes).alone(1), 1)
