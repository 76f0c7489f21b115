"""The cooperative copies of a block's threads to shared memory, whatever the shape."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Statement
from dojoir.passes.base.move import Move
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.once import RemoveScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body, nested
from dojoir.passes.storage.layout import PlaceBuffer
from dojoir.passes.storage.staging import Stage

MOST_TIMES = 32
"""How often a thread copies at most, for the copies to be written out: all are in registers at once then."""

Marked = tuple[type[Move], Spot] | tuple[type[Move], Spot, str]
"""A scope and the mark that it is to have: the arguments of `act`."""


def mark_all(trace: Trace, marks: Iterable[Marked]) -> None:
    """Marks scopes, in order. Raises IllegalMove where a mark is refused."""
    for kind, *arguments in marks:
        act(trace, kind, *arguments)


def shared_copy(trace: Trace, node: Spot, array: str, copy: str, threads: int) -> None:
    """Makes a node work on a `copy` of what it touches of an `array`, in shared memory, which `threads` fill:
    neighbours in memory side by side, the last time under a guard where they do not share it equally."""
    mark_all(trace, copied_in_shared(trace, node, array, copy, threads))


def copied_in_shared(
    trace: Trace, node: Spot, array: str, copy: str, threads: int, only: tuple[int, ...] = ()
) -> list[Marked]:
    """Does `shared_copy` without the marks, which it returns; `only` is for `stage`."""
    act(trace, Stage, node, array, copy, "in", only)
    copied = without_ones(trace, node.beside(-1))
    act(trace, PlaceBuffer, copy, "shared")
    elements = prod(whole_extent(trace, scope) for scope in nested(copied))
    copied = without_ones(trace, copied)
    for _ in nested(copied)[1:]:
        act(trace, Collapse, copied)
    shared = copied
    if elements > threads:
        act(trace, Split, copied, threads)
        shared = copied.child(0)
        if elements % threads:
            number = copied.iterator * threads + shared.iterator
            guard_body(trace, shared, [Condition(number, "<", Affine.constant(elements))])
            act(trace, SetExtent, shared, Affine.constant(threads))
        act(trace, SwapScopes, copied)
        return [*([(Unroll, copied)] if elements <= MOST_TIMES * threads else []), (Bind, shared, "bx")]
    return [(Bind, shared, "bx")]


def without_ones(trace: Trace, copied: Spot) -> Spot:
    """Removes the scopes of extent 1 of a copy, which has a scope for each dimension; one scope is left. Returns
    the outermost that is left."""
    nest = nested(copied)
    kept = [scope for scope in nest if scope.scope.extent.constant != 1] or nest[-1:]
    for scope in nest:
        if scope not in kept:
            act(trace, RemoveScope, scope)
    return kept[0]


def remove_around(trace: Trace, scope: Spot) -> Spot:
    """Removes a scope of extent 1 around what it has. Returns the first of that."""
    inside = scope.child(0)
    act(trace, RemoveScope, scope)
    return inside


def whole_extent(trace: Trace, scope: Spot) -> int:
    """Makes the extent of a scope of a copy a constant, what is not of the array under a guard. Returns it."""
    most = scope.scope.constant_bound
    if most is None:
        raise ArgumentError(f"no constant bounds the extent of {scope}", "bad-arguments")
    bounds = scope.scope.extent.bounds
    ends = [Condition(scope.iterator, "<", bound) for bound in bounds if not bound.is_constant]
    if ends:
        innermost = scope
        while not isinstance(innermost.child(0).node, Statement):
            innermost = innermost.child(0)
        guard_body(trace, innermost, ends)
    if len(bounds) > 1:
        act(trace, SetExtent, scope, Affine.constant(most))
    return most
