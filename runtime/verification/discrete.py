"""Conversions to narrow floats in a kernel that is computed in f64: rounded there as well, and how far off that
is.

Every conversion rises with its operand. So if that is known up to a bound, the result lies between those of the
two ends: where these are one number it is that, without doubt."""

from __future__ import annotations

from dojoir.ir.dtypes import F64, DType
from dojoir.ir.nodes import Cast, Const, Expr
from dojoir.runtime.verification.propagation import INFINITE, ZERO, Bound, magnitude, op


def converted(dtype: DType, way: str, value: Expr) -> Expr:
    """The number, in f64, that a value becomes in a type."""
    return Cast(F64, Cast(dtype, value, way=way))


def doubt(dtype: DType, way: str, value: Expr, result: Expr, bound: Bound, slack: float) -> Bound:
    """The error bound of a conversion: how far off `result` may be, where `value` is off by at most `slack`
    times its bound. Infinite where the result may be NaN or infinite, 0 where the value itself is for sure."""
    if bound is None:
        return None
    wide = op("mul", Const(slack), bound)
    high, low = (converted(dtype, way, op(side, value, wide)) for side in ("add", "sub"))
    off = op("max", op("sub", high, result), op("sub", result, low))
    off = op("select", op("lt", off, INFINITE), off, INFINITE)
    near = op("select", op("lt", bound, INFINITE), off, INFINITE)
    none = op("select", op("eq", bound, INFINITE), INFINITE, ZERO)
    return op("select", op("lt", magnitude(value), INFINITE), near, none)
