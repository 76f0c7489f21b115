"""tan, atan, expm1, log1p and isnan in kernels: the same on all targets, in every mode, in the shell's text and in
Python. How exact they are is in `test_mathlib.py`."""

from __future__ import annotations

import math

import able
import numpy as np
import pytest

import dojoir

TEXT = """
kernel f(N)
in  x: f32[N]
out a: f32[N]
out b: f32[N]
out c: f32[N]
out d: f32[N]
out e: i32[N]

N @i
| a[{i}] = tan(x[{i}])
| b[{i}] = atan(x[{i}])
| c[{i}] = expm1(x[{i}])
| d[{i}] = log1p(abs(x[{i}]))
| e[{i}] = select(isnan(x[{i}]), 1, 0)
"""


def values() -> np.ndarray:
    draw = np.random.default_rng(0)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3e38, 88.6, -88.6]
    return np.concatenate([special, draw.standard_normal(60) * 10.0 ** draw.integers(-6, 5, 60)]).astype(np.float32)


@pytest.mark.parametrize("fp", ["reassoc", "fast"])
@pytest.mark.parametrize("target", ["llvm", "c", "avx512", "avx2"])
def test_the_functions_are_right_on_a_target(target: str, fp: str) -> None:
    able.runs(target)
    kernel = dojoir.apply(dojoir.parse(TEXT).with_fp(fp), "vectorize(@i)") if target != "c" else dojoir.parse(TEXT)
    x = values()
    found = dojoir.compile(kernel, target).run({"x": x})
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        true = {"a": np.tan(wide), "b": np.arctan(wide), "c": np.expm1(wide), "d": np.log1p(np.abs(wide))}
        for name, expected in true.items():
            np.testing.assert_allclose(found[name], expected.astype(np.float32), rtol=3e-7)
    np.testing.assert_array_equal(found["e"], np.isnan(x))


def test_the_meaning_is_that_of_the_functions() -> None:
    x = values()
    found = dojoir.interpret(dojoir.parse(TEXT), {"x": x})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found["c"], np.expm1(x.astype(np.float64)).astype(np.float32), rtol=2e-7)
        np.testing.assert_allclose(found["d"], np.log1p(np.abs(x.astype(np.float64))).astype(np.float32), rtol=2e-7)
    np.testing.assert_array_equal(found["e"], np.isnan(x))


def test_compiled_code_is_verified_with_bounds_of_its_own() -> None:
    report = dojoir.verify(dojoir.apply(dojoir.parse(TEXT), "vectorize(@i)"), against=dojoir.parse(TEXT), seeds=2)
    assert report.ok, report


def test_isnan_is_written_as_what_it_is_and_takes_one_argument() -> None:
    assert "x[{0}] != x[{0}]" in dojoir.to_text(dojoir.parse(TEXT))
    with pytest.raises(dojoir.KernelError, match="isnan takes 1 argument, not 2"):
        dojoir.parse(TEXT.replace("isnan(x[{i}])", "isnan(x[{i}], 1)"))
