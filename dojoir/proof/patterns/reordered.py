"""Statements whose instances run in another order that no conflict tells from the old one: seen from the text.

Each old statement became one new one, which runs the same instances, and wherever two instances conflict, their
order is as before. For two statements that is shown in these steps:

- accesses an index of which is always less in one than in the other touch no common element;
- both instances agree in the iterators around the change, else their order did not change; and in those that
  `dojoir.proof.facts.aliasing.agreement` says, since they touch one element;
- of a temporary of which no value crosses the iterations of some scopes, only instances in the same iteration of
  them count, if these iterations run one after another before and after, for all its statements;
- which of the two runs first depends on the scopes that they share, from the outside in, and then on the text.
  Shared scopes in which both agree decide nothing. If what remains of the shared scopes, in their order, is the
  same list before and after, and so is the order of the text, the same instance runs first.

Here a scope of the new tree counts for the old iterator of which it is a part: one whose value is a sum of new
iterators, used for no other, each with a larger coefficient than those below can add up to.
"""

from __future__ import annotations

from itertools import groupby

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import (
    Guard,
    Kernel,
    Node,
    Scope,
    Site,
    substitute,
    substitute_condition,
    substitute_extent,
    substitute_iterators,
)
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.core.written import comes_and_goes
from dojoir.proof.difference import Change
from dojoir.proof.facts.aliasing import agreement, conflicts, never_meet
from dojoir.proof.patterns.same_order import alike
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


def keeps_conflicts(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether what changed surely runs the same instances as before, and conflicting ones in the same order."""
    moved: dict[int, _Moved] = {}
    for number in change.are:
        origin = instances.origins[number]
        if origin is None or origin.site in moved:
            return False
        one = _moved(before, after, change, number, origin)
        if one is None:
            return False
        moved[origin.site] = one
    if set(moved) != set(change.were):
        return False
    sets = sets_of(before)
    pairs: dict[str, list[_Pair]] = {}
    for k, a, n, b in conflicts(sets, sorted(moved), sets.may_swap):
        left, right = (moved[k].old, a), (moved[n].old, b)
        if never_meet(before, left, right, change.depth):
            continue
        agree = agreement(before, left, right, change.depth)
        pairs.setdefault(a.buffer, []).append((moved[k], moved[n], agree))

    def in_order(found: list[_Pair], private: frozenset[int]) -> bool:
        return all(_in_order(*pair, private, change.depth) for pair in found)

    return all(
        in_order(found, frozenset()) or in_order(found, _private_scopes(before, change, name))
        for name, found in pairs.items()
    )


def _private_scopes(kernel: Kernel, change: Change, name: str) -> frozenset[int]:
    """The old scopes inside of the change, by depth, that keep the values of a temporary to themselves: all its
    users stand in them, and each reads what the same iteration wrote."""
    users = [
        k for k, site in enumerate(kernel.sites) if any(access.buffer == name for access in site.statement.accesses)
    ]
    inside = all(k in change.were for k in users) and kernel.buffer(name).role == "tmp"
    if not inside or not comes_and_goes(kernel, kernel.buffer(name)):
        return frozenset()
    first, *rest = (kernel.sites[k] for k in users)
    return frozenset(
        range(change.depth, min((first.shared_scopes(site.path) for site in rest), default=len(first.scopes)))
    )


@dataclass(frozen=True)
class _Moved:
    """A statement before and after. `iterators` gives the old iterators in terms of the new ones; `part_of`
    gives, for each new scope inside of the change, by depth, the old iterator that it makes up a part of."""

    old: Site
    new: Site
    part_of: dict[int, int]
    iterators: tuple[Affine, ...]


_Pair = tuple[_Moved, _Moved, frozenset[int]]
"""Two statements that may conflict, and the iterators in which they then agree."""


def _moved(before: Kernel, after: Kernel, change: Change, number: int, origin: Origin) -> _Moved | None:
    """A statement that runs the same instances, or None where that is not plain."""
    old, new, base = before.sites[origin.site], after.sites[number], change.depth
    groups = [_parts(value) for value in origin.iterators[base:]]
    order = [depth for group in groups for depth in group]
    if sorted(order) != list(range(base, len(new.scopes))) or any(group != sorted(group) for group in groups):
        return None
    places = {depth: Affine.iterator(place) for place, depth in enumerate(order, base)}
    was = _nest(old, change, list(range(base, len(old.scopes))), {})
    now = _nest(new, change, order, places)
    if was is None or now is None:
        return None
    placed = substitute_iterators(places)
    expected = Origin(origin.site, tuple(value.substitute(placed) for value in origin.iterators))
    if alike(sets_of(before), change.around, (was,), (now,), origin.site) != [expected]:
        return None
    part_of = {depth: number for number, group in enumerate(groups, base) for depth in group}
    return _Moved(old, new, part_of, origin.iterators)


def _parts(value: Affine) -> list[int]:
    """The depths of the iterators that a value is a sum of, that with the largest coefficient first. What is
    divided is left out."""
    terms = sorted(value.terms, key=lambda term: -term[1])
    return [atom.depth for atom, _ in terms if isinstance(atom, Iter)]


def _nest(site: Site, change: Change, order: list[int], places: dict[int, Affine]) -> Node | None:
    """A statement inside the scopes of the change alone, in another order of these, its guards innermost. None
    where an extent would depend on a scope further in."""
    new = substitute_iterators(places)
    node = substitute(site.statement, new)
    for ancestor in reversed(site.ancestors[len(change.around) :]):
        if isinstance(ancestor, Guard):
            node = Guard(tuple(substitute_condition(c, new) for c in ancestor.conditions), (node,))
    for place, depth in reversed(list(enumerate(order, change.depth))):
        extent = substitute_extent(site.scopes[depth].extent, new)
        if any(inner >= place for bound in extent.bounds for inner in bound.iterators):
            return None
        node = Scope(extent, (node,))
    return node


def _in_order(one: _Moved, other: _Moved, agree: frozenset[int], private: frozenset[int], depth: int) -> bool:
    """Whether any two instances of two statements that agree in the old iterators `agree` run in the same order
    before and after. Those that differ in one of `private` may change places, but the iterations of these scopes
    must still run one after another. `depth` is that of the change."""
    shared = range(depth, one.old.shared_scopes(other.old.path))
    parts = range(depth, one.new.shared_scopes(other.new.path))
    if any(one.part_of[n] != other.part_of[n] for n in parts):
        return False
    for old in {one.part_of[n] for n in parts}:
        if _within(one.iterators[old], parts) != _within(other.iterators[old], parts):
            return False
    agree |= private
    differ = [one.part_of[n] for n in parts if one.part_of[n] not in agree]
    kept = private.union(differ)
    whole = all(n in parts for moved in (one, other) for n, old in moved.part_of.items() if old in kept)
    same_text = one is other or (one.old.path < other.old.path) == (one.new.path < other.new.path)
    return same_text and whole and [d for d in shared if d not in agree] == [d for d, _ in groupby(differ)]


def _within(value: Affine, depths: range) -> Affine:
    """A value without the iterators further in than those at `depths`."""
    kept = tuple(term for term in value.terms if not isinstance(term[0], Iter) or term[0].depth < depths.stop)
    return Affine(kept, value.offset)
