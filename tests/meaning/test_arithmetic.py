"""Operations on one number: special cases by IEEE 754 and C11, errors against mpmath, fma against fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dojoir.ir.dtypes import F32
from dojoir.meaning.scalar_ops import FUNCTIONS, divide_by_zero, fma, fma_f32, power, saturate
from dojoir.types.rounding import nearest

INF, NAN = math.inf, math.nan
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e300, -1e300, 5e-324, INF, -INF, NAN)


def same(a: float, b: float) -> bool:
    """The same number with the same sign; NaN is the same as NaN."""
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("exp", 1000.0, INF), ("exp", -1000.0, 0.0), ("exp", INF, INF), ("exp", -INF, 0.0), ("exp", NAN, NAN),
        ("exp2", 1024.0, INF), ("exp2", -1074.0, 5e-324), ("exp2", -INF, 0.0), ("exp2", 10.0, 1024.0),
        ("log", 0.0, -INF), ("log", -0.0, -INF), ("log", -1.0, NAN), ("log", INF, INF), ("log", NAN, NAN),
        ("log2", 0.0, -INF), ("log2", 8.0, 3.0), ("log2", -INF, NAN), ("log2", 5e-324, -1074.0),
        ("sqrt", -0.0, -0.0), ("sqrt", -1.0, NAN), ("sqrt", INF, INF), ("sqrt", NAN, NAN), ("sqrt", 2.25, 1.5),
        ("rsqrt", 0.0, INF), ("rsqrt", -0.0, -INF), ("rsqrt", INF, 0.0), ("rsqrt", -4.0, NAN), ("rsqrt", 4.0, 0.5),
        ("tanh", INF, 1.0), ("tanh", -INF, -1.0), ("tanh", -0.0, -0.0), ("tanh", NAN, NAN),
        ("erf", INF, 1.0), ("erf", -INF, -1.0), ("erf", -0.0, -0.0), ("erf", NAN, NAN),
        ("sigmoid", INF, 1.0), ("sigmoid", -INF, 0.0), ("sigmoid", -1000.0, 0.0), ("sigmoid", 0.0, 0.5),
        ("sigmoid", NAN, NAN), ("sigmoid", 1000.0, 1.0),
        ("sin", INF, NAN), ("sin", -0.0, -0.0), ("sin", NAN, NAN), ("cos", -INF, NAN), ("cos", 0.0, 1.0),
        ("floor", -0.5, -1.0), ("floor", -0.0, -0.0), ("floor", 1e300, 1e300), ("floor", -INF, -INF),
        ("ceil", -0.5, -0.0), ("ceil", 0.5, 1.0), ("ceil", NAN, NAN), ("ceil", 2.0**53 + 2, 2.0**53 + 2),
        ("round", 0.5, 0.0), ("round", -0.5, -0.0), ("round", 1.5, 2.0), ("round", 2.5, 2.0), ("round", INF, INF),
        ("round", 4503599627370497.5, 4503599627370498.0),
    ],
)  # fmt: skip
def test_special_cases(name: str, x: float, want: float) -> None:
    assert same(FUNCTIONS[name](x), want)


@pytest.mark.parametrize(
    "name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "sin", "cos"]
)
def test_errors_are_within_two_units_in_the_last_place(name: str) -> None:
    exact = {
        "exp2": lambda x: mpmath.mpf(2) ** x,
        "log2": lambda x: mpmath.log(x) / mpmath.log(2),
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
        "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    }.get(name) or getattr(mpmath, name)
    rng = np.random.default_rng(11)
    points = [*rng.normal(size=200), *(rng.normal(size=200) * 10.0 ** rng.integers(-8, 3, 200))]
    with mpmath.workprec(160):
        for point in points:
            x = abs(float(point)) if name in ("log", "log2", "sqrt", "rsqrt") else float(point)
            got, want = FUNCTIONS[name](x), exact(mpmath.mpf(x))
            assert abs(mpmath.mpf(got) - want) <= 2 * math.ulp(float(want)), x


def test_power_as_in_c() -> None:
    """NumPy calls the pow of the C library, but for exponent 0.5, where it takes the square root."""
    assert power(-INF, 0.5) == INF
    values = (*SPECIAL, 2.0, -3.0, 0.1, -0.1, 7e-300, 1023.0, -1e17, 3e9 + 1)
    for x, y in itertools.product(values, values):
        if (x, y) == (-INF, 0.5):
            continue
        with np.errstate(all="ignore"):
            want = float(np.power(np.float64(x), np.float64(y)))
        got = power(x, y)
        assert same(got, want) or abs(got - want) <= math.ulp(want), (x, y)


def test_division_by_zero() -> None:
    for x, zero in itertools.product(SPECIAL, (0.0, -0.0)):
        with np.errstate(all="ignore"):
            assert same(divide_by_zero(x, zero), float(np.float64(x) / np.float64(zero)))


@pytest.mark.parametrize(
    ("x", "want"),
    [(1.9, 1), (-1.9, -1), (-0.5, 0), (300.0, 127), (-INF, -128), (NAN, 0), (127.5, 127), (-128.9, -128)],
)
def test_saturation(x: float, want: int) -> None:
    assert saturate(x, -128, 127) == want
    assert type(saturate(x, -128, 127)) is int


def fma_cases(bits: int) -> list[tuple[float, float, float]]:
    """Random operands, many with a `c` that almost cancels the product, or is far below half of its last place."""
    rng = np.random.default_rng(bits)
    kind = np.float32 if bits == 32 else np.float64
    cases = []
    for _ in range(1500):
        a, b = (float(kind(rng.normal() * 10.0 ** rng.integers(-6, 6))) for _ in range(2))
        scale = float(rng.choice([-1.0, 1.0, 1e-5, -1e-9, 2.0**-24, 2.0**-53, 2.0**-60]))
        cases.append((a, b, float(kind(a * b * scale))))
    return cases


def test_fma_in_f64_is_rounded_once() -> None:
    for a, b, c in fma_cases(64):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        assert fma(a, b, c) == exact.numerator / exact.denominator


def test_fma_in_f32_is_rounded_once() -> None:
    for a, b, c in fma_cases(32):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        got = nearest(fma_f32(a, b, c), F32)
        error = abs(Fraction(got) - exact)
        for neighbour in (np.nextafter(np.float32(got), np.float32(s * INF)) for s in (-1, 1)):
            other = abs(Fraction(float(neighbour)) - exact)
            even = int(np.float32(got).view(np.uint32)) % 2 == 0
            assert error < other or (error == other and even)


def test_fma_where_rounding_twice_is_wrong() -> None:
    one = 1 + 2.0**-12
    tiny = 2.0**-80
    assert nearest(fma_f32(one, one, tiny), F32) == 1 + 2.0**-11 + 2.0**-23  # a tie, but for the tiny part
    assert nearest(fma_f32(one, one, 0.0), F32) == 1 + 2.0**-11
    assert nearest(fma_f32(one, one, -tiny), F32) == 1 + 2.0**-11


@pytest.mark.parametrize("function", [fma, fma_f32])
@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        (INF, 0.0, 1.0, NAN), (INF, 1.0, -INF, NAN), (INF, 1.0, 5.0, INF), (2.0, 3.0, -INF, -INF),
        (NAN, 1.0, 1.0, NAN), (1.0, 1.0, NAN, NAN), (2.0, 3.0, -6.0, 0.0), (-0.0, 1.0, -0.0, -0.0),
        (0.0, 1.0, -0.0, 0.0), (0.0, 5.0, 7.0, 7.0),
    ],
)  # fmt: skip
def test_fma_special_cases(
    function: Callable[[float, float, float], float], a: float, b: float, c: float, want: float
) -> None:
    assert same(function(a, b, c), want)


def test_fma_overflow() -> None:
    assert fma(1e308, 10.0, -INF) == -INF
    assert fma(1e308, 10.0, -1e308) == INF
    assert fma(-1e308, 10.0, 1e308) == -INF
    assert fma(1e308, 2.0, -1e308) == 1e308
