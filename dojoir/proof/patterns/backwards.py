"""Recognises `reverse_scope`: a scope runs from its last iteration to its first, and no two of them conflict.

The theorem. Two accesses conflict if they touch one element, one of them writes, and they are not two accumulations
into it whose order is free. If no access in one iteration of a scope conflicts with one in another iteration, the
scope means the same when it runs backwards.

Why. The scope has one bound, E, and what ran at i now runs at E - 1 - i. That is one to one on 0 <= i < E, so the
same instances run, on the same elements. Two of them change places only if they are in different iterations of the
scope, within one iteration of the scopes around it; inside of an iteration, all runs in the old order. As no two of
those that change places conflict, each read finds the same write as before.

How it is seen. Of each pair of accesses that could conflict, one of these is shown from the text:

- they touch no common element: an index of the one is always less than that of the other (`never_meet`);
- if they touch one element, they are in the same iteration of the scope (`agreement`);
- they are of a temporary that only this scope uses, and every value of it is read in the iteration that wrote it.
  The iterations may then overwrite each other's values in any order: nobody reads those of another.
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
    for k, a, n, b in conflicts(sets, change.were, sets.commute):
        left, right = (kernel.sites[k], a), (kernel.sites[n], b)
        if depth in agreement(kernel, left, right, depth) or never_meet(kernel, left, right, depth):
            continue
        if a.buffer not in own:
            own[a.buffer] = _is_own(kernel, a.buffer, change)
        if not own[a.buffer]:
            return False
    return True


def _is_own(kernel: Kernel, name: str, change: Change) -> bool:
    """Whether a buffer is a temporary that only the scope uses, and each value of it is read in the iteration that
    wrote it."""
    buffer = kernel.buffer(name)
    inside = all(k in change.were for k in kernel.users[name])
    return buffer.role == "tmp" and inside and comes_and_goes(kernel, buffer)
