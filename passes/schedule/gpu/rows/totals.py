"""Sums and extremes of all that there is, on a GPU: of parts, a block each, and of these in a second launch."""

from __future__ import annotations

from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Vectorize
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.once import AddScope
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.gpu.sharing.threads import along
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.values.reductions import SplitReduction

PARTS = (32768, 16384, 8192)
"""How many elements of a sum a block may add up, the best first: of long ones there are few partial results."""

BLOCKS = 1024
"""How many blocks there should be for that."""

WIDTH = 4
"""How many elements side by side one access moves."""

MOST_THREADS = 1024
"""How many threads add up the partial results."""


def add_up(trace: Trace, path: Path) -> None:
    """A sum or maximum over all of a scope: of parts, a block each, and then of these."""
    scope = trace.kernel.at(path)
    statement = scope.body[0] if isinstance(scope, Scope) and len(scope.body) == 1 else None
    depth = trace.kernel.depth_of(path)
    if not isinstance(scope, Scope) or not isinstance(statement, Statement):
        raise ArgumentError("no sum by itself", "bad-arguments")
    if statement.accumulation is None or depends(statement.target, depth):
        raise ArgumentError("no sum of all there is", "bad-arguments")
    blocks, target, extent = spot(trace, path), statement.target.buffer, scope.extent.constant or 0
    act(trace, Split, blocks, next((p for p in PARTS if extent >= p * BLOCKS), PARTS[-1]))
    partial_sums = fresh_name(trace.kernel, f"{target}_part")
    act(trace, SplitReduction, blocks, target, partial_sums, blocks.scope.extent)
    act(trace, JoinScopes, blocks.beside(-1), blocks)
    part, together = blocks.child(1), blocks.beside(1)
    act(trace, AddScope, together, 1)
    once = together.around()
    along(trace, together, 0, MOST_THREADS)
    _ = tried(trace, partial(_in_fours, scope=part))
    along(trace, part, 0)
    act(trace, Bind, blocks, "gx")
    if blocks.path[-1]:
        before = blocks.beside(-1)
        if isinstance(before.node, Statement) and before.node.target == statement.target:
            _ = tried(trace, partial(_begun_later, before=before, once=once))
    act(trace, Bind, once, "gx")


def _begun_later(trace: Trace, before: Spot, once: Spot) -> None:
    """Brings what a sum begins with, in front of the blocks, to the launch behind them."""
    act(trace, AddScope, before, 1)
    begun = before.around()
    act(trace, SwapSiblings, begun)
    act(trace, JoinScopes, begun, once)


def _in_fours(trace: Trace, scope: Spot) -> None:
    """Elements of a sum side by side, which one access moves."""
    reads = [a for site in sites_in(trace.kernel, scope.path) for a in site.statement.reads]
    extent = scope.scope.extent.constant
    if not extent or extent % WIDTH or any(step_of(trace.kernel, a, scope.depth) != 1 for a in reads):
        raise ArgumentError("not of elements side by side", "bad-arguments")
    act(trace, Split, scope, WIDTH)
    act(trace, Vectorize, scope.child(0))
