"""Sums and extremes of all that there is, on a GPU: of parts, a block each, and of these in a second launch."""

from __future__ import annotations

from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Path, Scope, Statement, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make, tried
from dojoir.passes.schedule.gpu_threads import along
from dojoir.passes.schedule.strides import depends, sites_in, step_of

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
    place = format_path(path)
    whole = scope.extent.constant or 0
    make(trace, f"split({place}, {next((p for p in PARTS if whole >= p * BLOCKS), PARTS[-1])})")
    blocks = trace.kernel.at(path)
    assert isinstance(blocks, Scope) and len(blocks.extent.bounds) == 1
    partial_sums = fresh_name(trace.kernel, f"{statement.target.buffer}_part")
    make(trace, f"split_reduction({place}, {statement.target.buffer}, {partial_sums}, {blocks.extent.bounds[0]})")
    parts, last = ((*path[:-1], path[-1] + n) for n in range(2))
    make(trace, f"join_scopes({place}, {format_path(last)})")
    make(trace, f"add_scope({format_path(last)}, 1)")
    along(trace, (*last, 0), 0, MOST_THREADS)
    _ = tried(trace, partial(_in_fours, path=(*parts, 1)))
    along(trace, (*parts, 1), 0)
    make(trace, f"bind({place}, gx)")
    before = trace.kernel.at((*path[:-1], path[-1] - 1)) if path[-1] else None
    begun = isinstance(before, Statement) and before.target == statement.target
    if begun and tried(trace, partial(_begun_later, path=path)):
        last = parts
    make(trace, f"bind({format_path(last)}, gx)")


def _begun_later(trace: Trace, path: Path) -> None:
    """Brings what a sum begins with, in front of the scope at `path`, to the launch behind it."""
    before, last = format_path((*path[:-1], path[-1] - 1)), format_path((*path[:-1], path[-1] + 1))
    make(trace, f"add_scope({before}, 1)")
    make(trace, f"swap_siblings({before})")
    make(trace, f"join_scopes({format_path(path)}, {last})")


def _in_fours(trace: Trace, path: Path) -> None:
    """Elements of a sum side by side, which one access moves."""
    scope, depth, place = trace.kernel.at(path), trace.kernel.depth_of(path), format_path(path)
    reads = [a for site in sites_in(trace.kernel, path) for a in site.statement.reads]
    extent = scope.extent.constant if isinstance(scope, Scope) else None
    if not extent or extent % WIDTH or any(step_of(trace.kernel, a, depth) != 1 for a in reads):
        raise ArgumentError("not of elements side by side", "bad-arguments")
    make(trace, f"split({place}, {WIDTH})")
    make(trace, f"vectorize({place}.0)")
