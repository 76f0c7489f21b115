"""Recognises statements that were removed and never ran, by the extents and conditions around each.

What is left is the same text around them, and each statement there stands for itself. No instance is lost, as there
was none; all others run in the order in which they ran, on the same elements, and each read gets what it got. The
kernel after is well-formed where the one before is: every access and every scope of it was there.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Kernel
from dojoir.proof.certificate import InstanceMap
from dojoir.proof.difference import Change
from dojoir.sets.kernel_sets import sets_of

NEVER = Condition(Affine.constant(1), "<=", Affine.constant(0))
"""A condition that holds for no iteration."""


def never_ran(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether all that changed is that some nodes are gone, beside others that stay, and no statement in them
    runs."""
    beside = change.around[-1].body if change.around else before.body
    if change.new or len(beside) == len(change.old):
        return False
    sets = sets_of(before)
    return all(sets.implies(before.sites[k].ancestors, NEVER) for k in change.were)
