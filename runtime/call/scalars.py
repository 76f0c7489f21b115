"""Scalar arguments as the compiled function takes them."""

from __future__ import annotations

import struct

import numpy as np

from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Buffer
from dojoir.meaning.bits import from_floats
from dojoir.meaning.scalar_args import scalar_value

Number = int | float


def takes_value(buffer: Buffer) -> bool:
    """Whether the compiled function takes this argument by value: an `in` without dimensions."""
    return buffer.role == "in" and not buffer.dims


def scalar_argument(buffer: Buffer, value: object) -> Number:
    """The value to pass for a scalar: the number itself, or its bits for a float narrower than f32.

    Raises ArgumentError as `dojoir.meaning.scalar_args.scalar_value` does."""
    number = _held_as_it_is(buffer.dtype, value)
    if number is not None:
        return number
    number = scalar_value(buffer, value)
    if not buffer.dtype.is_float or buffer.dtype.bits >= 32:
        return number
    bits = from_floats(np.array([number], np.float64), buffer.dtype)
    return int(bits.view(f"uint{8 * buffer.dtype.itemsize}")[0])


def _held_as_it_is(dtype: DType, value: object) -> Number | None:
    """A Python number that the type holds as it is, or rounded to f32; None where that needs a closer look."""
    if type(value) is float:
        if dtype.bits == 64 and dtype.is_float:
            return value
        if dtype.bits == 32 and dtype.is_float and -_LARGEST <= value <= _LARGEST:
            rounded: float = _F32.unpack(_F32.pack(value))[0]
            return rounded
    elif type(value) is int and dtype.bits >= 32:
        if dtype.is_integer and (0 if dtype.kind == "u" else -_I32) <= value < _I32:
            return value
        if dtype.is_float and -_EXACT <= value <= _EXACT:
            return float(value)
    return None


_F32 = struct.Struct("f")
_LARGEST = float(np.finfo(np.float32).max)
_I32 = 1 << 31
_EXACT = 1 << 24
