"""Arrays of every element type: to the numbers that they hold, and from numbers to bits.

NumPy has no bf16 and no 8-bit or 4-bit floats: arrays of them hold their bits (`DType.stored`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dojoir.ir.dtypes import DType
from dojoir.types.rounding import FORMATS, FloatFormat

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def to_floats(array: npt.NDArray[np.generic], dtype: DType) -> Floats:
    """The numbers in an array of the float type `dtype`, as f64, which holds them all exactly.

    `array` has any shape and one of the types `dtype.accepted`."""
    if dtype.stored.startswith("float"):
        return array.astype(np.float64)
    bits = array if array.dtype.name == dtype.stored else array.view(dtype.stored)
    return _decode(bits.astype(np.int64), FORMATS[dtype.name])


def from_floats(values: npt.NDArray[np.floating], dtype: DType) -> npt.NDArray[np.generic]:
    """An array of the float type `dtype`, in `dtype.stored`, with the shape of `values`: f64 (or anything exact in
    it) rounded once, to nearest even. What is beyond the largest number is as in
    `dojoir.types.rounding.nearest`."""
    if dtype.stored.startswith("float"):
        with np.errstate(all="ignore"):
            return values.astype(dtype.stored)
    return _encode(values.astype(np.float64), FORMATS[dtype.name]).astype(dtype.stored)


def _decode(bits: Integers, format_: FloatFormat) -> Floats:
    """The fields of an encoding: sign, biased exponent (0 for subnormals), fraction."""
    if format_.is_scale:
        return np.where(bits > format_.largest_bits, np.nan, np.ldexp(1.0, bits + format_.lowest))
    fraction_bits = format_.precision - 1
    magnitude = bits & (format_.sign_bit - 1)
    exponent = magnitude >> fraction_bits
    hidden = (exponent > 0).astype(np.int64) << fraction_bits
    significand = (magnitude & ((1 << fraction_bits) - 1)) + hidden
    values = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - 1 + format_.quantum)
    values = np.where(magnitude > format_.largest_bits, np.nan, values)
    if format_.overflow == "inf":
        values = np.where(magnitude == format_.overflow_bits, np.inf, values)
    return np.where(bits & format_.sign_bit, -values, values)


def _encode(values: Floats, format_: FloatFormat) -> Integers:
    """`|value| = r * 2**q`. With `e` the distance of `q` from the smallest, the bits of the magnitude are
    `e * 2**(precision - 1) + r`. A normal `r` has its highest bit set, which adds the 1 that the biased exponent
    is greater, and an `r` that was rounded up to the next power of two carries into it."""
    if format_.is_scale:
        return _encode_scale(values, format_)
    absolute = np.where(np.isfinite(values), np.abs(values), 0.0)
    exponent = np.where(absolute > 0, np.frexp(absolute)[1], format_.quantum).astype(np.int64)
    quantum = np.maximum(exponent - format_.precision, format_.quantum)
    significand = np.rint(np.ldexp(absolute, -quantum)).astype(np.int64)
    magnitude = ((quantum - format_.quantum) << (format_.precision - 1)) + significand
    magnitude = np.where((magnitude > format_.largest_bits) | np.isinf(values), format_.overflow_bits, magnitude)
    sign = np.where(np.signbit(values), format_.sign_bit, 0)
    return np.where(np.isnan(values), format_.nan_bits, magnitude | sign)


def _encode_scale(values: Floats, format_: FloatFormat) -> Integers:
    """The exponent, from that of the smallest number on: of a half and more the next one."""
    known = np.isfinite(values) & (values > 0)
    half, exponent = np.frexp(np.where(known, values, 0.0))
    code = np.where(known, exponent.astype(np.int64) - 1 - format_.lowest + (half >= 0.75), 0)
    code = np.clip(code, 0, format_.overflow_bits)
    return np.where(np.isnan(values) | (values < 0) | np.isposinf(values), format_.nan_bits, code)


def code_of(dtype: DType, value: float) -> int:
    """The bits of a number of a float type (rounded to it first), as an unsigned integer; those of the quiet
    positive NaN for every NaN."""
    bits = 8 * dtype.itemsize
    if value != value:
        return FORMATS[dtype.name].nan_bits
    return int(from_floats(np.array([value]), dtype).view(f"uint{bits}")[0])


def coded(dtype: DType, code: int) -> float:
    """The number of a float type that has these bits; those of f4e2m1 are the low half of a byte."""
    bits = np.array([code], f"uint{8 * dtype.itemsize}")
    return float(to_floats(bits.view(dtype.stored), dtype)[0])
