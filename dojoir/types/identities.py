"""The identity of an accumulation: in which element types there is such a value."""

from __future__ import annotations

import math

from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Cast, Const, Expr
from dojoir.types.rounding import FORMATS


def neutral(op: str, dtype: DType) -> int | float | None:
    """The value of an element of type `dtype` that the accumulation `op` leaves alone, or None if there is none.

    `max=` and `min=` begin with an infinity where the type has one (or rounds it to its largest number). They
    begin with the largest finite number where an infinity is stored as NaN (f8e8m0 has no sign: with the
    smallest). An integer type has its least and its largest number. `&=` begins with all bits set. A bool has
    none: no number is one.
    """
    match op:
        case "+=":
            return 0
        case "*=":
            return 1
        case "^=" | "|=" if dtype.is_integer:
            return 0
        case "&=" if dtype.is_integer:
            return -1 if dtype.kind == "i" else (1 << dtype.bits) - 1
        case "^=" | "|=" | "&=":
            return None
    match dtype.kind:
        case "i":
            return -(1 << (dtype.bits - 1)) if op == "max=" else (1 << (dtype.bits - 1)) - 1
        case "u":
            return 0 if op == "max=" else (1 << dtype.bits) - 1
        case "b":
            return None
    format_ = FORMATS[dtype.name]
    if format_.is_scale and op == "max=":
        return 2.0**format_.lowest
    largest = format_.largest if format_.overflow == "nan" else math.inf
    return -largest if op == "max=" else largest


def beginning(op: str, dtype: DType) -> int | float | None:
    """The same, once it is stored as such an element: f8e8m0 has no 0 for a sum to begin with."""
    is_scale = dtype.is_float and FORMATS[dtype.name].is_scale
    return None if op == "+=" and is_scale else neutral(op, dtype)


def neutral_value(op: str, dtype: DType) -> Expr | None:
    """The same as an expression, which a bool has as well."""
    if dtype.kind == "b" and op in ("^=", "&=", "|="):
        return Cast(dtype, Const(int(op == "&=")))
    begin = neutral(op, dtype)
    return None if begin is None else Const(begin)
