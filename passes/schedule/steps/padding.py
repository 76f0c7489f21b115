"""Tiles and rows that reach past the end of an array: whole, with guards around what is of the array and zeros
beside it."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.format import format_access, format_condition
from dojoir.ir.nodes import Condition, Guard, format_path
from dojoir.passes.base.move import Quoted
from dojoir.passes.loops.deletion import RestoreNode
from dojoir.passes.loops.guards import ComputePadding
from dojoir.passes.schedule.facts.strides import sites_in
from dojoir.passes.schedule.steps.spots import Spot, act


def conditions_of(node: Spot) -> tuple[Condition, ...]:
    """The conditions of a guard; none of another node."""
    guard = node.node
    return guard.conditions if isinstance(guard, Guard) else ()


def whole_nest(scopes: Sequence[Spot], sizes: Sequence[int]) -> Spot | None:
    """Makes the extents of scopes inside each other so many, what is past their ends under a guard. Returns the
    guard, if there is one."""
    ends = [
        Condition(scope.iterator, "<", bound)
        for scope, size in zip(scopes, sizes, strict=True)
        for bound in scope.scope.extent.bounds
        if not bound.is_constant or bound.offset < size
    ]
    guard = scopes[-1].guard(ends) if ends else None
    for scope, size in zip(scopes, sizes, strict=True):
        scope.constant(size)
    return guard


def zeros_beside(guard: Spot | None) -> None:
    """Assigns 0 to what a guard leaves out of the target of its one statement."""
    if guard is None:
        return
    (site,) = sites_in(guard.trace.kernel, guard.path)
    *around, own = guard.path
    for number, condition in enumerate(conditions_of(guard), own + 1):
        text = f"if {format_condition(Condition(condition.left, '>=', condition.right))}"
        zero = Quoted(f"{text}; | {format_access(site.statement.target)} = 0")
        act(guard.trace, RestoreNode, format_path((*around, number)), zero)


def computed_whole(guard: Spot | None) -> None:
    """Takes away a guard of which the padding has no effect."""
    if guard is not None:
        act(guard.trace, ComputePadding, guard)
