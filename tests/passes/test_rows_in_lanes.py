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
from dojoir.runtime.verification.random_inputs import random_inputs

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


SORTED = """kernel sorted(N, M)                         # the middle of three neighbours, by exchanges
in  x: f32[N, M + 2]
out y: f32[N, M]
tmp v: f32[3]
tmp t: f32

N @i
| M @j
| | 3 @a
| | | v[{a}] = x[{i}, {j} + {a}]
| | 2 @p
| | | 2 @q
| | | | t = min(v[{q}], v[{q} + 1])
| | | | v[{q} + 1] = max(v[{q}], v[{q} + 1])
| | | | v[{q}] = t
| | y[{i}, {j}] = v[1]
"""
SOLVED = """kernel solved(N)                            # three equations of each point, by elimination
in  a: f64[3, 3, N]
in  b: f64[3, N]
out x: f64[3, N]
tmp m: f64[3, 3]
tmp r: f64[3]

N @n
| 3 @i
| | r[{i}] = b[{i}, {n}]
| | 3 @j
| | | m[{i}, {j}] = a[{i}, {j}, {n}] + select({i} == {j}, 4.0, 0.0)
| 3 @k
| | 2 - {k} @p
| | | r[{k} + 1 + {p}] += -m[{k} + 1 + {p}, {k}] / m[{k}, {k}] * r[{k}]
| | | 2 - {k} @q
| | | | m[{k} + 1 + {p}, {k} + 1 + {q}] += -m[{k} + 1 + {p}, {k}] / m[{k}, {k}] * m[{k}, {k} + 1 + {q}]
| 3 @c
| | {c} @d
| | | r[2 - {c}] += -m[2 - {c}, 2 - {d}] * r[2 - {d}]
| | r[2 - {c}] = r[2 - {c}] / m[2 - {c}, 2 - {c}]
| 3 @e
| | x[{e}, {n}] = r[{e}]
"""


@pytest.mark.parametrize(("text", "lanes"), [(SORTED, 16), (SOLVED, 8)], ids=["sorted", "solved"])
def test_iterations_with_arrays_of_their_own_run_in_lanes(text: str, lanes: int) -> None:
    trace = scheduled(text)
    assert f"min({lanes}, " in str(trace.kernel)
    assert dojoir.certify(trace)
    own = [buffer for buffer in trace.kernel.buffers if buffer.role == "tmp" and buffer.dims]
    assert own
    assert all(buffer.storage == "reg" and str(buffer.dims[-1].extent) == str(lanes) for buffer in own)
    runs = [dojoir.compile(trace.kernel, target, threads=1) for target in targets()]
    for n in (1, 7, 8, 16, 33):
        sizes = dict.fromkeys(trace.kernel.runtime_sizes, n)
        inputs = random_inputs(trace.start, sizes=sizes, seed=n)
        expected = dojoir.interpret(trace.start, inputs)
        for run in runs:
            found = run.run(inputs)
            for name, value in expected.items():
                assert np.allclose(found[name], value, rtol=1e-9), (run.target, n)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y[{i}, {j}] = v[1]", "y[{j}, {i}] = v[1]"),  # results that do not lie side by side
        ("tmp v: f32[3]", "tmp v: f32[M + 3]"),  # as many elements as a row has
        ("v[{a}] = x[{i}, {j} + {a}]", "v[{a}] = x[{j}, {i} + {a}]"),  # nor what is read
    ],
)
def test_other_iterations_are_in_no_lanes(old: str, new: str) -> None:
    assert old in SORTED
    text = SORTED.replace(old, new).replace("y: f32[N, M]", "y: f32[N + M, N + M]").replace("M + 2]", "M + N + 2]")
    trace = scheduled(text.replace("x: f32[N,", "x: f32[N + M,").replace("out", "inout"))
    assert ": v @j" not in str(trace.kernel)
    assert ", {2}]" not in str(trace.kernel)
