"""Sums into one element: a part for each block, so that the cores share them and rounding stays small.

One accumulator for all takes up less and less of what is added to it: a sum of 2^27 numbers of one f32 stands still
at 2^24. With a part for each block or row, and the parts summed in blocks again, no chain of additions is long: of
10^9 equal numbers, which is the worst, the sum is within 1e-6.

Source: N. Higham, "The accuracy of floating point summation" (1993), section 4, on blocked and pairwise sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.sizes import Sizes
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.values.reductions import SplitReduction

BLOCK = 1024
"""How many elements of an array have a part of their own: with lanes, each adds up some 32."""

LEVELS = 2
"""How often parts are summed in parts again: 1024 * 1024 elements each add to the last sum."""


def sums_in_parts(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Gives each outermost scope that accumulates into elements that it does not go along, in a free order, parts
    of these, one for each of its iterations. Blocks of `BLOCK` where no scope is inside of it."""
    for n in range(len(kernel.body)):
        if _summed(kernel, (n,)):
            yield Fit((n,), partial(_in_parts, path=(n,)))


def _summed(kernel: Kernel, path: Path) -> list[str]:
    """The buffers that an outermost scope accumulates into, each one element for all of it, in the order of the
    text; none where it has a mark, or a constant extent that is short."""
    scope = kernel.at(path)
    if not isinstance(scope, Scope) or scope.marks or (scope.constant_bound or BLOCK) < BLOCK:
        return []
    sites = sites_in(kernel, path)
    targets = [site.statement.target for site in sites if site.statement.accumulation]
    alone = [a for a in targets if not any(depends(a, d) for d in range(8))]
    return list(dict.fromkeys(a.buffer for a in alone))


def _in_parts(trace: Trace, path: Path, level: int = 1) -> None:
    """Raises IllegalMove where a move of it is refused."""
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    names = _summed(trace.kernel, path)
    if all(isinstance(node, Statement) for node in scope.body):
        act(trace, Split, spot(trace, path), BLOCK)
    for name in names:
        scope = trace.kernel.at(path)
        assert isinstance(scope, Scope)
        part = fresh_name(trace.kernel, f"{name}_part")
        start = spot(trace, path)
        act(trace, SplitReduction, start, name, part, scope.extent)
        begin = spot(trace, path)
        act(trace, JoinScopes, begin, begin.beside(1))
    if level < LEVELS:
        for n in reversed(range(1, len(names) + 1)):  # what sums the parts of each
            if _summed(trace.kernel, (path[0] + n,)):
                tried(trace, partial(_in_parts, path=(path[0] + n,), level=level + 1))
