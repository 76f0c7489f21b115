"""Sums down the columns of a matrix, turned: they go along its rows, as these lie in memory.

A vector times a matrix may be said as one sum after the other, each down a column. Row after row, each adds to all
sums, and what else goes along the rows can join: a matrix that is wanted both ways is read once.
"""

from __future__ import annotations

from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends, step_of
from dojoir.passes.schedule.steps.combinators import tried


def sums_along_rows(trace: Trace) -> None:
    """Exchanges the two scopes of each nest `i > j > (x[i] += a[j, i] * y[j], ...)` that does nothing else, where
    no array lies the other way."""
    for path, node in list(trace.kernel.walk()):
        if isinstance(node, Scope) and _goes_down(trace.kernel, path, node):
            tried(trace, SwapScopes(place_of(path)))


def _goes_down(kernel: Kernel, path: Path, outer: Scope) -> bool:
    """Whether all statements of a nest of two scopes sum up along the inner one what lies along the outer one."""
    inner = outer.body[0]
    if len(outer.body) != 1 or not isinstance(inner, Scope) or outer.marks or inner.marks:
        return False
    depth = kernel.depth_of(path)
    return all(isinstance(node, Statement) and _sums_down(kernel, node, depth) for node in inner.body)


def _sums_down(kernel: Kernel, sum_: Statement, depth: int) -> bool:
    target, *reads = sum_.accesses
    if sum_.accumulation is None or step_of(kernel, target, depth) != 1 or depends(target, depth + 1):
        return False
    steps = [(step_of(kernel, a, depth), step_of(kernel, a, depth + 1)) for a in reads]
    return (1, None) in steps and not any(along is None for along, _ in steps)
