"""Scopes cut at the row and the column that an iteration writes and all others read."""

from __future__ import annotations

import numpy as np
import pytest
from on_harness import run

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.default_schedule import default_schedule
from dojoir.passes.schedule.forms.pivots import cut_pivots
from dojoir.runtime.verification.random_inputs import random_inputs

PATHS = """kernel paths(N)
inout d: f32[N, N]

N @k
| N @i
| | N @j
| | | d[{i}, {j}] min= d[{i}, {k}] + d[{k}, {j}]
"""
INVERSE = """kernel inverse(N)                           # Gauss and Jordan, in place, without pivoting
inout a: f64[N, N]
tmp p: f64

N @k
| p = a[{k}, {k}]
| a[{k}, {k}] = 1
| N @c
| | a[{k}, {c}] = a[{k}, {c}] / p
| N @i
| | if {i} != {k}
| | | p = a[{i}, {k}]
| | | a[{i}, {k}] = 0
| | | N @j
| | | | a[{i}, {j}] += -p * a[{k}, {j}]
"""


def cut(text: str) -> dojoir.Trace:
    trace = Trace(dojoir.parse(text))
    cut_pivots(trace)
    return trace


def given(kernel: dojoir.Kernel, n: int) -> dict[str, np.ndarray]:
    """Paths with steps of negative length, where it counts what is written when; a matrix that has an inverse."""
    (matrix,) = random_inputs(kernel, sizes={"N": n}).values()
    name = kernel.buffers[0].name
    return {name: matrix if name == "d" else matrix + 3 * np.eye(n)}


@pytest.mark.parametrize("text", [PATHS, INVERSE], ids=["paths", "inverse"])
def test_rows_and_columns_of_pivots_are_apart_and_lanes_go_along_the_others(text: str) -> None:
    trace = Trace(dojoir.parse(text))
    default_schedule(trace, MACHINES["avx2"])
    assert [str(move).partition("(")[0] for move in trace.moves].count("cut") >= 2
    assert str(trace.kernel).count(": v") >= 4
    assert dojoir.certify(trace)
    compiled = dojoir.compile(trace.kernel, threads=1)
    for n in (1, 2, 3, 17):
        inputs = given(trace.start, n)
        (expected,) = dojoir.interpret(trace.start, inputs).values()
        (found,) = compiled.run(inputs).values()
        assert np.allclose(found, expected, rtol=1e-9 if text is INVERSE else 0), n


def test_a_gpu_has_the_rows_in_blocks() -> None:
    trace = dojoir.optimize(dojoir.parse(PATHS), "cuda", sizes={"N": 512})
    assert str(trace.kernel).count(": gx") >= 3
    assert dojoir.certify(trace).status == "legal"
    for n in (1, 2, 5):
        inputs = given(trace.start, n)
        expected = dojoir.interpret(trace.start, inputs)["d"]
        assert np.array_equal(run(trace.kernel, inputs, {"N": n})["d"], expected), n


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("d[{i}, {k}] + d[{k}, {j}]", "d[{i}, {j}] + 1"),  # its own element
        ("d[{i}, {k}] + d[{k}, {j}]", "d[N - 1 - {i}, {j}]"),  # another row for each
        ("d[{i}, {k}] + d[{k}, {j}]", "d[0, 0]"),  # one element of all steps
        ("d[{i}, {k}] + d[{k}, {j}]", "d[{j}, {i}]"),  # what lies on the other side of the diagonal
    ],
)
def test_nothing_else_is_cut(old: str, new: str) -> None:
    assert old in PATHS
    assert cut(PATHS).moves
    assert not cut(PATHS.replace(old, new)).moves


def test_what_goes_on_behind_the_pivot_is_not_cut() -> None:
    solved = PATHS.replace("d[{i}, {j}] min= d[{i}, {k}] + d[{k}, {j}]", "d[{k} + 1 + {i}, {j}] min= d[{k}, {j}]")
    assert not cut(solved.replace("| N @i", "| N - 1 - {k} @i")).moves
