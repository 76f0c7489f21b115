"""The functions of two arguments: remainders, angles, lengths."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from elementary_values import compute, inf, mp_errors, nan, same
from lir_eval import Array, numpy_type

from dojoir.codegen.math.elementary import OF_TWO
from dojoir.ir.dtypes import F32, F64, DType

TYPES = [F32, F64]


def pairs(dtype: DType) -> tuple[Array, Array]:
    """All pairs of special values, those of like sizes, and any."""
    kind, bits = numpy_type(dtype), np.dtype(f"i{dtype.itemsize}")
    info = np.finfo(kind)
    points = [0, 0.1, 0.4142135, 0.5, 1, 1.5, 2, 3, 5, 7e8, 3e38, info.max, inf, info.tiny, info.smallest_subnormal]
    with np.errstate(over="ignore"):
        sizes = np.array([points, np.nextafter(np.array(points, kind), kind.type(inf))]).astype(kind).ravel()
    special = np.concatenate([sizes, -sizes, np.array([nan], kind)])
    x, y = (v.ravel() for v in np.meshgrid(special, special))
    rng = np.random.default_rng(8)
    any_size = rng.integers(np.iinfo(bits).min, np.iinfo(bits).max, (2, 4000), bits).view(kind)
    near = (rng.normal(size=(2, 4000)) * [[1000], [1]]).astype(kind)
    return np.concatenate([x, any_size[0], near[0], near[1]]), np.concatenate(
        [y, any_size[1], near[1], near[1][::-1]]
    )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_remainders_are_exact_whatever_the_quotient(dtype: DType) -> None:
    """Beside fmod of the C library, and the quotient of whole numbers."""
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        rest = np.fmod(x, y)
        lifted = (rest != 0) & (np.signbit(x) != np.signbit(y))
        same(compute("fmod", x, y), rest)
        same(compute("floor_mod", x, y), np.where(lifted, rest + y, rest))
    got = compute("floor_div", x, y)
    top = 2.0 ** (np.finfo(x.dtype).nmant + 1)
    for a, b, found in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        if not (math.isfinite(a) and math.isfinite(b)) or b == 0:
            continue
        exact = Fraction(a) // Fraction(b)
        if abs(exact) < top:
            assert found == exact, (a, b)
            assert exact or math.copysign(1, found) == math.copysign(1, a) * math.copysign(1, b)
        elif abs(exact) <= Fraction(float(np.finfo(x.dtype).max)):
            unit = Fraction(2) ** (math.frexp(found)[1] - np.finfo(x.dtype).nmant - 1)
            assert abs(Fraction(found) - exact) <= OF_TWO["floor_div"].ulp[dtype] * unit, (a, b)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_error_of_two_arguments(name: str, dtype: DType) -> None:
    x, y = pairs(dtype)
    number = np.isfinite(x) & np.isfinite(y) & ((x != 0) | (y != 0))
    x, y = x[number][::3], y[number][::3]
    digits, lowest = (53, -1074) if dtype == F64 else (24, -149)
    got = compute(name, x, y)
    whole = np.isfinite(got)
    x, y, got = x[whole], y[whole], got[whole]
    errors = np.array(list(mp_errors(name, got, x, y, digits=digits, lowest=lowest)))
    assert errors.max() <= OF_TWO[name].ulp[dtype], (x[errors.argmax()], y[errors.argmax()])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_special_values_of_two_arguments(dtype: DType) -> None:
    """As the C library has them: zeros, infinities and NaN in all places."""
    values = np.array([0.0, 1.0, inf, -0.0, -1.0, -inf, nan], numpy_type(dtype))
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    same(compute("copysign", x, y), np.copysign(x, y))
    np.testing.assert_array_equal(np.signbit(compute("copysign", x, y)), np.signbit(y))
    got, expected = compute("atan2", x, y), np.arctan2(x, y)
    np.testing.assert_allclose(got, expected, rtol=2 * np.finfo(x.dtype).eps)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))
    np.testing.assert_allclose(compute("hypot", x, y), np.hypot(x, y), rtol=np.finfo(x.dtype).eps)
