"""Copies that run ahead of what reads them: a text in which a loop copies the tiles of a later iteration.

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
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body, in_two, spot
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import ReuseDims


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
        act(trace, JoinScopes, copies[0], other)
    first, rest = in_two(trace, Cut, copies[0], Affine.constant(ahead))
    guard = guard_body(trace, rest, [Condition(rest.iterator, "<", times - ahead)])
    act(trace, SetExtent, rest, times)
    act(trace, JoinScopes, rest, loop)
    for target, depth in filled:
        dim = next(
            d for d, index in enumerate(target.indices) if isinstance(index, Affine) and depth in index.iterators
        )
        act(trace, SplitDim, target.buffer, dim, count)
        act(trace, ReuseDims, target.buffer, dim)
    return first, guard
