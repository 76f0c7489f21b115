"""The register tile of a direct convolution: what `default_schedule` makes of a sum of products over windows.

A tile of neighbouring columns and several channels of the result stays in registers while the sum runs over it.
What is read of the image serves all channels, what is read of the filters all columns. The filters are packed, with
the channels of a tile side by side. No matrix is built. Where the cache of a core does not keep an image until the
next channels read it, all channels of a row are done before the next row.

Source: E. Georganas et al., "Anatomy of high-performance deep learning convolutions on SIMD architectures" (2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.once import RemoveScope
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.tiles.tile_shape import window_shape
from dojoir.passes.schedule.facts.convolutions import Convolution, convolutions
from dojoir.passes.schedule.facts.footprints import footprint
from dojoir.passes.schedule.facts.narrow import is_tiny
from dojoir.passes.schedule.facts.sizes import Sizes, count_of
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.fusing import fuse
from dojoir.passes.schedule.steps.keeping import keep_results
from dojoir.passes.schedule.steps.spots import Spot, act, first_nest, move, spot, stand_alone
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import ReorderDims
from dojoir.passes.storage.staging import Stage

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
    size = trace.kernel.buffer(target).dtype.itemsize
    lanes = max(machine.vector_bytes // size, 1)
    scope, along = trace.kernel.at(base), trace.kernel.at(convolution.columns)
    assert isinstance(scope, Scope) and isinstance(along, Scope)
    known = count_of(scope.extent, sizes), count_of(along.extent, sizes)
    if known[0] == 1:
        raise ArgumentError("one channel shares nothing with another", "bad-arguments")
    inner = convolution.site.scopes[trace.kernel.depth_of(convolution.columns) + 1 :]
    counts = [count_of(scope.extent, sizes) for scope in inner]
    summed = None if None in counts else prod(count for count in counts if count is not None)
    asks = not machine.masks and _asks_columns(trace.kernel, convolution)
    begun = ASKED / (counts[0] or ASKED) if asks else 0.0
    across, channels, columns = window_shape(machine, lanes, *known, summed, convolution.strided or asks, begun)
    rows_outside = _rows_outside(trace.kernel, convolution, channels, machine, sizes)
    fuse(trace, convolution.site.path)
    levels = len(convolution.columns) - len(base)
    outer = spot(trace, base)
    act(trace, Split, outer, channels)
    act(trace, Split, outer.child(*(0,) * (levels + 1)), columns)
    act(trace, SinkScope, outer.child(0), levels)
    block = outer.child(*(0,) * levels)
    rows = block.child(0)
    tile = keep_results(trace, rows, target)
    nest = stand_alone(trace, first_nest(rows.child(0)), 2)
    if across:
        rows = nest
        nest = rows.child(0)
        act(trace, SwapScopes, rows)
        last = len(trace.kernel.buffer(tile).dims) - 1
        dims = [d for d, index in enumerate(convolution.site.statement.target.indices)
                if isinstance(index, Affine) and trace.kernel.depth_of(base) in index.iterators]  # fmt: skip
        order = [d for d in range(last + 1) if d not in dims] + dims
        act(trace, ReorderDims, tile, order)
        _turn_beside(trace, nest, tile)
    _sum_over_tile(trace, nest)
    take_trivial_away(trace, block.path)
    mark_tile(trace, block.path, max(channels, columns))
    for _ in range(rows_outside):
        act(trace, SwapScopes, outer)
    if rows_outside:
        tried(trace, lambda t: _keep_rows(t, convolution, spot(t, outer.path), rows_outside))
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


def _keep_rows(trace: Trace, convolution: Convolution, outer: Spot, rows: int) -> None:
    """Copies what all blocks of channels inside of so many `rows` read of the image before the first of them. Its
    rows lie far apart, often by a power of two: a few places of a cache would have to hold them all. Raises
    IllegalMove where a move is refused."""
    site, own = convolution.site, trace.kernel.depth_of(outer.path) - rows
    images = {access.buffer for access in site.statement.reads if not depends(access, own)}
    for image in sorted(images):
        act(trace, Stage, outer, image, fresh_name(trace.kernel, f"{image}_rows"), "in")


def _turn_beside(trace: Trace, nest: Spot, tile: str) -> None:
    """Exchanges the scopes over channels and columns of what stands beside the sum of a tile, where it works on the
    tile and on what no column changes, as a bias and a maximum with 0. Its lanes are channels then, as they lie."""
    for rows in nest.around().scopes():
        if rows.path != nest.path:
            statements = [site.statement for site in sites_in(trace.kernel, rows.path)]
            others = [a for s in statements for a in s.accesses if a.buffer != tile]
            still = not any(depends(a, rows.depth + 1) for a in others)
            if still and all(s.target.buffer == tile for s in statements):
                tried(trace, move(SwapScopes, rows))


def _sum_over_tile(trace: Trace, nest: Spot) -> None:
    """Brings the two scopes of a tile inside of the sum: `c > p > q > o > w` instead of `o > w > c > p > q`."""
    lanes = nest.child(0)
    levels = levels_outside(trace.kernel, lanes.path, frozenset({nest.depth, lanes.depth}))
    act(trace, SinkScope, lanes, levels)
    summed = nest.child(0)
    act(trace, SinkScope, nest, levels)
    if levels > 1 and _asks_the_same(trace.kernel, summed.path):
        tried(trace, move(SinkScope, summed, levels - 1))


def _asks_columns(kernel: Kernel, convolution: Convolution) -> bool:
    """Whether a condition depends on the column, as at an edge: lanes would each ask it for themselves."""
    column = kernel.depth_of(convolution.columns)
    guards = [node for node in convolution.site.ancestors if isinstance(node, Guard)]
    return any(column in side.iterators for guard in guards for c in guard.conditions for side in (c.left, c.right))


def _asks_the_same(kernel: Kernel, path: Path) -> bool:
    """Whether there are conditions inside a scope, and its iterations do not change any of them: then those are
    found out once for all of it, if it goes inside of the scopes that do."""
    depth = kernel.depth_of(path)
    guards = [node for own, node in kernel.walk() if is_inside(own, path) and isinstance(node, Guard)]
    sides = [side for guard in guards for c in guard.conditions for side in (c.left, c.right)]
    return bool(guards) and not any(depth in side.iterators for side in sides)


def goes_outside(node: Node, tile: frozenset[int]) -> bool:
    """Whether a node runs alike for all elements of a tile, the scopes of which have the depths in `tile`."""
    match node:
        case Scope():
            return True
        case Guard(conditions):
            sides = [side for condition in conditions for side in (condition.left, condition.right)]
            return not any(tile & side.iterators for side in sides)
    return False


def levels_outside(kernel: Kernel, path: Path, tile: frozenset[int]) -> int:
    """How many scopes and guards, each the only child of the one before, run alike for all elements of a tile: from
    the only child of the scope at `path` on."""
    levels = 0
    node: Node = kernel.at((*path, 0))
    while goes_outside(node, tile):
        levels += 1
        assert not isinstance(node, Statement)
        if len(node.body) > 1:
            break
        node = node.body[0]
    return levels


def take_trivial_away(trace: Trace, block: Path) -> None:
    """Removes the scopes of extent 1 in a block: those of the copy of a tile."""
    while True:
        trivial = (
            path
            for path, node in trace.kernel.walk()
            if isinstance(node, Scope) and node.extent.constant == 1 and is_inside(path, block) and path != block
        )
        path = next(trivial, None)
        if path is None or not tried(trace, RemoveScope(place_of(path))):
            return


def mark_tile(trace: Trace, block: Path, channels: int) -> None:
    """Runs the innermost scopes of a block in lanes, and writes out those around them as short as a tile."""
    scopes = [(path, node) for path, node in trace.kernel.walk() if isinstance(node, Scope)]
    inside = [(path, node) for path, node in scopes if is_inside(path, block) and path != block]
    for path, node in inside:
        below = [p for p, _ in inside if len(p) > len(path) and is_inside(p, path)]
        if not below:
            act(trace, Vectorize, spot(trace, path))
        elif below == [(*path, 0)] and (node.constant_bound or channels + 1) <= channels:
            act(trace, Unroll, spot(trace, path))


def _pack(trace: Trace, convolution: Convolution, channels: int) -> None:
    """Copies the filters once for the whole nest: the channels of a tile side by side, and all else in the order in
    which it is read. A tile's channels are written one after the other, as they lie in the copy."""
    name = fresh_name(trace.kernel, f"{convolution.filters}_packed")
    nest = spot(trace, convolution.channels[:1])
    act(trace, Stage, nest, convolution.filters, name, "in")
    act(trace, SplitDim, name, convolution.channel_dim, channels)
    inner = convolution.channel_dim + 1
    reads = (access for site in trace.kernel.sites for access in site.statement.reads)
    read = next(access for access in reads if access.buffer == name)
    depths = [max(index.iterators, default=-1) for index in read.indices if isinstance(index, Affine)]
    order = sorted((d for d in range(len(depths)) if d != inner), key=depths.__getitem__)
    act(trace, ReorderDims, name, (*order, inner))
    if levels := len(depths) - 1 - inner:
        copied = nest.beside(-1).child(*(0,) * convolution.channel_dim)
        act(trace, Split, copied, channels)
        lanes = copied.child(0)
        act(trace, SinkScope, lanes, levels)
        act(trace, Vectorize, lanes)
