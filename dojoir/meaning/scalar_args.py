"""Arguments without dimensions: Python and NumPy numbers."""

from __future__ import annotations

import math
import operator
from typing import SupportsFloat, SupportsIndex

import numpy as np

from dojoir.errors import ArgumentError, repr_of
from dojoir.ir.nodes import Buffer
from dojoir.types.rounding import FORMATS, nearest

_NARROW = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float8_e8m0fnu"})
"""The scalars of ml_dtypes, which are no subclasses of NumPy's floats."""


def scalar_value(buffer: Buffer, value: object) -> int | float:
    """The number given for a scalar argument, rounded to its type. An array without dimensions will do.

    Raises ArgumentError for a value of another kind, or outside the range of the declared type."""
    dtype = buffer.dtype
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_):
        if dtype.kind == "b":
            return int(bool(value))
    elif isinstance(value, SupportsIndex) and not isinstance(value, np.ndarray):
        if dtype.is_float:
            return _rounded(buffer, operator.index(value))
        if dtype.is_integer:
            return _integer(buffer, operator.index(value))
    elif dtype.is_float and _is_float(value):
        assert isinstance(value, SupportsFloat)
        return _rounded(buffer, float(value))
    wanted = "a bool" if dtype.kind == "b" else "a number" if dtype.is_float else "an integer"
    raise ArgumentError(
        f"argument {buffer.name} is declared {dtype} without dimensions and takes {wanted}, "
        f"not {type(value).__name__} {repr_of(value)}",
        "bad-scalar",
    )


def _is_float(value: object) -> bool:
    return isinstance(value, float | np.floating) or (isinstance(value, np.generic) and value.dtype.name in _NARROW)


def _integer(buffer: Buffer, value: int) -> int:
    dtype = buffer.dtype
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    high = low + (1 << dtype.bits) - 1
    if not low <= value <= high:
        raise _out_of_range(buffer, value, f"{low} to {high}")
    return value


def _rounded(buffer: Buffer, value: int | float) -> float:
    """A finite number must stay finite: what rounds to the largest finite one or below is in range."""
    format_ = FORMATS[buffer.dtype.name]
    largest = format_.largest
    rounded = nearest(value, buffer.dtype)
    finite = isinstance(value, int) or math.isfinite(value)
    saturated = format_.overflow == "max" and abs(value) > largest
    if finite and (saturated or not math.isfinite(rounded)):
        raise _out_of_range(buffer, value, f"0 to {largest:g}" if format_.is_scale else f"±{largest:g}")
    return rounded


def _out_of_range(buffer: Buffer, value: object, allowed: str) -> ArgumentError:
    return ArgumentError(
        f"argument {buffer.name} is {value}, outside the range of {buffer.dtype}: {allowed}", "bad-scalar"
    )
