"""Tiles of a product's operands on their way to a block's shared memory: through registers, into two buffers.

While the threads of a block multiply with one tile, what they have read of the next lies in their registers. They
write it to the other buffer, so that they wait for each other once a tile. Every step is a move.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008), section 4.

Copies that run ahead of what reads them: a text in which a loop copies the tiles of a later iteration.

While the threads of a block work on one tile, the next ones are on their way to the other stages of its buffer. The
lowering makes such copies asynchronous where it proves that each has landed before it is read
(`codegen.lower.waits.landings`). Every step is a move.
"""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition
from dojoir.ir.places import sites_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.schedule.facts.strides import dims_along
from dojoir.passes.schedule.gpu.sharing.threads import without_ones
from dojoir.passes.schedule.steps.spots import Array, Spot, act, mark_all, spot
from dojoir.support.frozen import dataclass

LANES = 4
"""How many f32 one access moves."""

PADDING = 4
"""By how many elements the rows of a transposed tile are apart more, so that threads write to different banks."""


@dataclass(frozen=True)
class StagedOperand:
    """An array of a product: the dimensions of it along the tile, of `tile` elements, and along the sum."""

    array: str
    tile_dim: int
    sum_dim: int
    tile: int

    @property
    def transposed(self) -> bool:
        """Whether what lies side by side in it is summed over: its tile is transposed on the way to shared
        memory."""
        return self.tile_dim < self.sum_dim


@dataclass(frozen=True)
class Fetched:
    """A tile of an operand on its way: `ahead`, in registers, is filled by the loop `read`, and `tile`, in shared
    memory, from it by the loop `write`."""

    operand: StagedOperand
    ahead: str
    read: Spot
    tile: str
    write: Spot


def through_two_buffers(
    trace: Trace, loop: Spot, operands: tuple[StagedOperand, StagedOperand], depth: int, threads: int
) -> None:
    """Makes a loop over tiles, `depth` deep each, read its operands from shared memory, which `threads` fill.
    Raises DojoError where they do not share a tile equally, or a move is refused."""
    first, second = (_fetched(trace, loop, operand, depth, threads) for operand in operands)
    _one_ahead(trace, first, second, loop)
    for fetched in (first, second):
        _in_registers(trace, fetched, depth, threads)
        _two(trace, fetched)


def _fetched(trace: Trace, loop: Spot, operand: StagedOperand, depth: int, threads: int) -> Fetched:
    """Has a loop over tiles work on copies of all tiles of an operand, which the threads make before it."""
    tile = loop.stage(operand.array, "tile", "in")
    write = without_ones(loop.beside(-1))
    ahead = write.stage(operand.array, "ahead", "in")
    read = without_ones(write.beside(-1))
    for name in (tile, ahead):
        Array(trace, name).split(operand.sum_dim, depth)
    read = _shared_out(read, operand, depth, threads, "v")
    write = _shared_out(write, operand, depth, threads, "u" if operand.transposed else "v")
    return Fetched(operand, ahead, read, tile, write)


def _shared_out(copy: Spot, operand: StagedOperand, depth: int, threads: int, role: str) -> Spot:
    """Makes a copy of an operand, over its two dimensions, a loop over tiles around threads, neighbours in memory
    side by side; the `role` is that of those of a thread. Returns the loop."""
    count, times = _rows(operand, depth, threads)
    outer, inner = copy, copy.child(0)
    if operand.transposed:
        loop, rows = inner, outer
        if times > 1:
            rows.split(count)
        side_by_side = loop.split(depth)
        side_by_side.constant(depth)
        side_by_side.split(LANES)
        loop.lift(2 if times > 1 else 1)
    else:
        loop, side_by_side = outer, inner
        rows = loop.split(depth)
        rows.constant(depth)
        if times > 1:
            rows.split(count)
        side_by_side.split(LANES)
    own = side_by_side.child(0)
    shared = rows
    if times > 1:
        shared = rows.child(0)
        rows.sink(2)
        rows.mark("u")
    mark_all(((shared, "by"), (side_by_side, "bx"), (own, role)))
    return loop


def _rows(operand: StagedOperand, depth: int, threads: int) -> tuple[int, int]:
    """How many rows of a tile, as it lies in memory, the threads fill at a time, and how often they do."""
    along, across = (depth, operand.tile) if operand.transposed else (operand.tile, depth)
    each, left = divmod(along, LANES)
    rows = threads // max(each, 1)
    if left or not each or threads % each or across % rows:
        raise ArgumentError(f"{threads} threads do not share tiles of {along}×{across} equally", "bad-arguments")
    return rows, across // rows


def _one_ahead(trace: Trace, first: Fetched, second: Fetched, loop: Spot) -> None:
    """Five loops, which read the first operand, write it to the buffer, both again for the second, and multiply, as
    one: what is read there is that of the next iteration."""
    first.write.swap_next()  # both are read, then both are written
    for fetched in (second, first):
        act(trace, Peel, fetched.read)  # the first tiles; the loop itself reads each next one
    for fetched in (first, second):  # the last time it does nothing
        rest, (whole,) = fetched.read, loop.scope.extent.bounds
        rest.guard([Condition(rest.iterator, "<", rest.scope.extent.bounds[0])])
        rest.bound(whole)
    first.read.swap_next()  # the first tiles of both, then the loops
    reads = [second.read.child(0), first.read.child(0)]
    first.write.join(second.write)
    first.read.join(second.read)
    first.read.join(first.write)
    for read in 2 * reads:
        read.swap_next()  # behind the writes of the tiles that were read before
    first.read.join(loop)


def _in_registers(trace: Trace, fetched: Fetched, depth: int, threads: int) -> None:
    """Puts the prefetched values of a thread into registers: dimensions over threads take none."""
    operand, name = fetched.operand, fetched.ahead
    rows, times = _rows(operand, depth, threads)
    dim, ahead = operand.sum_dim + (operand.transposed and times > 1), Array(trace, name)
    if times > 1:
        ahead.split(operand.tile_dim if operand.transposed else dim + 1, rows)
    ahead.split(dim + 1 if operand.transposed else operand.tile_dim + 1 + (times > 1), LANES).reuse(dim).place(
        "reg"
    )


def _two(trace: Trace, fetched: Fetched) -> None:
    """A buffer of two tiles in turns, one that lies along the sum turned."""
    operand, name = fetched.operand, fetched.tile
    two = Array(trace, name).split(operand.sum_dim, 2).reuse(operand.sum_dim)
    if operand.transposed:
        two.inside(operand.tile_dim).pad(operand.tile_dim, PADDING)
    two.place("shared")


def stages(trace: Trace, loop: str, count: int) -> None:
    """Has the loops before `loop` that run as often run ahead of it, by `count` - 1 iterations: the first ones
    before it, each other one in the iteration of `loop` that is so much earlier. Buffers that they alone fill, a
    part an iteration, get `count` parts that are used in turns.

    >>> import dojoir
    >>> kernel = dojoir.parse('''kernel twice(N)
    ... in  x: f32[8, N]
    ... out y: f32[8, N]
    ... tmp t: f32[8, N]
    ... 8
    ... | N
    ... | | t[{0}, {1}] = x[{0}, {1}]
    ... 8 @k
    ... | N
    ... | | y[{k}, {1}] = 2 * t[{k}, {1}]
    ... ''')
    >>> print(dojoir.parse_pipeline("stages(@k, 3)")[0].on(kernel).kernel)
    kernel twice(N)
    in  x: f32[8, N]
    out y: f32[8, N]
    tmp t: f32[3~, 3, N]
    <BLANKLINE>
    2
    | N
    | | t[0, {0}, {1}] = x[{0}, {1}]
    8 @k
    | if {k} < 6
    | | N
    | | | t[({k} + 2) // 3, ({k} + 2) % 3, {1}] = x[{k} + 2, {1}]
    | N
    | | y[{k}, {1}] = 2 * t[{k} // 3, {k} % 3, {1}]
    <BLANKLINE>
    """
    filled = spot(trace, trace.kernel.path(loop))
    ahead = [filled.beside(-n) for n in range(filled.path[-1], 0, -1)]
    copies = [one for one in ahead if _fills(trace, one, filled)]
    if not copies:
        raise ArgumentError(f"no loop before {filled} runs as often and fills what it reads", "bad-arguments")
    run_ahead(trace, copies, filled, count)


def _fills(trace: Trace, copy: Spot, loop: Spot) -> bool:
    """Whether a node before a loop is one that runs as often."""
    return copy.scopes() != [] and copy.node == copy.scope and copy.scope.extent == loop.scope.extent


def run_ahead(trace: Trace, copies: Sequence[Spot], loop: Spot, count: int) -> tuple[Spot, Spot]:
    """Does `stages` for the loops right before a loop that fill what it reads. Returns the loop over the first
    iterations of all of them and the guard around the others, which have the bodies of the copies in order."""
    (times,) = loop.scope.extent.bounds
    ahead = count - 1
    if count < 2 or not (times.is_constant and times.offset > ahead):
        raise ArgumentError(f"{times} iterations of {loop} do not run in {count} stages", "bad-arguments")
    filled = [(sites_inside(trace.kernel, copy.path)[0].statement.target, copy.depth) for copy in copies]
    for other in copies[1:]:
        copies[0].join(other)
    first, rest = copies[0].cut(Affine.constant(ahead))
    guard = rest.guard([Condition(rest.iterator, "<", times - ahead)])
    rest.bound(times)
    rest.join(loop)
    for target, depth in filled:
        dim = dims_along(target, depth)[0]
        Array(trace, target.buffer).split(dim, count).reuse(dim)
    return first, guard
