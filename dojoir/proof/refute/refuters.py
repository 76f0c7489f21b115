"""Quick refusals of the checker: what is said to be refuted, the full comparison refuses as well, and says why."""

from __future__ import annotations

import islpy as isl

from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import InstanceMap, same_statement, stand_for
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.difference import Change, change_of
from dojoir.proof.patterns.staging import reads_unwritten
from dojoir.proof.patterns.written_before import is_written
from dojoir.proof.refute.first_iteration import leaves_its_domain, loses_its_value, reads_first, runs_otherwise
from dojoir.sets.flow import flow_of
from dojoir.sets.kernel_sets import KernelSets, iterators, sets_of


def differs_somewhere(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether one iteration surely shows that the kernel after does not mean what the one before means: no isl."""
    if instances.inlined or instances.extracted or before.buffers != after.buffers:
        return False
    change = change_of(before, after, instances)
    return change is not None and (
        runs_otherwise(before, after, instances, change)
        or loses_its_value(before, instances, change)
        or leaves_its_domain(before, after, instances, change)
        or reads_first(after, change)
    )


def is_refuted(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the kernel after surely does not mean what the one before means, or is not well-formed: with the same
    buffers and statements, a read would run before a write that it gets its value from; or an element would be read
    that has no value.

    Raises isl.Error where the step limit of the context is reached.
    """
    if instances.inlined or instances.extracted:
        return False
    change = change_of(before, after, instances)
    if change is None:
        return False
    if before.buffers != after.buffers:
        return reads_unwritten(before, after, change)
    written = {before.sites[k].statement.target.buffer for k in change.were}
    if prove_bounds(after, change.are) is None and not all(is_written(after, after.buffer(b)) for b in written):
        return True
    origins = instances.origins[change.are.start : change.are.stop]
    if {o.site for o in origins if o is not None} != set(change.were):
        return False
    for number, origin in zip(change.are, origins, strict=True):
        old = before.sites[origin.site].statement if origin is not None else None
        if origin is None or old is None or not same_statement(old, origin, after.sites[number].statement):
            return False
    return _breaks_a_value(before, after, instances, change)


def _breaks_a_value(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    old, new = sets_of(before), sets_of(after)
    written = {before.sites[k].statement.target.buffer for k in change.were}
    read = {a.buffer for k in change.were for a in before.sites[k].statement.reads}
    stands_for = stand_for(after, instances, change.are)
    if not stands_for.is_injective():  # a value may come from any of the instances that stand for one
        return False
    when = stands_for.reverse().apply_range(new.map(*(new.schedule_text(k) for k in change.are)))
    readers = _readers(old, change.were)
    for buffer in sorted(written & read):
        values = flow_of(old, buffer, before.fp == "strict").sources
        values = values.apply_range(readers).intersect_domain(old.domains_of(change.were))
        moved = values.apply_domain(when).apply_range(when)
        if not moved.is_empty():
            order = isl.Map.from_union_map(moved)
            if not order.is_subset(isl.Map.lex_lt(order.get_space().domain())):
                return True
    return False


def _readers(sets: KernelSets, numbers: range) -> isl.UnionMap:
    """Each read of some statements to its instance."""
    pieces = []
    for k in numbers:
        own = iterators(len(sets.kernel.sites[k].scopes))
        for read in sets.reads[k]:
            inner = ", ".join(filter(None, [own, *(f"g{d}" for d in read.gathers)]))
            pieces.append(f"{read.name}[{inner}] -> s{k}[{own}]")
    return sets.map(*pieces)
