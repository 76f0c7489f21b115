"""Rows that are known to be shorter than a vector: lanes go over rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.ir.nodes import Scope
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.default_schedule import default_schedule

MACHINE = replace(MACHINES["avx512"], cores=1)


def scheduled(kernel: str | dojoir.Kernel, **sizes: int) -> dojoir.Trace:
    trace = Trace(dojoir.kernels.load(kernel) if isinstance(kernel, str) else kernel)
    default_schedule(trace, MACHINE, sizes=sizes)
    return trace


def in_lanes(trace: dojoir.Trace) -> list[str]:
    """The extents of the scopes in lanes that have scopes inside: rows."""
    return [
        " ".join(map(str, node.extent.bounds))
        for _, node in trace.kernel.walk()
        if isinstance(node, Scope) and "v" in node.marks and any(isinstance(n, Scope) for n in node.body)
    ]


ROWS = ["32 N - 32*{0}"]


@pytest.mark.parametrize(
    ("name", "sizes", "rows"),
    [
        ("gemv", {"N": 2343, "M": 1}, ROWS),
        ("gemv", {"N": 2343, "M": 3}, ROWS),
        ("gemv", {"N": 2343, "M": 4}, ["M"]),  # a sum of four costs less along the row, of eight rows at once
        ("softmax", {"N": 2343, "M": 8}, ROWS),  # an exp is
        ("softmax", {"N": 2343, "M": 9}, []),
        ("softmax", {"N": 15, "M": 3}, []),  # so few rows fill no vector
        ("softmax", {"M": 3}, ROWS),
        ("softmax", {"N": 2343}, []),
        ("softmax", {}, []),
        ("bias_relu", {"N": 2343, "M": 3}, []),  # nothing is added up: all of it is one row
        ("transpose", {"N": 2343, "M": 3}, []),
    ],
)
def test_lanes_go_over_rows_that_are_known_to_be_short(name: str, sizes: dict[str, int], rows: list[str]) -> None:
    assert in_lanes(scheduled(name, **sizes)) == rows


def test_lanes_are_counted_in_the_widest_type() -> None:
    kernel = dojoir.parse(str(dojoir.kernels.load("softmax")).replace("f32", "f64"))
    assert in_lanes(scheduled(kernel, N=2000, M=4)) == ["16 N - 16*{0}"]
    assert in_lanes(scheduled(kernel, N=2000, M=5)) == []


@pytest.mark.parametrize("name", ["log_softmax", "softmax", "layernorm"])
def test_results_stay_at_these_sizes_and_at_others(name: str) -> None:
    trace = scheduled(name, N=100, M=3)
    assert in_lanes(trace) == ROWS
    assert dojoir.certify(trace)
    run = dojoir.compile(trace.kernel)
    random = np.random.default_rng(7)
    for n, m in ((1, 1), (31, 3), (33, 3), (64, 8), (5, 40)):
        inputs: dict[str, object] = {"x": random.standard_normal((n, m)).astype(np.float32)}
        if name == "layernorm":
            inputs |= {"g": np.ones(m, np.float32), "b": np.ones(m, np.float32), "eps": 1e-5}
        expected = dojoir.interpret(trace.start, inputs)["y"]
        np.testing.assert_allclose(run.run(inputs)["y"], expected, rtol=1e-4, atol=1e-5)
