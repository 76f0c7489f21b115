"""What a planner for GPUs makes of nests that assign at indices from data."""

from __future__ import annotations

import numpy as np
import pytest
from on_harness import run

import dojoir
from dojoir.codegen.emission import gpu_program

ROWS = """kernel rows(N = 700, S = 50, D = 64)
in    at: i64[N]
in    x: f32[N, D]
inout y: f32[S, D]

N @i
| D @d
| | y[at[{i}], {d}] = x[{i}, {d}]
"""
FEW = ROWS.replace("i64[N]", "i64[N] distinct").replace("N = 700, S = 50", "N = 50, S = 700")
KEPT = """kernel kept(N = 3000)
in  keep: bool[N]
in  x: f32[N]
out y: f32[N]
out n: i64

N
| y[{0}] = 0
n = 0
N @i
| y[n] = x[{i}] if keep[{i}]
| n += 1 if keep[{i}]
"""
BATCH = """kernel batch(M = 5, N = 40, D = 32)
in    keep: bool[M, N]
in    x: f32[M, N, D]
inout y: f32[M, N, D]
tmp   n: i64

M @m
| n = 0
| N @i
| | D @d
| | | y[{m}, n, {d}] = x[{m}, {i}, {d}] if keep[{m}, {i}]
| | n += 1 if keep[{m}, {i}]
"""
TWICE = """kernel twice(N = 400, S = 30)
in    at: i64[N]
in    keep: bool[N]
in    x: f32[N]
inout y: f32[S]
inout z: f32[S, S]

N @i
| y[at[{i}]] = x[{i}]
| z[at[{i}], at[N - 1 - {i}]] = x[{i}] if keep[{i}]
"""


def inputs(kernel: dojoir.Kernel) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    given: dict[str, np.ndarray] = {}
    for buffer in kernel.arguments:
        shape = tuple(
            dim.extent.evaluate({size.name: size.value or 0 for size in kernel.sizes}) for dim in buffer.dims
        )
        if buffer.name == "at":
            given["at"] = random.integers(0, 30, shape)
        elif buffer.role != "out":
            given[buffer.name] = random.random(shape) < 0.5 if buffer.name == "keep" else random.random(shape, "f")
    return given


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("text", [ROWS, KEPT, BATCH, TWICE], ids=["rows", "kept", "batch", "twice"])
def test_the_last_assignment_is_found_and_all_run_on_threads(text: str, target: str) -> None:
    kernel = dojoir.parse(text)
    given = inputs(kernel)
    wanted = dojoir.interpret(kernel, given)
    nest = str(kernel.sites[-1].path[0])
    ways = [dojoir.optimize(kernel, target).kernel] if text != BATCH else []  # small ones run well in blocks
    if text != TWICE:  # a nest of which two statements assign takes two structures
        ways.append(dojoir.PASSES["structure"].given(nest, "assigns_at_data", target).on(kernel).kernel)
    for scheduled in ways:
        assert "max=" in str(scheduled)
        for site in scheduled.sites:
            if site.statement.scatters:
                assert any(mark in ("gx", "gy", "gz", "bx") for scope in site.scopes for mark in scope.marks)
        found = run(scheduled, given, {}, target, program=gpu_program(scheduled, target))
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ROWS.replace("] = x", "] += x"), "not an assignment at data"),
        (FEW, "not an assignment at data"),
        (ROWS.replace("x[{i}, {d}]", "x[{i}, {d}] + y[0, 0]"), "written-inside"),
    ],
)
def test_other_nests_are_left_to_others(text: str, why: str) -> None:
    with pytest.raises(dojoir.DojoError, match=why):
        dojoir.PASSES["structure"].given("0", "assigns_at_data").on(dojoir.parse(text))
