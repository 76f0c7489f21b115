"""Value-based flow: which writes each read of a kernel gets its value from.

Source of the method: P. Feautrier, "Dataflow analysis of array and scalar references" (1991), as isl computes
it. Accumulations are may-writes and plain assignments must-writes, so the sources of a read are the last
assignment to its element and all accumulations since: a set, which is what the value depends on when the order
of the accumulations is free. Where it is not, an accumulation reads its own element and then writes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from dojoir.operations import ACCUMULATIONS
from dojoir.sets import KernelSets


@dataclass(frozen=True)
class Flow:
    """`sources` relates each write to the reads that get a value from it; `initial` each read to the element
    whose value at the start of the call it may get. What a call returns is read by `out_x[element]`."""

    sources: isl.UnionMap
    initial: isl.UnionMap


def flow_of(sets: KernelSets, strict: bool) -> Flow:
    """The flow of a kernel; `strict` makes the order of float accumulations count."""
    found = sets.flows.get(strict)
    if found is None:
        found = sets.flows[strict] = _compute(sets, strict)
    return found


def _compute(sets: KernelSets, strict: bool) -> Flow:
    must: list[str] = []
    may: list[str] = []
    reads: list[str] = []
    schedule: list[str] = []
    for k in sets.numbers:
        ordered = sets.is_ordered(k, strict)
        free = not ordered and sets.kernel.sites[k].statement.op in ACCUMULATIONS
        (may if free else must).append(sets.write_text(k))
        if ordered:
            reads.append(sets.write_text(k, name="t"))
        reads += [sets.read_text(read) for read in sets.reads[k]]
        schedule += sets.schedule_texts(k, ordered)
    for buffer in sets.returned:
        reads.append(sets.box_text(buffer, f"out_{buffer.name}"))
        schedule.append(sets.final_time(buffer))
    info = isl.UnionAccessInfo.from_sink(sets.map(*reads))
    info = info.set_must_source(sets.map(*must)).set_may_source(sets.map(*may))
    flow = info.set_schedule_map(sets.map(*schedule)).compute_flow()
    return Flow(flow.get_may_dependence(), flow.get_may_no_source())
