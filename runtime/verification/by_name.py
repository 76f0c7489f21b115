"""Conversions by name in a kernel that is computed in f64."""

from __future__ import annotations

import math

from dojoir.ir.dtypes import F64, DType
from dojoir.ir.nodes import Cast, Const, Expr
from dojoir.runtime.verification.propagation import op
from dojoir.types.rounding import FORMATS


def by_name(dtype: DType, source: DType, way: str, value: Expr) -> Expr:
    """A conversion by name of a value in f64: not rounded, but within the range of its type."""
    if way == "bitcast":
        return (
            Cast(dtype, Cast(source, value), way=way) if source.is_float else Cast(F64, Cast(dtype, value, way=way))
        )
    if dtype.is_integer:
        return Cast(dtype, value, way=way)
    value = value if source.is_float else Cast(F64, value)
    if way != "sat":
        return value
    format_ = FORMATS[dtype.name]
    if format_.is_scale:
        within = op("min", op("max", value, Const(2.0**format_.lowest)), Const(format_.largest))
        return op("select", op("ge", value, Const(0.0)), within, Const(math.nan))
    within = op("min", op("max", value, Const(-format_.largest)), Const(format_.largest))
    return (
        within
        if format_.overflow != "max"
        else op("select", op("eq", value, value), within, Const(format_.largest))
    )
