"""Sums that are counted from the column on, `c[i, j] += a[i, j + k] * b[j + k, j]`, counted from 0.

So a text writes the product of two triangles: what is summed over begins at the diagonal of the second. Along a
column nothing lies side by side then, since one more column is one less to sum. Counted from 0, the sum goes around
the columns, those that have the element, which are neighbours:

    i | k | j <= k: c[i, j] += a[i, k] * b[k, j]

A sum that is counted as far as the column, `k <= j`, goes around the columns as well, those from `k` on; so does
one that is counted as far as the column or the row, `k <= min(i, j)`.
"""

from __future__ import annotations

from functools import partial

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Condition, Extent, Guard, Path, Scope, Site
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.guards import DropCondition, RemoveGuard
from dojoir.passes.loops.skewing import Skew
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends, is_leaf, step_of, strided
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, guard_body, in_two, move, spot, stand_alone


def count_from_zero(trace: Trace) -> None:
    """Brings each sum that is counted from the column on, or as far as the column, around its columns, where they
    are neighbours then. Where a move is refused, the sum stays as it was."""
    for site in reversed(trace.kernel.sites):
        if way := _way(trace, site):
            tried(trace, partial(_count_from_zero if way < 0 else _count_columns_on, path=site.path[:-1]))


def _way(trace: Trace, site: Site) -> int:
    """-1 where a statement sums up in an innermost scope that gets shorter by one with each column, and reads what
    goes along both, not all of it from one element to the next. 1 where that scope ends at the column, and what it
    reads along both goes from one column to the next. Else 0."""
    depth, target = len(site.scopes), site.statement.target
    if not site.statement.accumulation or depth < 2 or not isinstance(site.ancestors[-2], Scope):
        return 0
    column, summed = depth - 2, site.scopes[-1]
    if any(scope.marks for scope in site.scopes) or not is_leaf(summed):
        return 0
    both = [a for a in site.statement.reads if depends(a, column) and depends(a, column + 1)]
    found = (
        isinstance(site.ancestors[-1], Scope)
        and step_of(trace.kernel, target, column) == 1
        and not depends(target, column + 1)
        and strided(trace.kernel, site.path[:-1]) > 0
        and bool(both)
    )
    own, others = _bounds(summed, column)
    if len(own) != 1 or not found:
        return 0
    if not others and own[0].coefficient(Iter(column)) == -1 and all(_goes_on(access, column) for access in both):
        return -1
    steps = [step_of(trace.kernel, access, column) for access in both]
    return int(own[0] == Affine.iterator(column) + 1 and all(step == 1 for step in steps))


def _bounds(summed: Scope, column: int) -> tuple[list[Affine], list[Affine]]:
    """The bounds of a sum that depend on the column, and the others."""
    bounds = summed.extent.bounds
    return [b for b in bounds if column in b.iterators], [b for b in bounds if column not in b.iterators]


def _goes_on(access: Access, column: int) -> bool:
    """Whether an access has the iterator of a sum only together with that of its column."""
    affine = [index for index in access.indices if isinstance(index, Affine)]
    along = [index for index in affine if column + 1 in index.iterators]
    ones = all(i.coefficient(Iter(column)) == i.coefficient(Iter(column + 1)) == 1 for i in along)
    return ones and len(affine) == len(access.indices)


def _count_from_zero(trace: Trace, path: Path) -> None:
    """Raises DojoError where a move of it is refused, or columns are no neighbours."""
    columns = stand_alone(trace, spot(trace, path), 1)
    summed = columns.child(0)
    act(trace, Skew, columns, 1)
    guard = summed.child(0).node
    assert isinstance(guard, Guard)
    for number in reversed(range(len(guard.conditions))):
        tried(trace, move(DropCondition, summed.child(0), number))
    act(trace, SwapScopes, columns)
    act(trace, SetExtent, columns, summed.iterator + 1)
    act(trace, RemoveGuard, columns.child(0))
    known(not strided(trace.kernel, columns.path), "of neighbours along its columns")


def _count_columns_on(trace: Trace, path: Path) -> None:
    """Raises DojoError where a move of it is refused."""
    columns = stand_alone(trace, spot(trace, path), 1)
    summed = columns.child(0)
    guard_body(trace, summed, [Condition(summed.iterator, "<", columns.iterator + 1)])
    _, others = _bounds(summed.scope, columns.depth)
    act(trace, SetExtent, summed, Extent(tuple(others)) if others else columns.scope.extent)
    act(trace, SwapScopes, columns)
    never, always = in_two(trace, Cut, columns, summed.iterator)
    act(trace, RemoveGuard, always.child(0))
    act(trace, DeleteNode, never)
    known(not strided(trace.kernel, always.path), "of neighbours along its columns")
