"""Temporaries that keep over the iterations of a scope what one of them wrote."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from able import can_run

import dojoir

ARRAY = """kernel lasting(N = 6)
out y: f64[6]
tmp t: f64[2] {storage}

6
| if {{0}} == 0
| | 2{mark}
| | | t[{{1}}] = {{0}} + {{1}} + 3.0
| y[{{0}}] = t[{{0}} % 2]
"""

SINGLE = """kernel lasting(N = 6)
out y: f64[6]
tmp t: f64 {storage}

6
| 1 : p
| | min(4, -4*{{1}} + 1){mark}
| | | if {{0}} == 0
| | | | t = {{0}} + 3.0
| y[{{0}}] = t
"""

EACH_ITS_OWN = """kernel own(N = 64)
in  x: f64[64, 4]
out y: f64[64]
tmp t: f64[4] stack

64
| min(4, {0} + 1)
| | t[{1}] = x[{0}, {1}] * 2
| y[{0}] = t[0]
"""


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
@pytest.mark.parametrize(
    ("text", "storage", "mark"), [*product((ARRAY, SINGLE), ("heap", "stack", "reg"), ("", " : v"))]
)
def test_what_an_iteration_left_is_there_in_the_next(text: str, storage: str, mark: str, target: str) -> None:
    """An array on the stack was declared in the iteration, and an element that cores write too."""
    if not can_run(target):
        pytest.skip(f"this machine runs no {target}")
    kernel = dojoir.parse(text.format(storage=storage, mark=mark))
    for threads in (1, 2):
        found = dojoir.compile(kernel, target, threads=threads).run({})
        np.testing.assert_array_equal(found["y"], dojoir.interpret(kernel, {})["y"])


def test_only_what_lasts_is_declared_outside_of_the_loop() -> None:
    def declared(text: str) -> list[int]:
        """How far in the array is declared."""
        lines = dojoir.emit(dojoir.parse(text), "c").splitlines()
        return [len(line) - len(line.lstrip()) for line in lines if "double t[" in line]

    assert declared(ARRAY.format(storage="stack", mark="")) == [4]
    assert declared(EACH_ITS_OWN) == [8]


@pytest.mark.parametrize("target", ["llvm", "c", "avx512"])
def test_what_data_decide_may_be_kept(target: str) -> None:
    """An element at an index from data, and one under a condition on data, may be that of the iteration before."""
    if not can_run(target):
        pytest.skip(f"this machine runs no {target}")
    kernel = dojoir.parse(
        "kernel f(N)\nin x: f32[N]\nin at: i32[N]\nout y: f32[N]\ntmp t: f32[2] stack\n\nN\n| if {0} == 0\n"
        "| | 2\n| | | t[{1}] = 7\n| t[at[{0}]] += x[{0}]\n| t[0] = x[{0}] if x[{0}] > 2\n| y[{0}] = t[0] - t[1]\n"
    )
    inputs = {"x": np.array([1, 3, 2, -1, 5], np.float32), "at": np.array([1, 0, 1, 0, 1], np.int32)}
    found = dojoir.compile(kernel, target).run(inputs, N=5)["y"]
    assert found.tolist() == dojoir.interpret(kernel, inputs, N=5)["y"].tolist()
