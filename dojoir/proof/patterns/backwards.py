"""A scope that runs from its last iteration to its first, where their order does not count: seen from the text.

What ran at i runs at E - 1 - i, for the one bound E of the scope: that is one to one on 0 <= i < E, so the same
instances run, on the same elements. Two of them change places if they are in different iterations of the scope, in
one iteration of the scopes around; in one iteration of it, all is in order as it was. So no two change places that
conflict if, for each pair of accesses of which one writes and that may not be swapped,

- an index of the one is always less than that of the other: they touch no common element, or
- they are in the same iteration of the scope wherever they touch one (`dojoir.proof.facts.aliasing.agreement`), or
- they are of a temporary that nothing outside of the scope uses and of which each value was written in the
  iteration of the scope in which it is read: what other iterations wrote is never seen.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Kernel, Replace, Scope, substitute, substitute_iterators
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.core.written import comes_and_goes
from dojoir.proof.difference import Change
from dojoir.proof.facts.aliasing import agreement, conflicts, never_meet
from dojoir.sets.kernel_sets import sets_of


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
    own: dict[str, bool] = {}
    for k, a, n, b in conflicts(sets, change.were, sets.may_swap):
        left, right = (kernel.sites[k], a), (kernel.sites[n], b)
        if depth in agreement(kernel, left, right, depth) or never_meet(kernel, left, right, depth):
            continue
        if a.buffer not in own:
            own[a.buffer] = _is_own(kernel, a.buffer, change)
        if not own[a.buffer]:
            return False
    return True


def _is_own(kernel: Kernel, name: str, change: Change) -> bool:
    """Whether a buffer is a temporary of the scope, each value of which is read only in the iteration that wrote
    it."""
    buffer = kernel.buffer(name)
    inside = all(k in change.were for k in kernel.users[name])
    return buffer.role == "tmp" and inside and comes_and_goes(kernel, buffer)
