"""Tiles that reach past the end of an array: whole, with guards around what is of the array and zeros beside it."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Statement, substitute_condition, substitute_iterators
from dojoir.ir.text import format_access, format_condition
from dojoir.passes.base.move import Quoted
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.deletion import RestoreNode
from dojoir.passes.loops.guards import AddGuard, ComputePadding, RemoveGuard
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.schedule.gpu.sharing.threads import known_extent
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body, in_two
from dojoir.sets.kernel_sets import sets_of


def whole_nest(trace: Trace, scopes: Sequence[Spot], sizes: Sequence[int]) -> Spot | None:
    """Makes the extents of scopes inside each other so many, what is past their ends under a guard. Returns the
    guard, if there is one."""
    ends = [
        Condition(scope.iterator, "<", bound)
        for scope, size in zip(scopes, sizes, strict=True)
        for bound in scope.scope.extent.bounds
        if not bound.is_constant
    ]
    guard = guard_body(trace, scopes[-1], ends) if ends else None
    for scope, size in zip(scopes, sizes, strict=True):
        known_extent(trace, scope, size)
    return guard


def zeros_beside(trace: Trace, guard: Spot | None) -> None:
    """Assigns 0 to what a guard leaves out of the target of its one statement."""
    if guard is None:
        return
    node = guard.node
    assert isinstance(node, Guard)
    (statement,) = node.body
    assert isinstance(statement, Statement)
    around = guard.path[:-1]
    for number, condition in enumerate(node.conditions, 1):
        text = f"if {format_condition(Condition(condition.left, '>=', condition.right))}"
        place = ".".join(map(str, (*around, guard.path[-1] + number)))
        act(trace, RestoreNode, place, Quoted(f"{text}; | {format_access(statement.target)} = 0"))


def computed_whole(trace: Trace, guard: Spot | None) -> None:
    """Takes away a guard of which the padding has no effect."""
    if guard is not None:
        act(trace, ComputePadding, guard)


def lanes_at_most(lanes: Spot, widest: int) -> int:
    """How many neighbours along a scope, at most so many, are all on one side of each guard inside of it."""
    sets = sets_of(lanes.trace.kernel)
    width = widest
    for n, node in enumerate(lanes.body):
        for condition in node.conditions if isinstance(node, Guard) else ():
            if lanes.depth in condition.left.iterators:
                while width > 1 and not sets.holds_around(
                    (*lanes.path, n), [Condition(condition.right % width, "==", Affine.constant(0))]
                ):
                    width //= 2
    return width


def guards_outside(trace: Trace, lanes: Spot) -> list[Spot]:
    """Takes the guards in a scope of neighbours, each of which holds for all of these or for none, around it.
    Returns the scopes, one for each node that was inside."""
    found = [lanes]
    while len(found[-1].body) > 1:
        found[-1:] = in_two(trace, SplitScopes, found[-1], 1)
    for scope in found:
        match scope.body:
            case (Guard(conditions),):
                first = substitute_iterators({scope.depth: Affine.constant(0)})
                text = " and ".join(format_condition(substitute_condition(c, first)) for c in conditions)
                act(trace, AddGuard, scope, 1, Quoted(text))
                act(trace, RemoveGuard, scope.child(0))
    return found
