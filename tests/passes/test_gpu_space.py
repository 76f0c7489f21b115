"""The spaces that moves for GPUs are drawn from: every schedule, by rule and stored, can be reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_barriers import fixed_by
from scheduled import by_default
from spaces import in_space

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.passes.base.move import Place
from dojoir.schedules import schedules

BY_RULE = ("softmax", "matmul", "transpose", "reduce_mean_0", "dot", "cumsum", "jacobi2d", "attention")
"""Kernels whose schedules for GPUs have all kinds of moves that such schedules have."""


def gpu_traces(name: str) -> Iterator[tuple[dojoir.Trace, str]]:
    """The traces of a kernel by rule, each with its target; of `stored`, those of the schedules that are stored."""
    if name != "stored":
        for target in ("cuda", "hip")[: 1 if name in ("softmax", "matmul") else 2]:
            yield by_default(dojoir.kernels.load(name), target), target
        return
    for kernel in map(dojoir.kernels.load, dojoir.kernels.names()):
        for schedule in schedules(kernel.name):
            if schedule.path.endswith(".gpu.moves"):
                yield schedule.on(kernel.specialize(**fixed_by(schedule))), "cuda"


@pytest.mark.parametrize("name", [*BY_RULE, "stored"])
def test_every_move_of_a_schedule_for_gpus_is_in_the_space_of_its_state(name: str) -> None:
    asked = set[tuple[object, ...]]()
    for trace, target in gpu_traces(name):
        kernel = trace.start
        for step in trace.steps:
            kinds = step.move.parameters()
            alike = (
                target,
                step.move.name,
                *(getattr(step.move, n) for n, kind in kinds.items() if kind is not Place),
            )
            if alike not in asked:  # each version of a launch has the same
                assert in_space(step.move, kernel, MACHINES[target]), f"{step.move}\n{kernel}"
            asked.add(alike)
            kernel = step.kernel
