"""Scalar arguments as the compiled function takes them."""

from __future__ import annotations

import numpy as np

from dojoir.ir import Buffer
from dojoir.narrow import from_floats
from dojoir.scalars import scalar_value

Number = int | float


def takes_value(buffer: Buffer) -> bool:
    """Whether the compiled function takes this argument by value: an `in` without dimensions."""
    return buffer.role == "in" and not buffer.dims


def scalar_argument(buffer: Buffer, value: object) -> Number:
    """The value to pass for a scalar: the number itself, or its bits for a float narrower than f32.

    Raises ArgumentError as `dojoir.scalars.scalar_value` does."""
    number = scalar_value(buffer, value)
    if not buffer.dtype.is_float or buffer.dtype.bits >= 32:
        return number
    bits = from_floats(np.array([number], np.float64), buffer.dtype)
    return int(bits.view(f"uint{8 * buffer.dtype.itemsize}")[0])
