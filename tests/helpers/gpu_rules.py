"""What the rules for GPUs make of a kernel by themselves, whatever the planner would choose for its sizes."""

from __future__ import annotations

import dojoir
from dojoir.backends.host import machine_named
from dojoir.passes.loops.guards import RemoveGuard
from dojoir.passes.schedule.gpu.nest_rules import schedule_grids
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.simplify import delete_dead, join_all


def by_rules_alone(kernel: dojoir.Kernel, target: str) -> dojoir.Trace:
    trace = dojoir.Trace(kernel)
    delete_dead(trace)
    for move in reversed(list(RemoveGuard.candidates(trace.kernel))):
        tried(trace, move)
    join_all(trace)
    schedule_grids(trace, machine_named(target))
    return trace
