"""Conditions of products made bounds of their scopes: a triangle that a text cuts out of a square by conditions is
one whose scopes begin and end where these hold.

    N | N | N | if k >= i and k <= j: c[i, j] += a[i, k] * b[k, j]

goes through the square and asks each term. By its bounds, `j` begins at `i`, and `k` has `j - i + 1` values.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Condition, Guard, Kernel, Site
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.loops.guards import RemoveGuard
from dojoir.passes.schedule.forms.contractions import is_window
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, in_two, spot, stand_alone
from dojoir.support.frozen import dataclass

MOST_BOUNDS = 8
"""How many bounds a product has at most."""


@dataclass(frozen=True)
class Bound:
    """A value of the iterator of `depth` that it is not below, or with `above` that it is below."""

    depth: int
    value: Affine
    above: bool


def conditions_to_bounds(trace: Trace) -> None:
    """Makes bounds of the conditions right around each product, but where one is of a window or asks for a rest."""
    for n in reversed(range(len(trace.kernel.sites))):
        if is_contraction(trace.kernel.sites[n]) and _guard(trace.kernel.sites[n], trace.kernel) is not None:
            _ = tried(trace, partial(_all_to_bounds, number=n))


def _guard(site: Site, kernel: Kernel) -> Guard | None:
    """The guard right around a statement, which has nothing else in it, inside of all scopes around."""
    node = kernel.at(site.path[:-1])
    if not isinstance(node, Guard) or len(node.body) > 1 or site.path[:-2] != site.scope_paths[-1]:
        return None
    return None if any(scope.marks for scope in site.scopes) else node


def _all_to_bounds(trace: Trace, number: int) -> None:
    for _ in range(MOST_BOUNDS):
        site = trace.kernel.sites[number]
        guard = _guard(site, trace.kernel)
        if guard is None:
            return
        path = site.path[:-1]
        if tried(trace, RemoveGuard(place_of(path))):
            continue
        bound = next(_to_cut(site, guard), None)
        if bound is None:
            raise ArgumentError("a condition is no bound of a scope", "bad-arguments")
        _cut(trace, number, bound)


def _to_cut(site: Site, guard: Guard) -> Iterator[Bound]:
    """The bounds that the conditions of a guard say, of outer scopes first: what two bounds of an inner scope leave
    open is asked of those around it, so that no extent is below 0."""
    found = [bound for condition in guard.conditions for bound in _bounds(site, condition)]
    innermost = max((bound.depth for bound in found), default=0)
    inner = [bound for bound in found if bound.depth == innermost]
    between = (
        _bound(site, high.value - low.value - 1) for low in inner for high in inner if high.above > low.above
    )
    outer = [bound for bound in (*found, *between) if bound is not None and bound.depth < innermost]
    for bound in sorted(outer, key=lambda bound: bound.depth) + sorted(inner, key=lambda bound: bound.above):
        ends = site.scopes[bound.depth].extent.bounds
        if bound.value not in ends if bound.above else bound.value != Affine.constant(0):
            yield bound


def _bounds(site: Site, condition: Condition) -> list[Bound]:
    """The bounds of one scope that a condition is. Raises ArgumentError where it is none."""
    difference = condition.left - condition.right
    ways = {
        ">=": (difference,),
        ">": (difference - 1,),
        "<=": (-difference,),
        "<": (-difference - 1,),
        "==": (difference, -difference),
    }
    found = [_bound(site, way) for way in ways.get(condition.relation, ())]
    if not found or None in found:
        raise ArgumentError("a condition is no bound of a scope", "bad-arguments")
    return [bound for bound in found if bound is not None]


def _bound(site: Site, least: Affine) -> Bound | None:
    """The bound of the innermost scope that `least >= 0` depends on; None where it is stretched, or a
    window is asked about."""
    depth = max(least.iterators, default=-1)
    if depth < 0:
        return None
    factor = least.coefficient(Iter(depth))
    rest = least - Affine.iterator(depth) * factor
    if abs(factor) != 1 or depth in rest.iterators or any(is_window(site.scopes[d]) for d in least.iterators):
        return None
    return Bound(depth, -rest, False) if factor == 1 else Bound(depth, rest + 1, True)


def _cut(trace: Trace, number: int, bound: Bound) -> None:
    """Cuts off what is outside of a bound, of a scope in which a statement stands alone."""
    for depth in reversed(range(bound.depth, len(trace.kernel.sites[number].scopes) - 1)):
        site = trace.kernel.sites[number]
        if len(site.scopes[depth].body) > 1:
            stand_alone(trace, spot(trace, site.scope_paths[depth + 1]), 1)
    scope = spot(trace, trace.kernel.sites[number].scope_paths[bound.depth])
    below, on = in_two(trace, Cut, scope, bound.value)
    act(trace, DeleteNode, on if bound.above else below)
