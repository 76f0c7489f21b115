"""Recurrences along a row, turned: what each element takes from those before it, these give to those behind them.

`a[i, j] += a[i, k] * a[k, j]` for k < j, as in a factorisation, is a sum down a column for each element. As soon as
element k is known, all behind it can have their share, which goes along the row, in lanes. And elements that are
not waited for, to the right of a triangle, join in. Where what comes from other rows is done before, the shares of
eight rows go together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Kernel, Path, Scope, Statement, substitute_iterators
from dojoir.passes.base.move import Quoted
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.cutting import Cut, JoinRanges
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.guards import AddGuard, RemoveGuard
from dojoir.passes.loops.joining import JoinScopes, SplitScopes
from dojoir.passes.loops.once import AddScope, RemoveScope
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.rows.abreast import cut_rows
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import act, spot

ROWS = 8
"""How many rows go together: what they read of another row is read an eighth as often."""


def turned_recurrences(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Exchanges the scopes of each nest `j > (..., k < j > y[j] += f(y[k], ...), ...)` that goes through memory by
    one element along `j` and not along `k`."""
    for path in _found(kernel):
        yield Fit(path, partial(_turn_all, path=path, sizes=sizes))


def _turn_all(trace: Trace, path: Path, sizes: Sizes) -> None:
    """Raises IllegalMove where a move of it is refused; but what lies behind, and the rows together, are tried."""
    _turn(trace, path)
    tried(trace, partial(_join_the_rest, path=path))
    rows = trace.kernel.at(path[:-1]) if len(path) > 1 else None
    if isinstance(rows, Scope) and len(rows.body) == 1 and not is_short(rows.extent, sizes, ROWS):
        tried(trace, partial(_rows_together, path=path))


def _found(kernel: Kernel) -> Iterator[Path]:
    """The scopes over elements, in the order of the text."""
    for path, node in kernel.walk():
        if isinstance(node, Scope) and not node.marks and len(node.extent.bounds) == 1:
            inner = [child for child in node.body if isinstance(child, Scope)]
            if len(inner) == 1 and _recurs(kernel, kernel.depth_of(path), inner[0]):
                yield path


def _recurs(kernel: Kernel, depth: int, inner: Scope) -> bool:
    """Whether a scope runs over the elements before that of the scope of `depth` around it, and accumulates what
    depends on them into that element."""
    match inner.body:
        case (Statement() as step,) if inner.extent.bounds == (Affine.iterator(depth),) and not inner.marks:
            pass
        case _:
            return False
    moved = substitute_iterators({depth: Affine.iterator(depth + 1)})
    before = tuple(i if isinstance(i, Access) else i.substitute(moved) for i in step.target.indices)
    reads = [access for access in step.accesses if access != step.target]
    return (
        step.accumulation is not None
        and step_of(kernel, step.target, depth) == 1
        and step_of(kernel, step.target, depth + 1) == 0
        and Access(step.target.buffer, before) in reads
        and any(step_of(kernel, a, depth + 1) is None for a in reads)
        and all(step_of(kernel, a, depth) is not None for a in reads)
    )


def _turn(trace: Trace, path: Path) -> None:
    """Makes one scope of what the elements take and of what else is done for each, over a square of which it does
    nothing but in a triangle. Exchanges that with the scope around it; and takes the guards away again. Raises
    IllegalMove where a move of it is refused."""
    kernel, depth = trace.kernel, trace.kernel.depth_of(path)
    elements = kernel.at(path)
    assert isinstance(elements, Scope)
    (count,) = elements.extent.bounds
    number = next(n for n, child in enumerate(elements.body) if isinstance(child, Scope))
    for n in reversed(range(number)):
        act(trace, SwapSiblings, spot(trace, (*path, n)))
    first, second = (*path, 0), (*path, 1)
    others = len(elements.body) - 1
    act(trace, AddGuard, spot(trace, (*first, 0)), 1, Quoted(f"{{{depth + 1}}} < {{{depth}}}"))
    act(trace, SetExtent, spot(trace, first), count)
    if others:
        act(trace, AddScope, spot(trace, second), others)
        act(trace, Shift, spot(trace, second), Affine.iterator(depth))
        act(trace, AddGuard, spot(trace, (*second, 0)), 1, Quoted(f"{{{depth + 1}}} < {{{depth}}} + 1"))
        act(trace, SetExtent, spot(trace, second), count)
        act(trace, JoinScopes, spot(trace, first), spot(trace, second))
    act(trace, SwapScopes, spot(trace, path))
    act(trace, Cut, spot(trace, first), Affine.iterator(depth))
    act(trace, DeleteNode, spot(trace, first))
    act(trace, Cut, spot(trace, first), Affine.constant(1))
    if others:
        act(trace, DeleteNode, spot(trace, (*first, 0)))
        act(trace, RemoveGuard, spot(trace, (*first, 0, 0)))
        act(trace, RemoveGuard, spot(trace, (*first, 0)))
        act(trace, RemoveScope, spot(trace, first))
        act(trace, DeleteNode, spot(trace, (*path, others, 1)))
    else:
        act(trace, DeleteNode, spot(trace, first))
    act(trace, RemoveGuard, spot(trace, (*path, others, 0)))


def _join_the_rest(trace: Trace, path: Path) -> None:
    """Lets the elements behind those of the recurrence have their share in the same scope. Raises DojoError where
    there are none, or a move is refused."""
    here, there = spot(trace, path), spot(trace, (*path[:-1], path[-1] + 1))
    elements = here.node
    assert isinstance(elements, Scope)
    last = len(elements.body) - 1
    share = elements.body[last]
    assert isinstance(share, Scope)
    act(trace, SwapScopes, there)
    act(trace, JoinScopes, here, spot(trace, (*path[:-1], path[-1] + 1)))
    behind = spot(trace, (*path, last))
    act(trace, JoinRanges, behind, behind.beside(1), share.extent.bounds[0])


def _rows_together(trace: Trace, path: Path) -> None:
    """Of each eight rows, does all that comes from rows before them side by side. Raises DojoError where that is
    not as far as the first of them, or not of a row that all share, or a move is refused."""
    rows, depth = path[:-1], trace.kernel.depth_of(path) - 1
    elements = trace.kernel.at(path)
    assert isinstance(elements, Scope)
    taken = [a for site in sites_in(trace.kernel, (*path, len(elements.body) - 1)) for a in site.statement.reads]
    shared = [a for a in taken if depends(a, depth + 2) and not depends(a, depth)]
    if elements.extent.bounds != (Affine.iterator(depth),) or not shared:
        raise ArgumentError("rows do not go as far as a diagonal, or share no other row", "bad-arguments")
    others = len(elements.body) - 1
    cut_rows(trace, rows, ROWS)
    nest = spot(trace, rows)
    act(trace, Split, nest, ROWS)
    act(trace, Cut, nest.child(0, 0), Affine.iterator(depth) * ROWS)
    act(trace, SplitScopes, nest.child(0), 1)
    act(trace, SwapScopes, nest.child(0))
    if others:
        act(trace, SplitScopes, nest.child(0, 0), others)
    share = 1 if others else 0
    act(trace, SwapScopes, nest.child(0, share))
    act(trace, Vectorize, nest.child(0, share))
    act(trace, Unroll, nest.child(0, share, 0))
