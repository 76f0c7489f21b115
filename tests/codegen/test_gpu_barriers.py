"""Barriers: each that is left out is missed, by the proof and by the harness; and few are more than needed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from gpu_barriers import by_rule, needed, without
from gpu_kernels import ALL, MATMUL, REVERSE
from on_harness import run

import dojoir
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.barrier_proof import unseparated
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.codegen.lower.waits.places_to_wait import Position
from dojoir.ir.nodes import Guard, Kernel, holds

SCAN = """kernel scan()
in  x: i32[64]
out y: i32[64]
tmp a: i32[2, 64] shared

1 : gx
| 64 : bx
| | a[0, {1}] = x[{1}]
| 6
| | 64 : bx
| | | a[({1} + 1) % 2, {2}] = a[{1} % 2, {2}] + a[{1} % 2, 63 - {2}]
| 64 : bx
| | y[{1}] = a[0, 63 - {1}]
"""

GUARDED = """kernel guarded(T)
in    x: i32[64]
inout y: i32[64]
tmp   a: i32[64] shared

1 : gx
| 64 : bx
| | a[{1}] = x[{1}]
| T
| | if {1} % 2 == 0
| | | 64 : bx
| | | | y[{2}] = y[{2}] + a[63 - {2}]
| | if {1} % 3 == 0
| | | 64 : bx
| | | | a[{2}] = a[{2}] + {1}
"""

WARPS = """kernel warps(N)
in  x: i32[N, 64]
out y: i32[N, 64]
tmp a: i32[4, 64] shared

N // 4 : gx
| 4 : bx
| | 2
| | | 32 : lane
| | | | a[{1}, 32*{2} + {3}] = x[4*{0} + {1}, 32*{2} + {3}]
| | 2
| | | 32 : lane
| | | | y[4*{0} + {1}, 32*{2} + {3}] = a[{1}, 63 - 32*{2} - {3}]
if N % 4 > 0
| N % 4
| | 64
| | | y[N - 1 - {0}, {1}] = x[N - 1 - {0}, 63 - {1}]
"""

TURNS = """kernel turns(N)
in  x: i32[N, 64]
out y: i32[N, 64]
tmp a: i32[2, 64] shared

1 : gx
| N
| | 64 : bx
| | | a[{1} % 2, {2}] = x[{1}, {2}]
| | 64 : bx
| | | y[{1}, {2}] = a[{1} % 2, 63 - {2}]
"""

MEETING = {"turns": TURNS, "matmul": MATMUL, "reverse": REVERSE, "scan": SCAN, "guarded": GUARDED, "warps": WARPS}
SIZES: Mapping[str, Mapping[str, int]] = {
    "turns": {"N": 5}, "reverse": {"N": 2}, "guarded": {"T": 7}, "warps": {"N": 9}
}  # fmt: skip


def inputs(
    kernel: Kernel, sizes: Mapping[str, int]
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    random = np.random.default_rng(1)
    return {
        b.name: random.integers(-4, 4, [dim.extent.evaluate(sizes) for dim in b.dims]).astype(
            "f4" if b.dtype.is_float else "i4"
        )
        for b in kernel.arguments
        if b.role != "out"
    }


@pytest.mark.parametrize("name", [*ALL, *MEETING])
@pytest.mark.parametrize("warp", [32, 64])
def test_the_barriers_of_a_kernel_are_enough(name: str, warp: int) -> None:
    kernel = dojoir.parse({**ALL, **MEETING}[name])
    assert unseparated(kernel, warp, barriers_of(Threads(kernel, warp))) == []


@pytest.mark.parametrize("name", MEETING)
def test_kernels_with_barriers_run_right(name: str) -> None:
    kernel, sizes = dojoir.parse(MEETING[name]), SIZES.get(name, {})
    given = inputs(kernel, sizes)
    expected = dojoir.interpret(kernel, given, **sizes)
    for target in ("cuda", "hip"):
        for array, values in run(kernel, given, sizes, target, "backward").items():
            np.testing.assert_array_equal(values, expected[array])


def planted() -> list[tuple[str, Position]]:
    return [(name, at) for name, text in MEETING.items() for at in barriers_of(Threads(dojoir.parse(text), 32))]


def test_there_are_barriers_to_take_away() -> None:
    assert len(planted()) == 11


def test_two_buffers_in_turns_need_one_barrier_an_iteration() -> None:
    assert list(barriers_of(Threads(dojoir.parse(TURNS), 32))) == [((0, 0), 1)]


@pytest.mark.parametrize(("name", "left_out"), planted(), ids=str)
def test_a_barrier_that_is_left_out_is_missed(name: str, left_out: Position) -> None:
    kernel = dojoir.parse(MEETING[name])
    assert left_out in needed(kernel, 32)
    assert misses(kernel, left_out, SIZES.get(name, {}))


def misses(kernel: Kernel, left_out: Position, sizes: Mapping[str, int]) -> bool:
    """Whether the harness sees that a barrier is left out."""
    program = without(kernel, left_out)
    with pytest.raises(dojoir.RunError) as raced:
        run(kernel, inputs(kernel, sizes), sizes, program=program)
    return raced.value.diagnostic.code in {"race", "uninitialised-shared"}


BY_RULE: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "transpose": ({"N": 70, "M": 40},),
    "batchnorm_training": ({"N": 2, "C": 2, "H": 9, "W": 35},),
    "bmm": ({"B": 1, "N": 64, "M": 64, "K": 24},),
    "matmul": ({"N": 128, "M": 128, "K": 24}, {"N": 128, "M": 2944, "K": 24}),
}
"""Kernels whose schedules by rule have barriers, each with sizes for every version that has some."""


@pytest.mark.parametrize("name", BY_RULE)
def test_barriers_of_schedules_are_needed_and_missed(name: str) -> None:
    """At most one in ten may be more than needed; the proof and the harness see each that is left out."""
    kernel = by_rule(name)
    every = barriers_of(Threads(kernel, 32))
    assert every and not unseparated(kernel, 32, every)
    without_them = needed(kernel, 32)
    assert 10 * (len(every) - len(without_them)) <= len(every)
    seen = set[Position]()
    for sizes in BY_RULE[name]:
        for left_out in without_them:
            if left_out not in seen and in_reach(kernel, left_out, sizes):
                assert misses(kernel, left_out, sizes)
                seen.add(left_out)
    assert seen == {*without_them}


def in_reach(kernel: Kernel, at: Position, sizes: Mapping[str, int]) -> bool:
    """Whether the guards of host code around a place let calls of these sizes through."""
    around = [kernel.at(at[0][:length]) for length in range(1, len(at[0]) + 1)]
    guards = [node for node in around if isinstance(node, Guard) and not sizes_apart(node)]
    return all(holds(condition, sizes, ()) for guard in guards for condition in guard.conditions)


def sizes_apart(guard: Guard) -> bool:
    """Whether a guard asks for iterators, too."""
    return any(condition.left.iterators | condition.right.iterators for condition in guard.conditions)
