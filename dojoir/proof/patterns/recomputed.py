"""Recognises `recompute`: a node reads a new temporary, computed just before it in the way the old one was.

Before, the node reads elements base + l of a temporary, `array`, where base is fixed while the node runs. After, it
reads element l of a new temporary, `copy`. Just before it stands a nest over all l with 0 <= l < F, in which every
statement that writes the array, a *writer*, stands once more and writes `copy[l]`: its *repetition*.

The theorem. In each iteration of the scopes that the node shares with the writers, the same number with each,
`copy[l]` is assigned and accumulated into with the same values, in the same order, as the element base + l was. So
the node reads the same values.

Why, for one such iteration and one l:

- the same instances. In an index of what a writer writes there is at most one iterator of a scope further in than
  the shared ones, by itself, and none is in two indices. The element determines these *chosen* iterators. The
  certificate names their values for base + l. All instances that write the element have these, and any values of
  the writer's other iterators, over which the repetition stands in scopes of the same extents. Wherever it runs,
  the writer ran with the iterators that are named;
- in the same order. Two repetitions share the scopes that their writers share, but for the chosen iterators, which
  are equal in both; and they come in the same order in the text;
- with the same values. Of the top-level children of the kernel, from the one with the first writer to the one with
  the node, none writes what the writers read, and no dimension of that is collapsed. A writer may accumulate into
  the element, but does not read the array in its value;
- and no others. The element is assigned, in this iteration, before it is accumulated into or read, and so is
  `copy[l]`: what an earlier iteration left is never seen. All writers come before the node in the text: what the
  element has when they are done is what the node read.

What else has to hold, and is asked here. Nothing but the nest and the node uses the copy, and the node no longer
uses the array; both are temporaries of one type, no dimension of which is collapsed. The copy has elements; what
the nest touches lies in bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Condition,
    Guard,
    Kernel,
    Site,
    Statement,
    accesses_in,
    substitute,
    substitute_extent,
)
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.proof.certificate import InstanceMap, Origin, identity
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.core.written import comes_and_goes
from dojoir.proof.difference import Change, difference_of
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass

ZERO = Affine.constant(0)


def computes_again(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the change surely is a node that now reads what is computed again for it, and nothing else. No means
    only that it is not seen.

    Raises isl.Error where the step limit of the context is reached.
    """
    *kept, copy = after.buffers
    if tuple(kept) != before.buffers or copy.role != "tmp" or any(dim.collapsed for dim in copy.dims):
        return False
    change = difference_of(before, after)
    fresh = len(change.are) - len(change.were)
    if len(change.old) != 1 or len(change.new) != 2 or fresh < 1:
        return False
    same, first = identity(before).origins, change.are.start
    origins = instances.origins[first : first + fresh]
    if None in origins or instances.origins != (*same[:first], *origins, *same[first:]):
        return False
    again = [
        _Again(before.sites[origin.site], after.sites[number], origin)
        for number, origin in enumerate(origins, first)
        if origin is not None
    ]
    array = before.buffer(again[0].old.statement.target.buffer)
    writers = [k for k, site in enumerate(before.sites) if site.statement.target.buffer == array.name]
    shared = _shared_scopes(before, change, again)
    return (
        shared is not None
        and [one.origin.site for one in again] == writers
        and _fits(after, array, copy)
        and all(_repeats(change, copy, one, shared) for one in again)
        and all(_in_order(change, copy, *pair, shared) for pair in combinations(again, 2))
        and _reads(change, copy, array, again)
        and _stays_constant(before, change, again)
        and all(_runs(after, one) for one in again)
        and comes_and_goes(before, array)
        and comes_and_goes(after, copy)
        and prove_bounds(after, change.are) is None
    )


@dataclass(frozen=True)
class _Again:
    """A writer of the temporary, its repetition for the copy, and the origin of that in the certificate: the values
    of the writer's iterators in those of the repetition."""

    old: Site
    new: Site
    origin: Origin

    @cached_property
    def moved(self) -> Statement:
        """The writer, with the iterators of the repetition."""
        moved = substitute(self.old.statement, self.origin.replace)
        assert isinstance(moved, Statement)
        return moved


def _fits(after: Kernel, array: Buffer, copy: Buffer) -> bool:
    """Whether the temporaries hold values of one type, each in storage of its own, and the copy has elements."""
    sets = sets_of(after)
    return (
        array.role == "tmp"
        and array.name != copy.name
        and array.dtype == copy.dtype
        and len(array.dims) == len(copy.dims)
        and not any(dim.collapsed for dim in array.dims)
        and all(sets.implies((), Condition(dim.extent - 1, ">=", ZERO)) for dim in copy.dims)
    )


def _shared_scopes(before: Kernel, change: Change, again: Sequence[_Again]) -> int | None:
    """How many scopes the node shares with each writer. None where it is not the same number for all, or where one
    stands behind the node."""
    node = (*change.place, before.sites[change.were.start].path[len(change.place)])
    shared = {one.old.shared_scopes(node) for one in again}
    return shared.pop() if len(shared) == 1 and all(one.old.path < node for one in again) else None


def _chosen(one: _Again, shared: int) -> frozenset[int] | None:
    """The depths of a writer's chosen iterators, which the element that it writes determines: of the scopes further
    in than the shared ones, each in an index of its own, not multiplied. None where an index has one in another
    way."""
    own: list[int] = []
    for index in one.old.statement.target.indices:
        assert isinstance(index, Affine)
        inner = [(atom, c) for atom, c in index.terms if any(d >= shared for d in Affine.atom(atom).iterators)]
        match inner:
            case []:
                pass
            case [(Iter(depth), 1)]:
                own.append(depth)
            case _:
                return None
    return frozenset(own) if len(set(own)) == len(own) else None


def _repeats(change: Change, copy: Buffer, one: _Again, shared: int) -> bool:
    """Whether a repetition does for `copy[l]` what the writer does for the element base + l, once for each instance
    of it that has the chosen iterators. Its other scopes stand inside of those over l, with the same extents."""
    old, new, iterators = one.old, one.new, one.origin.iterators
    chosen, inner = _chosen(one, shared), change.depth + len(copy.dims)
    if chosen is None or any(isinstance(node, Guard) for node in new.ancestors[len(change.around) :]):
        return False
    others = [depth for depth in range(shared, len(old.scopes)) if depth not in chosen]
    return (
        len(new.scopes) == inner + len(others)
        and iterators[:shared] == tuple(map(Affine.iterator, range(shared)))
        and all(depth < inner for d in chosen for depth in iterators[d].iterators)
        and all(
            iterators[depth] == Affine.iterator(place)
            and substitute_extent(old.scopes[depth].extent, one.origin.replace) == new.scopes[place].extent
            for place, depth in enumerate(others, inner)
        )
        and new.statement.target == Access(copy.name, tuple(map(Affine.iterator, range(change.depth, inner))))
        and (new.statement.way, new.statement.value) == (one.moved.way, one.moved.value)
        and old.statement.target.buffer not in one.moved.buffers_read
    )


def _in_order(change: Change, copy: Buffer, one: _Again, other: _Again, shared: int) -> bool:
    """Whether two repetitions run, for one l, in the order in which their writers do: they share the scopes that
    those share, but for the chosen ones, which have the same values in both. (In the text they come in the order of
    the writers, as the caller has seen.)"""
    both = range(shared, one.old.shared_scopes(other.old.path))
    chosen, same = _chosen(one, shared), _chosen(other, shared)
    if chosen is None or same is None or chosen.intersection(both) != same.intersection(both):
        return False
    left = len(both) - len(chosen.intersection(both))
    return one.new.shared_scopes(other.new.path) == change.depth + len(copy.dims) + left and all(
        one.origin.iterators[depth] == other.origin.iterators[depth] for depth in both
    )


def _reads(change: Change, copy: Buffer, array: Buffer, again: Sequence[_Again]) -> bool:
    """Whether the node reads `copy[l]` where it read the element base + l, which is the one that each writer writes
    in the iteration that its new statement stands for. It touches neither of the two else."""
    own = [Affine.iterator(change.depth + d) for d in range(len(copy.dims))]
    indices, *others = {one.moved.target.indices for one in again}
    bases = [i - mine for i, mine in zip(indices, own, strict=True) if isinstance(i, Affine)]
    if others or any(d >= change.depth for base in bases for d in base.iterators):
        return False

    def original(access: Access) -> Access:
        if access.buffer != copy.name:
            return access
        indices = (base + i for base, i in zip(bases, access.indices, strict=True) if isinstance(i, Affine))
        return Access(array.name, tuple(indices))

    found = list(accesses_in((change.new[1],)))
    mine = [access for access in found if access.buffer == copy.name]
    plain = all(isinstance(index, Affine) for access in mine for index in access.indices)
    shared = any(access.buffer == array.name for access in found)
    return plain and not shared and map_accesses(change.new[1], original) == change.old[0]


def _stays_constant(before: Kernel, change: Change, again: Sequence[_Again]) -> bool:
    """Whether nothing in the children of the kernel from the first writer's to the node's writes what the
    writers read."""
    first, last = again[0].old.path[0], before.sites[change.were.start].path[0]
    written = {site.statement.target.buffer for site in before.sites if first <= site.path[0] <= last}
    read = frozenset().union(*(one.old.statement.buffers_read for one in again))
    plain = not any(dim.collapsed for name in read for dim in before.buffer(name).dims)
    return plain and read.isdisjoint(written)


def _runs(after: Kernel, one: _Again) -> bool:
    """Whether the writer runs, with the iterators that the certificate names, wherever its repetition does."""
    sets, old = sets_of(after), one.old
    wanted: list[Condition] = []
    for own, node in zip(one.origin.iterators, old.ancestors, strict=False):
        if isinstance(node, Guard):
            return False
        wanted.append(Condition(own, ">=", ZERO))
        bounds = (bound.substitute(one.origin.replace) for bound in node.extent.bounds)
        wanted += [Condition(bound - own - 1, ">=", ZERO) for bound in bounds]
    return len(old.ancestors) == len(old.scopes) and all(sets.implies(one.new.ancestors, c) for c in wanted)
