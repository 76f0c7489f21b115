"""The barriers of schedules for GPUs, how many there are and how many are needed: `python tests/gpu_barriers.py`.

A barrier is needed where the others leave two accesses of different threads with none between them, which the proof
says (`unseparated`). A barrier of a collective is part of it and not counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from scheduled import by_default

import dojoir
from dojoir import schedules
from dojoir.codegen.gpu.printer import print_gpu
from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.lower import pipeline as lowering
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.nests import work
from dojoir.codegen.lower.waits.barrier_proof import unseparated
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.codegen.lower.waits.places_to_wait import Barriers, Position
from dojoir.codegen.target import CUDA
from dojoir.ir.nodes import Kernel


def scheduled() -> Iterator[tuple[str, Kernel]]:
    """Every schedule for GPUs by its name: of each kernel of the library by rule, and those that are stored."""
    for name in dojoir.kernels.names():
        kernel = dojoir.kernels.load(name)
        yield f"{name} by rule", by_rule(name)
        for schedule in schedules.schedules(name):
            if schedule.path.endswith(".gpu.moves"):
                yield schedule.path, schedule.on(kernel.specialize(**fixed_by(schedule))).kernel


def by_rule(name: str) -> Kernel:
    return by_default(dojoir.kernels.load(name), "cuda").kernel


def fixed_by(schedule: schedules.Schedule) -> dict[str, int]:
    """The sizes that the first of its conditions gives a value, or something that divides them: twice that."""
    words = (condition.split() for condition in (schedule.when or ((),))[0])
    return {name: int(number) * (1 + (sign == "%")) for name, sign, number, *_ in words if sign in ("==", "%")}


def needed(kernel: Kernel, warp: int) -> list[Position]:
    """The barriers without which the proof finds two accesses that none separates."""
    every = barriers_of(Threads(kernel, warp))
    return [left_out for left_out in every if unseparated(kernel, warp, [at for at in every if at != left_out])]


def without(kernel: Kernel, left_out: Position) -> GpuProgram:
    """The program of a kernel with one barrier less."""
    every = barriers_of(Threads(kernel, CUDA.warp))
    return with_barriers(kernel, {at: about for at, about in every.items() if at != left_out})


def with_barriers(kernel: Kernel, barriers: Barriers) -> GpuProgram:
    """The program of a kernel with these barriers, enough or not."""
    with patch.object(work, "proved", lambda *_: barriers):
        program = lowering.lower(kernel, CUDA)
    return GpuProgram("cuda", print_gpu(program, "cuda"), program)


def main() -> None:
    total = [0, 0]
    print("| schedule | barriers | needed |\n|---|---|---|")
    for name, kernel in scheduled():
        counts = len(barriers_of(Threads(kernel, CUDA.warp))), len(needed(kernel, CUDA.warp))
        total = [a + b for a, b in zip(total, counts, strict=True)]
        print(f"| {name} | {counts[0]} | {counts[1]} |", flush=True)
    print(f"| all | {total[0]} | {total[1]} |")
    sys.exit(10 * (total[0] - total[1]) > total[0])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
