"""Temporaries that an iteration reads as an earlier one left them: the variable is outside of the loop."""

from __future__ import annotations

import numpy as np
import pytest
from able import runs

import dojoir

TEXT = """kernel carried(N)
in  x: f32[N]
out y: f32[N]
out z: f32[N, 3]
tmp t: f32 STORAGE

N @i
| if {i} % 2 == 0
| | t = x[{i}]
| 3MARK @j
| | z[{i}, {j}] = t
| y[{i}] = t + 1
"""


@pytest.mark.parametrize("target", ["llvm", "c", "avx2"])
@pytest.mark.parametrize("mark", ["", " : v", " : u"])
@pytest.mark.parametrize("storage", ["heap", "reg"])
def test_a_scalar_keeps_its_value(target: str, mark: str, storage: str) -> None:
    runs(target)
    text = TEXT.replace("MARK", mark).replace(" STORAGE", "" if storage == "heap" else f" {storage}")
    kernel = dojoir.parse(text)
    x = np.arange(3, 10, dtype=np.float32)
    right = np.repeat(x[::2], 2)[:7]
    for found in (dojoir.interpret(kernel, {"x": x}), dojoir.compile(kernel, target).run({"x": x})):
        assert np.array_equal(found["y"], right + 1)
        assert np.array_equal(found["z"], np.repeat(right[:, None], 3, 1))


def test_it_is_declared_outside_of_all_scopes_that_run_in_order() -> None:
    text = """kernel deeper(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp t: f32

N @i
| M @j
| | if {i} + {j} == 0
| | | t = x[0, 0]
| | y[{i}, {j}] = t
"""
    kernel = dojoir.parse(text)
    code = dojoir.emit(kernel, "c")
    assert code.index("float t = 0.0f;") < code.index("for (")
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    assert (dojoir.compile(kernel, "c").run({"x": x})["y"] == 1).all()


def test_one_that_each_iteration_assigns_first_stays_inside() -> None:
    text = "kernel own(N)\nin  x: f32[N]\nout y: f32[N]\ntmp t: f32\n\nN\n| t = x[{0}]\n| y[{0}] = t * t\n"
    code = dojoir.emit(dojoir.parse(text), "c")
    assert code.index("for (") < code.index("float t = x[")
    shared = dojoir.apply(dojoir.parse(text), "parallelize(0)")
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(dojoir.compile(shared, "c").run({"x": x})["y"], x * x)
