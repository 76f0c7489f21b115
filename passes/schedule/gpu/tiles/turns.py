"""Tiles of a product's operands on their way to a block's shared memory: through registers, into two buffers.

While the threads of a block multiply with one tile, what they have read of the next lies in their registers. They
write it to the other buffer, so that they wait for each other once a tile. Every step is a move.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008), section 4.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Condition
from dojoir.passes.base.move import Move, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.sinking import LiftScope, SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.gpu.sharing.copies import without_ones
from dojoir.passes.schedule.gpu.sharing.threads import known_extent
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PadDims, PlaceBuffer, ReorderDims, ReuseDims
from dojoir.passes.storage.staging import Stage
from dojoir.support.frozen import dataclass

LANES = 4
"""How many f32 one access moves."""

PADDING = 4
"""By how many elements the rows of a turned tile are apart more, so that threads write to different banks."""


@dataclass(frozen=True)
class Operand:
    """An array of a product: the dimensions of it along the tile, of `tile` elements, and along the sum."""

    array: str
    tile_dim: int
    sum_dim: int
    tile: int

    @property
    def turned(self) -> bool:
        """Whether what lies side by side in it is summed over: its tile is turned on the way to shared memory."""
        return self.tile_dim < self.sum_dim


@dataclass(frozen=True)
class Fetched:
    """A tile of an operand on its way: `ahead`, in registers, is filled by the loop `read`, and `tile`, in shared
    memory, from it by the loop `write`."""

    operand: Operand
    ahead: str
    read: Spot
    tile: str
    write: Spot


def through_two_buffers(
    trace: Trace, loop: Spot, operands: tuple[Operand, Operand], depth: int, threads: int
) -> None:
    """Makes a loop over tiles, `depth` deep each, read its operands from shared memory, which `threads` fill.
    Raises DojoError where they do not share a tile equally, or a move is refused."""
    first, second = (_fetched(trace, loop, operand, depth, threads) for operand in operands)
    _one_ahead(trace, first, second, loop)
    for fetched in (first, second):
        _in_registers(trace, fetched, depth, threads)
        _two(trace, fetched)


def _fetched(trace: Trace, loop: Spot, operand: Operand, depth: int, threads: int) -> Fetched:
    """Has a loop over tiles work on copies of all tiles of an operand, which the threads make before it."""
    tile = fresh_name(trace.kernel, f"{operand.array}_tile")
    act(trace, Stage, loop, operand.array, tile, "in")
    write = without_ones(trace, loop.beside(-1))
    ahead = fresh_name(trace.kernel, f"{operand.array}_ahead")
    act(trace, Stage, write, operand.array, ahead, "in")
    read = without_ones(trace, write.beside(-1))
    for name in (tile, ahead):
        act(trace, SplitDim, name, operand.sum_dim, depth)
    read = _shared_out(trace, read, operand, depth, threads, Vectorize)
    write = _shared_out(trace, write, operand, depth, threads, Unroll if operand.turned else Vectorize)
    return Fetched(operand, ahead, read, tile, write)


def _shared_out(
    trace: Trace, copy: Spot, operand: Operand, depth: int, threads: int, neighbours: type[Move]
) -> Spot:
    """Makes a copy of an operand, over its two dimensions, a loop over tiles around threads, neighbours in memory
    side by side; `neighbours` is how a thread moves its own. Returns the loop."""
    count, times = _rows(operand, depth, threads)
    outer, inner = copy, copy.child(0)
    if operand.turned:
        loop, rows = inner, outer
        if times > 1:
            act(trace, Split, rows, count)
        act(trace, Split, loop, depth)
        side_by_side = loop.child(0)
        known_extent(trace, side_by_side, depth)
        act(trace, Split, side_by_side, LANES)
        act(trace, LiftScope, loop, 2 if times > 1 else 1)
    else:
        loop, side_by_side = outer, inner
        act(trace, Split, loop, depth)
        rows = loop.child(0)
        known_extent(trace, rows, depth)
        if times > 1:
            act(trace, Split, rows, count)
        act(trace, Split, side_by_side, LANES)
    own = side_by_side.child(0)
    shared = rows
    if times > 1:
        shared = rows.child(0)
        act(trace, SinkScope, rows, 2)
        act(trace, Unroll, rows)
    act(trace, Bind, shared, "by")
    act(trace, Bind, side_by_side, "bx")
    act(trace, neighbours, own)
    return loop


def _rows(operand: Operand, depth: int, threads: int) -> tuple[int, int]:
    """How many rows of a tile, as it lies in memory, the threads fill at a time, and how often they do."""
    along, across = (depth, operand.tile) if operand.turned else (operand.tile, depth)
    each, left = divmod(along, LANES)
    rows = threads // max(each, 1)
    if left or not each or threads % each or across % rows:
        raise ArgumentError(f"{threads} threads do not share tiles of {along}×{across} equally", "bad-arguments")
    return rows, across // rows


def _one_ahead(trace: Trace, first: Fetched, second: Fetched, loop: Spot) -> None:
    """Five loops, which read the first operand, write it to the buffer, both again for the second, and multiply, as
    one: what is read there is that of the next iteration."""
    act(trace, SwapSiblings, first.write)  # both are read, then both are written
    for fetched in (second, first):
        act(
            trace, Peel, fetched.read
        )  # the first tiles; the loop itself reads the others, of which each is the next
    for fetched in (first, second):
        _as_often(trace, fetched.read, loop)
    act(trace, SwapSiblings, first.read)  # the first tiles of both, then the loops
    reads = [second.read.child(0), first.read.child(0)]
    act(trace, JoinScopes, first.write, second.write)
    act(trace, JoinScopes, first.read, second.read)
    act(trace, JoinScopes, first.read, first.write)
    for read in 2 * reads:
        act(trace, SwapSiblings, read)  # behind the writes of the tiles that were read before
    act(trace, JoinScopes, first.read, loop)


def _as_often(trace: Trace, rest: Spot, loop: Spot) -> None:
    """Makes a scope run as often as another, which runs more often: the last times it does nothing."""
    (end,), (whole,) = rest.scope.extent.bounds, loop.scope.extent.bounds
    guard_body(trace, rest, [Condition(rest.iterator, "<", end)])
    act(trace, SetExtent, rest, whole)


def _in_registers(trace: Trace, fetched: Fetched, depth: int, threads: int) -> None:
    """Puts the prefetched values of a thread into registers: dimensions over threads take none."""
    operand, name = fetched.operand, fetched.ahead
    rows, times = _rows(operand, depth, threads)
    dim = operand.sum_dim
    if operand.turned:
        if times > 1:
            act(trace, SplitDim, name, operand.tile_dim, rows)
            dim += 1
        act(trace, SplitDim, name, dim + 1, LANES)
    else:
        if times > 1:
            act(trace, SplitDim, name, dim + 1, rows)
        act(trace, SplitDim, name, operand.tile_dim + 1 + (times > 1), LANES)
    act(trace, ReuseDims, name, dim)
    act(trace, PlaceBuffer, name, "reg")


def _two(trace: Trace, fetched: Fetched) -> None:
    """A buffer of two tiles in turns, one that lies along the sum turned."""
    operand, name = fetched.operand, fetched.tile
    act(trace, SplitDim, name, operand.sum_dim, 2)
    act(trace, ReuseDims, name, operand.sum_dim)
    if operand.turned:
        order = [d for d in range(len(trace.kernel.buffer(name).dims)) if d != operand.tile_dim]
        act(trace, ReorderDims, name, (*order, operand.tile_dim))
        act(trace, PadDims, name, operand.tile_dim, PADDING)
    act(trace, PlaceBuffer, name, "shared")
