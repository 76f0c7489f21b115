"""Fast refutations: whatever they refute, the full comparison refuses as well, with a reason."""

from __future__ import annotations

from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import InstanceMap
from dojoir.proof.difference import change_of
from dojoir.proof.refute.first_iteration import leaves_its_domain, loses_its_value, reads_first, runs_otherwise


def differs_somewhere(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether one iteration surely shows that the kernel after does not mean what the one before means: no isl."""
    if instances.inlined:
        return False
    change = change_of(before, after, instances)
    if change is None:
        return False
    if instances.extracted or before.buffers != after.buffers:
        return reads_first(after, instances, change)
    return (
        runs_otherwise(before, after, instances, change)
        or loses_its_value(before, instances, change)
        or leaves_its_domain(before, after, instances, change)
        or reads_first(after, instances, change)
    )
