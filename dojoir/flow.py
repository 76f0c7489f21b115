"""Value-based flow: which writes each read of a kernel gets its value from.

Source of the method: P. Feautrier, "Dataflow analysis of array and scalar references" (1991), as isl computes
it. Accumulations are may-writes and plain assignments must-writes, so the sources of a read are the last
assignment to its element and all accumulations since: a set, which is what the value depends on when the order
of the accumulations is free. Where it is not, an accumulation reads its own element and then writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import islpy as isl

from dojoir.doublecheck import Accesses, compute_flow
from dojoir.operations import ACCUMULATIONS
from dojoir.sets import KernelSets


@dataclass(frozen=True)
class Flow:
    """`sources` relates each write to the reads that get a value from it; `initial` each read to the element
    whose value at the start of the call it may get. What a call returns is read by `out_x[element]`."""

    sources: isl.UnionMap
    initial: isl.UnionMap


def flow_of(sets: KernelSets, buffer: str, strict: bool) -> Flow:
    """The flow of a kernel through one buffer; `strict` makes the order of float accumulations count.

    Raises StepLimitReached where isl finds none that holds (`dojoir.doublecheck`)."""
    found = sets.flows.get((buffer, strict))
    if found is None:
        found = sets.flows[buffer, strict] = _compute(sets, buffer, strict)
    return found


def whole_flow(sets: KernelSets, strict: bool) -> Flow:
    """The flow of a kernel through all its buffers."""
    flows = [flow_of(sets, buffer.name, strict) for buffer in sets.kernel.buffers]
    nothing = sets.map()
    return Flow(
        reduce(isl.UnionMap.union, (flow.sources for flow in flows), nothing),
        reduce(isl.UnionMap.union, (flow.initial for flow in flows), nothing),
    )


def _compute(sets: KernelSets, buffer: str, strict: bool) -> Flow:
    must: list[str] = []
    may: list[str] = []
    reads: list[str] = []
    schedule: list[str] = []
    for k, site in enumerate(sets.kernel.sites):
        if site.statement.target.buffer == buffer:
            ordered = sets.is_ordered(k, strict)
            free = not ordered and site.statement.op in ACCUMULATIONS
            (may if free else must).append(sets.write_text(k))
            schedule.append(sets.schedule_text(k))
            if ordered:
                reads.append(sets.write_text(k, name="t"))
                schedule.append(sets.schedule_text(k, name="t"))
        for read in sets.reads[k]:
            if read.access.buffer == buffer:
                reads.append(sets.read_text(read))
                schedule.append(sets.schedule_text(k, read))
    declared = sets.kernel.buffer(buffer)
    if declared in sets.returned:
        reads.append(sets.box_text(declared, f"out_{buffer}"))
        schedule.append(sets.final_time(declared))
    sinks = sets.map(*reads)
    if not must and not may:
        return Flow(sets.map(), sinks)
    given = Accesses(sets.map(*must), sets.map(*may), sinks, sets.map(*schedule))
    return Flow(*compute_flow(given, (sets.kernel.sites[k] for k in sets.numbers if _uses(sets, k, buffer))))


def dependences(sets: KernelSets) -> isl.UnionMap:
    """All pairs of statement instances, the first before the second, that touch one element of storage, one of
    them writing it; accumulations that may change places are no pair. Any order that keeps every pair keeps the
    flow. In the strict sense where the kernel is `fp strict`."""
    if sets.order is None:
        parts = (_buffer_dependences(sets, buffer.name) for buffer in sets.kernel.buffers if buffer.role != "in")
        sets.order = reduce(isl.UnionMap.union, parts, sets.map())
    return sets.order


def _buffer_dependences(sets: KernelSets, buffer: str) -> isl.UnionMap:
    assigned: list[str] = []
    accumulated: list[str] = []
    read: list[str] = []
    schedule: list[str] = []
    for k, site in enumerate(sets.kernel.sites):
        reads = [sets.read_by_statement(r) for r in sets.reads[k] if r.access.buffer == buffer]
        if site.statement.target.buffer == buffer:
            free = site.statement.op in ACCUMULATIONS and not sets.is_ordered(k, sets.kernel.fp == "strict")
            (accumulated if free else assigned).append(sets.write_text(k))
        elif not reads:
            continue
        read += reads
        schedule.append(sets.schedule_text(k))
    time = sets.map(*schedule)

    def pairs(first: list[str], second: list[str]) -> isl.UnionMap:
        if not first or not second:
            return sets.map()
        info = isl.UnionAccessInfo.from_sink(sets.map(*second)).set_may_source(sets.map(*first))
        return info.set_schedule_map(time).compute_flow().get_may_dependence()

    writes = assigned + accumulated
    return pairs(writes, assigned + read).union(pairs(assigned + read, accumulated)).union(pairs(read, assigned))


def _uses(sets: KernelSets, number: int, buffer: str) -> bool:
    accesses = (sets.kernel.sites[number].statement.target, *(read.access for read in sets.reads[number]))
    return any(access.buffer == buffer for access in accesses)
