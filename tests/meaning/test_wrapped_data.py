"""Sums and products of integers wrap around wherever they stand: in conditions, lengths and what leads to an index
too, where compilers could take those that count elements not to."""

from __future__ import annotations

import numpy as np
import pytest
from able import can_run

import dojoir
from dojoir.runtime.gpu.targets import through_harness

HEAD = """kernel wrapped(N)
in a: i64[N]
in b: i64[N]
inout y: i64[N]
tmp t: i64[1]

N
"""
BODIES = {
    "a condition": "| y[{0}] = 1 if a[{0}] + 1 > a[{0}]",
    "a product": "| y[{0}] = 1 if a[{0}] * b[{0}] >= 0 and a[{0}] >= 0",
    "an iterator": "| y[{0}] = 1 if i64({0}) + a[{0}] - b[{0}] > a[{0}]",
    "a choice": "| y[{0}] = select(a[{0}] - b[{0}] < a[{0}], 1, 2)",
    "a length": "| N\n| | y[{0}] += 1 if {1} < a[{0}] + b[{0}]",
    "a temporary": "| t[0] = a[{0}] + b[{0}]\n| y[{0}] = 1 if t[0] > a[{0}]",
    "an index": "| t[0] = a[{0}] + b[{0}]\n| y[{0}] = a[t[0]] if t[0] >= 0 and t[0] < N",
}


@pytest.mark.parametrize("target", [*filter(can_run, ("llvm", "c", "avx512", "avx2")), "cuda", "hip"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_data_wraps_around(body: str, target: str) -> None:
    kernel = dojoir.parse(HEAD + body + "\n")
    most = np.iinfo(np.int64).max
    inputs = {
        "a": np.array([most, most - 1, 3, -most, -most - 1, 2, most]),
        "b": np.array([1, 2, 3, -2, -1, -7, most]),
        "y": np.zeros(7, np.int64),
    }
    expected = dojoir.interpret(kernel, inputs)["y"]
    on_gpu = target in ("cuda", "hip")
    run = through_harness(kernel, target) if on_gpu else dojoir.compile(kernel, target=target)
    np.testing.assert_array_equal(run.run(inputs)["y"], expected)
