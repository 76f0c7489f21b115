"""Rows in lanes, where each element of a row waits for a quotient of the one before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from differential import targets

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.default_schedule import default_schedule

SOLVES = """kernel solves(N, M)
where M >= 2
in  x: f64[N, M]
in  z: f64[M, N]
out y: f64[N, M]
out w: f64[M, N]
tmp p: f64[N, M]
tmp q: f64[N, M]

N
| p[{0}, 0] = 0
| q[{0}, 0] = 1
| M - 1
| | p[{0}, {1} + 1] = 1 / (4 - p[{0}, {1}])
| | q[{0}, {1} + 1] = (x[{0}, {1}] + q[{0}, {1}]) / (4 - p[{0}, {1}])
| y[{0}, M - 1] = 1
| M - 1
| | y[{0}, M - 2 - {1}] = p[{0}, M - 1 - {1}] * y[{0}, M - 1 - {1}] + q[{0}, M - 1 - {1}]
N
| p[{0}, 0] = 0
| M - 1
| | p[{0}, {1} + 1] = (z[{1}, {0}] + y[N - 1 - {0}, 0]) / (4 + p[{0}, {1}])
| M
| | w[{1}, {0}] = p[{0}, {1}]
"""

MACHINE = replace(MACHINES["avx512"], cores=1)


def scheduled(text: str, **sizes: int) -> dojoir.Trace:
    trace = Trace(dojoir.parse(text))
    default_schedule(trace, MACHINE, sizes=sizes)
    return trace


def lanes(trace: dojoir.Trace) -> int:
    """How many nests have rows in lanes."""
    return dojoir.to_text(trace.kernel).count("min(8, N - 8*{0}) : v")


def test_rows_wait_for_quotients_in_lanes_and_results_stay() -> None:
    """With fewer rows than lanes, as many, and some left; and what is kept of a row is one row a lane."""
    trace = scheduled(SOLVES)
    assert lanes(trace) == 2
    assert dojoir.certify(trace)
    kept = {buffer.name: buffer for buffer in trace.kernel.buffers if buffer.role == "tmp"}
    assert set(kept) == {"p", "q", "p_own"}
    assert all(buffer.dims[0].collapsed for buffer in kept.values())
    random = np.random.default_rng(3)
    runs = [dojoir.compile(trace.kernel, target, threads=1) for target in targets()]
    for n in (1, 7, 8, 9, 19):
        for m in (2, 3, 9, 33):
            inputs = {"x": random.uniform(0, 1, (n, m)), "z": random.uniform(0, 1, (m, n))}
            expected = dojoir.interpret(trace.start, inputs)
            for run in runs:
                found = run.run(inputs)
                for name, value in expected.items():
                    assert np.allclose(found[name], value, rtol=1e-12), (run.target, n, m)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (") / (4 + p[{0}, {1}])", ") + 4 * p[{0}, {1}]", 1),  # no long operation
        (") / (4 + p[{0}, {1}])", ") / 4 + p[{0}, {1}]", 1),  # nothing waits for it
        (") / (4 + p[{0}, {1}])", ") / (4 + x[{0}, {1}])", 1),  # no element before
        ("x[{0}, {1}] + q[{0}, {1}]", "x[{0}, {1}] + y[N - 1, M - 1] + q[{0}, {1}]", 1),  # a row takes from another
    ],
)
def test_others_stay_as_they_are(old: str, new: str, count: int) -> None:
    assert old in SOLVES
    text = SOLVES.replace(old, new)
    if "y[N" in new:
        text = text.replace("out y", "inout y")
    assert lanes(scheduled(text)) == count


def test_a_temporary_that_hands_values_on_is_not_parted() -> None:
    trace = scheduled(
        SOLVES.replace(
            "N\n| p[{0}, 0] = 0\n| M - 1\n| | p[{0}, {1} + 1] = (z", "N\n| M - 1\n| | p[{0}, {1} + 1] = (z"
        )
    )
    assert not any(buffer.name == "p_own" for buffer in trace.kernel.buffers)
    assert dojoir.certify(trace)


def test_a_few_rows_stay() -> None:
    assert lanes(scheduled(SOLVES, N=7, M=5000)) == 0
    assert lanes(scheduled(SOLVES, N=8, M=5000)) == 2
