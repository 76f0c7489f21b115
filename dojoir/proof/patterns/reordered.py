"""Recognises loops in another order, such as `swap_scopes`, `tile` and `join_scopes` leave: no two conflicting
instances of statements change places.

The theorem. Two instances conflict if they touch one element, one of them writes it, and they are not two
accumulations into it whose order is free. If a kernel runs the same instances as before, each on the same elements,
and any two that conflict in the same order, it means the same: each read finds the same write.

Same instances. Each old statement in what changed is one new statement. The scopes around it may stand in another
order, and one of them may have become several that count through its range together, its *parts*: i = 8*o + r has
the parts o and r. So an old iterator is a sum of new ones, the coefficient of each larger than those further in can
add up to, and no new one is a part of two.

Which pairs conflict. Two accesses never touch one element if an index of the one is always less than that of the
other (`never_meet`). For others, `agreement` gives the old iterators that are equal wherever they touch one. Those
of the scopes around the change are always taken as equal: instances that differ there did not change places.

Which of two instances runs first. The outermost scope around both statements in which they differ decides; where
they differ in none, the text does. A scope in which they are known to agree decides nothing and is left out. So two
instances keep their order if both statements come in the same order in the text as before. Also the scopes around
both that are left are the same ones, in the same order. Parts of one iterator that follow each other count as it.

Temporaries. Where the accesses of a temporary do not pass so, they are looked at again without some scopes around
all that uses it: those of which every iteration reads only what it wrote itself. Two instances in different
iterations of such a scope need not keep their order, as no value goes from one to the other, if only the iterations
still run one after another, not interleaved. Otherwise the one could overwrite what the other has yet to read.

A scope that runs backwards (`reverse_scope`). It has one bound, E, and what ran at i now runs at E - 1 - i. That is
one to one on 0 <= i < E, and two instances change places only if they are in different iterations of the scope,
within one iteration of the scopes around it. So it means the same if of any two accesses that conflict
one of these is seen. They touch no common element; they are in the same iteration; or they are of a temporary that
only this scope uses, and every value of it is read in the iteration that wrote it.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import (
    Guard,
    Kernel,
    Node,
    Replace,
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
    """Whether what changed surely runs the same instances as before, and conflicting ones in the same order. No
    means only that it is not seen."""
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
    for k, a, n, b in conflicts(sets, sorted(moved), sets.commute):
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
    """The depths of the old scopes inside of the change that stand around all that uses a temporary, and of which
    each iteration reads only what it wrote itself. Empty where that is not seen."""
    users = kernel.users[name]
    inside = all(k in change.were for k in users) and kernel.buffer(name).role == "tmp"
    if not inside or not comes_and_goes(kernel, kernel.buffer(name)):
        return frozenset()
    first, *rest = (kernel.sites[k] for k in users)
    return frozenset(
        range(change.depth, min((first.shared_scopes(site.path) for site in rest), default=len(first.scopes)))
    )


@dataclass(frozen=True)
class _Moved:
    """A statement before and after. `iterators` are the values of its old iterators in the new ones. `part_of` says
    of which old iterator a new scope inside of the change counts a part; both are given by their depths."""

    old: Site
    new: Site
    part_of: dict[int, int]
    iterators: tuple[Affine, ...]


_Pair = tuple[_Moved, _Moved, frozenset[int]]
"""Two statements, and the depths of the old iterators in which any two of their instances agree that conflict."""


def _moved(before: Kernel, after: Kernel, change: Change, number: int, origin: Origin) -> _Moved | None:
    """An old statement with the new one that runs the same instances; None where that is not seen."""
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
    """The depths of the iterators that a value is a sum of, the one with the largest coefficient first. What
    is divided is left out."""
    terms = sorted(value.terms, key=lambda term: -term[1])
    return [atom.depth for atom, _ in terms if isinstance(atom, Iter)]


def _nest(site: Site, change: Change, order: list[int], places: dict[int, Affine]) -> Node | None:
    """A nest of one statement: the scopes of the change around it, in the order of their depths in `order`, and
    inside of them its guards. `places` are the new iterators by old depth. None where an extent would depend on a
    scope further in."""
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
    """Whether any two instances of two statements run in the same order before and after, if their old iterators
    are equal at the depths `agree`. Two that differ at one of the depths `private` may change places, but the
    iterations of these old scopes must still run one after another. `depth` is that of the change."""
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
    """A value without the iterators of scopes further in than `depths`."""
    kept = tuple(term for term in value.terms if not isinstance(term[0], Iter) or term[0].depth < depths.stop)
    return Affine(kept, value.offset)


# -- a scope that runs backwards -----------------------------------------------------------------------------
def runs_backwards(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether all that changed is one scope that runs backwards, and no two of its iterations conflict."""
    match change.old, change.new:
        case (Scope() as old,), (Scope() as new,) if old.extent == new.extent and len(old.extent.bounds) == 1:
            depth = change.depth
        case _:
            return False
    back = substitute_iterators({depth: old.extent.bounds[0] - 1 - Affine.iterator(depth)})
    if tuple(substitute(node, back) for node in old.body) != new.body:
        return False
    return _says_so(instances, before, change, back) and _are_apart(before, change)


def _says_so(instances: InstanceMap, before: Kernel, change: Change, back: Replace) -> bool:
    """Whether the certificate maps each statement of the scope to itself, at the iteration counted from the
    other end."""
    expected = (
        Origin(k, tuple(back(Iter(depth)) for depth in range(len(before.sites[k].scopes)))) for k in change.were
    )
    return instances.origins[change.are.start : change.are.stop] == tuple(expected)


def _are_apart(kernel: Kernel, change: Change) -> bool:
    """Whether no two iterations of the scope conflict."""
    sets, depth = sets_of(kernel), change.depth
    is_own = cache(lambda name: depth in _private_scopes(kernel, change, name))
    for k, a, n, b in conflicts(sets, change.were, sets.commute):
        left, right = (kernel.sites[k], a), (kernel.sites[n], b)
        apart = depth in agreement(kernel, left, right, depth) or never_meet(kernel, left, right, depth)
        if not apart and not is_own(a.buffer):
            return False
    return True
