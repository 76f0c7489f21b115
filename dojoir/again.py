"""A node that reads what was computed again for it: seen from the text to read the same values.

Before, a node reads elements base + l of a temporary, which one plain assignment gives. After, it reads `copy[l]`,
a new temporary, and before it stands a nest that assigns, for all l with 0 <= l < F, what that assignment gives
element base + l. In each iteration of the scopes around these:

- the assignment gave each element that is read in the same iteration of the scopes that it shares with the node,
  and in its other scopes, the element says the iteration: each of these iterators is a part of an index of its own.
  So the value is that of one instance, which the origin of the new assignment names, to the letter;
- that instance runs, for each l, so that it reads what has been written; and nothing writes the buffers that it
  reads from its window on, the children of the kernel that hold the two, until the node has run;
- nothing but the node touches the copy, all that it touches has been assigned, and lies in bounds.
"""

from __future__ import annotations

from dojoir.affine import Affine, Iter
from dojoir.bounds import prove_bounds
from dojoir.change import Change, difference_of
from dojoir.instances import InstanceMap, Origin, identity
from dojoir.ir import Access, Buffer, Condition, Guard, Kernel, Scope, Site, Statement, accesses_in, substitute
from dojoir.rename import map_accesses
from dojoir.sets import sets_of
from dojoir.written import comes_and_goes

ZERO = Affine.constant(0)


def computes_again(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the change surely is a node that now reads what is computed again for it, and nothing else.

    Raises isl.Error where the step limit of the context is reached.
    """
    *kept, copy = after.buffers
    if tuple(kept) != before.buffers or copy.role != "tmp" or any(dim.collapsed for dim in copy.dims):
        return False
    change = difference_of(before, after)
    if len(change.old) != 1 or len(change.new) != 2 or len(change.are) != len(change.were) + 1:
        return False
    same, number = identity(before).origins, change.are.start
    origin = instances.origins[number]
    if origin is None or instances.origins != (*same[:number], origin, *same[number:]):
        return False
    old, new = before.sites[origin.site], after.sites[number]
    array = before.buffer(old.statement.target.buffer)
    return (
        _fits(after, array, copy)
        and _is_that_instance(before, change, array, old, origin)
        and _assigns(change, copy, array, old, new, origin)
        and _reads(change, copy, array, old, origin)
        and _stays_constant(before, change, old)
        and _runs(after, old, new, origin)
        and comes_and_goes(before, array)
        and comes_and_goes(after, copy)
        and prove_bounds(after, change.are) is None
    )


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


def _shared(change: Change, old: Site, before: Kernel) -> int:
    """How many scopes are around both the node and a statement."""
    count = 0
    place = (*change.place, before.sites[change.were.start].path[len(change.place)])
    while count < min(len(place), len(old.path)) and place[count] == old.path[count]:
        count += 1
    return sum(isinstance(node, Scope) for node in old.ancestors[:count])


def _is_that_instance(before: Kernel, change: Change, array: Buffer, old: Site, origin: Origin) -> bool:
    """Whether a plain assignment, the only one to the array and not in the node, is meant in the same iteration of
    the scopes that it shares with the node, and an element says in which one of its other scopes."""
    writers = [site for site in before.sites if site.statement.target.buffer == array.name]
    if writers != [old] or old.statement.accumulation is not None or origin.site in change.were:
        return False
    shared = _shared(change, old, before)
    if origin.iterators[:shared] != tuple(map(Affine.iterator, range(shared))):
        return False
    own: list[int] = []
    for index in old.statement.target.indices:
        assert isinstance(index, Affine)
        inner = [(atom, c) for atom, c in index.terms if any(d >= shared for d in Affine.atom(atom).iterators)]
        match inner:
            case []:
                pass
            case [(Iter(depth), 1)]:
                own.append(depth)
            case _:
                return False
    return sorted(own) == list(range(shared, len(old.scopes)))


def _assigns(change: Change, copy: Buffer, array: Buffer, old: Site, new: Site, origin: Origin) -> bool:
    """Whether the nest before the node assigns to `copy[l]` what the old statement gives the element that it is to
    stand for, and runs over a box."""
    if any(isinstance(node, Guard) for node in new.ancestors[len(change.around) :]):
        return False
    own = tuple(Affine.iterator(change.depth + d) for d in range(len(copy.dims)))
    if len(new.scopes) != change.depth + len(own) or new.statement.target != Access(copy.name, own):
        return False
    moved = substitute(old.statement, origin.replace)
    assert isinstance(moved, Statement)
    return (moved.op, moved.value) == (new.statement.op, new.statement.value) and array.name not in moved.read


def _reads(change: Change, copy: Buffer, array: Buffer, old: Site, origin: Origin) -> bool:
    """Whether the node reads `copy[l]` where it read the element that the old statement gives in the iteration of
    `origin`, which is base + l; and touches neither of the two else."""
    moved = substitute(old.statement, origin.replace)
    assert isinstance(moved, Statement)
    own = (Affine.iterator(change.depth + d) for d in range(len(copy.dims)))
    bases = [i - mine for i, mine in zip(moved.target.indices, own, strict=True) if isinstance(i, Affine)]
    if any(d >= change.depth for base in bases for d in base.iterators):
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


def _stays_constant(before: Kernel, change: Change, old: Site) -> bool:
    """Whether nothing writes what the statement reads in the children of the kernel from the one that holds it to
    that which holds the node."""
    tops = sorted((old.path[0], before.sites[change.were.start].path[0]))
    written = {site.statement.target.buffer for site in before.sites if tops[0] <= site.path[0] <= tops[1]}
    read = old.statement.read
    plain = not any(dim.collapsed for name in read for dim in before.buffer(name).dims)
    return plain and read.isdisjoint(written)


def _runs(after: Kernel, old: Site, new: Site, origin: Origin) -> bool:
    """Whether the old statement runs in the iteration of `origin` wherever the new one runs."""
    sets = sets_of(after)
    wanted: list[Condition] = []
    for own, node in zip(origin.iterators, old.ancestors, strict=False):
        if isinstance(node, Guard):
            return False
        wanted.append(Condition(own, ">=", ZERO))
        bounds = (bound.substitute(origin.replace) for bound in node.extent.bounds)
        wanted += [Condition(bound - own - 1, ">=", ZERO) for bound in bounds]
    return len(old.ancestors) == len(old.scopes) and all(sets.implies(new.ancestors, c) for c in wanted)
