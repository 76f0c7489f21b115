"""The elementary functions on arrays, their true values and their special ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
from lir_eval import Array, evaluate

from dojoir.codegen.lir import program as lir
from dojoir.codegen.math.elementary import function
from dojoir.ir.dtypes import F32, F64


def compute(name: str, *args: Array, fast: bool = False) -> Array:
    dtype = F64 if args[0].dtype == np.float64 else F32
    return evaluate(function(name, lir.Type(dtype), fast), *args)


IN_MP: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "atan": mpmath.atan,
    "expm1": mpmath.expm1,
    "log1p": mpmath.log1p,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "log10": mpmath.log10,
    "erfc": lambda x: mpmath.erfc(x) if abs(x) < 100 else mpmath.mpf(0 if x > 0 else 2),
    **{name: getattr(mpmath, name) for name in ("sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh")},
    "pow": mpmath.power,
    "atan2": mpmath.atan2,
    "hypot": mpmath.hypot,
}


def mp_errors(name: str, got: Array, *args: Array, digits: int = 53, lowest: int = -1074) -> Iterator[float]:
    """How far results are from the true ones, in units of the last place there."""
    with mpmath.workdps(60):
        for y, *values in zip(got.tolist(), *(a.tolist() for a in args), strict=True):
            true = IN_MP[name](*map(mpmath.mpf, values))
            exponent = max(mpmath.frexp(true)[1] - digits, lowest)
            overflow = math.isinf(y) and abs(true) > np.finfo(np.float64).max
            yield 0.0 if overflow else float(abs(mpmath.mpf(y) - true) / mpmath.ldexp(1, exponent))


inf, nan = math.inf, math.nan
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (nan, nan), (1e30, inf), (-1e30, 0.0), (1e-40, 1.0)],
    "exp2": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (nan, nan), (1e30, inf), (-1e30, 0.0),
             (-126.0, 2.0**-126), (10.0, 1024.0)],
    "log": [(0.0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (-1.0, nan), (-1e-40, nan), (nan, nan), (1.0, 0.0)],
    "log2": [(0.0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (-1.0, nan), (-1e-40, nan), (nan, nan), (1.0, 0.0),
             (1024.0, 10.0), (0.125, -3.0), (2.0**-149, -149.0)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (1e-40, 1e-40),
             (1e30, 1.0), (-30.0, -1.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (1e30, 1.0), (-7.0, -1.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (inf, 1.0), (-inf, 0.0), (nan, nan), (1e30, 1.0), (-1e30, 0.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan), (nan, nan), (1e-40, 1e-40), (-1e-40, -1e-40)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan), (nan, nan), (1e-40, 1.0)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan), (nan, nan), (1e-40, 1e-40), (-1e-40, -1e-40)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (nan, nan), (1e-40, 1e-40), (-1e-40, -1e-40), (inf, math.pi / 2),
             (-inf, -math.pi / 2), (1.0, math.pi / 4)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0), (nan, nan), (1e30, inf), (-1e30, -1.0),
              (1e-40, 1e-40), (-1e-40, -1e-40)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, nan), (-1.0, -inf), (-1.5, nan), (nan, nan),
              (1e-40, 1e-40), (-1e-40, -1e-40)],
    "log10": [(0.0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (-1.0, nan), (nan, nan), (1.0, 0.0),
              (1000.0, 3.0), (100000.0, 5.0), (0.1, -1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (inf, 0.0), (-inf, 2.0), (nan, nan), (1e30, 0.0), (-7.0, 2.0), (1e-40, 1.0)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (nan, nan), (1e30, inf), (-1e30, -inf),
             (1e-40, 1e-40), (-1e-40, -1e-40)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf), (nan, nan), (1e30, inf), (1e-40, 1.0)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (nan, nan), (inf, nan), (-1.5, nan), (1.0, math.pi / 2),
             (-1.0, -math.pi / 2), (1e-40, 1e-40), (-1e-40, -1e-40)],
    "acos": [(nan, nan), (inf, nan), (-1.5, nan), (1.0, 0.0), (-1.0, math.pi), (0.0, math.pi / 2)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (nan, nan), (1e-40, 1e-40), (-1e-40, -1e-40)],
    "acosh": [(1.0, 0.0), (inf, inf), (0.9, nan), (-inf, nan), (-3e38, nan), (nan, nan)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, inf), (-1.0, -inf), (1.5, nan), (-inf, nan), (nan, nan),
              (1e-40, 1e-40), (-1e-40, -1e-40)],
    "rsqrt": [(0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, nan), (-1.0, nan), (nan, nan), (4.0, 0.5), (0.25, 2.0)],
}  # fmt: skip


def same(got: Array, expected: Array) -> None:
    """Equal, zeros in sign too, NaN to NaN."""
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))
