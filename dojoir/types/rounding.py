"""The float formats, and rounding a number to any of them: to nearest even, and always once.

A finite value of a format with `precision` significant bits is `r * 2**q` with `|r| < 2**precision` and `q` no
less than the format's smallest: subnormals are the values with the smallest `q`. So rounding is finding `q` from
the exponent of the number and rounding `number / 2**q` to an integer, which is exact up to that one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from dojoir.ir.dtypes import DType
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class FloatFormat:
    """A binary float format of `bits` bits. `precision` significant bits (the hidden one counts), `lowest` the
    exponent of the smallest normal number, `largest` the largest finite number, `overflow` what lies beyond it:
    inf, nan (there is no infinity) or max (neither is there a NaN). One that `is_scale` has powers of two alone, by
    their exponents: no sign, no zero and no subnormal numbers."""

    bits: int
    precision: int
    lowest: int
    largest: float
    overflow: str
    is_scale: bool = False

    @property
    def quantum(self) -> int:
        """The exponent of the smallest subnormal number."""
        return self.lowest - self.precision + 1

    @property
    def sign_bit(self) -> int:
        return 0 if self.is_scale else 1 << (self.bits - 1)

    @property
    def largest_bits(self) -> int:
        """The encoding of the largest finite number."""
        if self.is_scale:
            return (1 << self.bits) - 2
        exponent = math.frexp(self.largest)[1] - self.precision
        return ((exponent - self.quantum) << (self.precision - 1)) + int(math.ldexp(self.largest, -exponent))

    @property
    def overflow_bits(self) -> int:
        """The encoding of what lies beyond the largest finite number."""
        return self.largest_bits + (self.overflow != "max")

    @property
    def nan_bits(self) -> int:
        """The encoding that NaN gets: the positive quiet one, or -0 (as in ml_dtypes) where there is none."""
        if self.overflow == "max":
            return self.sign_bit
        return self.overflow_bits if self.is_scale else self.overflow_bits | 1 << (self.precision - 2)


def _ieee(bits: int, precision: int) -> FloatFormat:
    highest = 2 ** (bits - precision - 1) - 1
    return FloatFormat(bits, precision, 1 - highest, math.ldexp(2 - 2.0 ** (1 - precision), highest), "inf")


FORMATS: dict[str, FloatFormat] = {
    "f64": _ieee(64, 53),
    "f32": _ieee(32, 24),
    "f16": _ieee(16, 11),
    "bf16": _ieee(16, 8),
    "f8e5m2": _ieee(8, 3),
    "f8e4m3": FloatFormat(8, 4, -6, 448.0, "nan"),  # OCP e4m3fn
    "f4e2m1": FloatFormat(4, 2, 0, 6.0, "max"),  # OCP e2m1
    "f8e8m0": FloatFormat(8, 1, -127, 2.0**127, "nan", is_scale=True),  # OCP e8m0
}


def rounder(dtype: DType, way: str = "cast") -> Callable[[float], float]:
    """The function that rounds an f64 to the nearest value of the float type `dtype`, ties to even; beyond the
    largest finite number as the format says. The sign of zero is kept. NaN stays NaN, except in f4e2m1, where it
    is -0 (as in ml_dtypes). By another `way`, as `dojoir.types.typed.Convert` says.

    In f8e8m0 the tie between two powers of two goes to the larger one (neither has an even significand: so says
    IEEE 754). Zero and what is below the smallest number become that, and negative numbers NaN."""
    format_ = FORMATS[dtype.name]
    if format_.is_scale:
        return partial(_power_of_two, way, format_)
    if way != "cast":
        return partial(_rounded_by, way, format_)
    precision, lowest, largest, limit = format_.precision, format_.quantum, format_.largest, 2 * format_.largest
    frexp, ldexp, copysign = math.frexp, math.ldexp, math.copysign

    def rounded(value: float) -> float:
        if not -limit < value < limit:  # NaN, inf, or so large that ldexp could overflow
            return _beyond(format_, value)
        quantum = frexp(value)[1] - precision
        if quantum < lowest:
            quantum = lowest
        result = copysign(ldexp(round(ldexp(value, -quantum)), quantum), value)
        return result if -largest <= result <= largest else _beyond(format_, value)

    return rounded


def _rounded_by(way: str, format_: FloatFormat, value: float) -> float:
    """`value` rounded by one of the ways that have a name."""
    size, largest = abs(value), format_.largest
    if value != value:
        return largest if way == "sat" and format_.overflow == "max" else _beyond(format_, value)
    if size < 2 * largest or (2 * largest == math.inf and size != math.inf):
        quantum = max(math.frexp(size)[1] - format_.precision, format_.quantum)
        scaled = math.ldexp(size, -quantum)
        whole = math.floor(scaled)
        match way:
            case "round_away":
                whole += scaled - whole >= 0.5
            case "sat":
                whole = round(scaled)
        size = _ldexp(whole, quantum)
    elif size != math.inf:
        size = 2 * largest
    if size > largest:
        if way == "round_away" or (way == "round_to_zero" and math.isinf(value)):
            return _beyond(format_, value)
        size = largest
    return math.copysign(size, value)


def _power_of_two(way: str, format_: FloatFormat, value: int | float) -> float:
    """A non-negative number as a power of two: an f64, or an integer of any length."""
    if value != value or value < 0:
        return math.nan
    if value == math.inf:
        return format_.largest if way == "sat" else math.nan
    if value <= 2.0**format_.lowest:
        return 2.0**format_.lowest
    exponent = value.bit_length() - 1 if isinstance(value, int) else math.frexp(value)[1] - 1
    low = 1 << exponent if isinstance(value, int) else 2.0**exponent
    exponent += way != "round_to_zero" and 2 * (value - low) >= low
    if exponent <= -format_.lowest:
        return 2.0**exponent
    return format_.largest if way in ("sat", "round_to_zero") else math.nan


def in_range(dtype: DType, value: float) -> float:
    """`value` within the finite numbers of a float type, not rounded; NaN as in `sat`."""
    format_ = FORMATS[dtype.name]
    if format_.is_scale:
        return math.nan if value != value or value < 0 else min(max(value, 2.0**format_.lowest), format_.largest)
    if value != value:
        return format_.largest if format_.overflow == "max" else value
    return min(max(float(value), -format_.largest), format_.largest)


def _ldexp(number: int, exponent: int) -> float:
    try:
        return math.ldexp(number, exponent)
    except OverflowError:
        return math.inf


def round_integer(value: int, dtype: DType, way: str) -> float:
    """An integer of at most 64 bits rounded to a float type once, by one of the ways that have a name."""
    low = value & 0xFFF
    folded = value if abs(value) < 1 << 53 else value - low + 0x800 * (low != 0)  # it is exact in f64 then
    return rounder(dtype, way)(float(folded))


def nearest(value: int | float, dtype: DType) -> float:
    """The value of the float type `dtype` nearest to a number, as in `rounder`; an integer of any length is rounded
    once."""
    if isinstance(value, float):
        return rounder(dtype)(value)
    format_ = FORMATS[dtype.name]
    if format_.is_scale:
        return _power_of_two("cast", format_, value)
    quantum = max(value.bit_length() - format_.precision, 0)
    try:
        result = math.ldexp(_shift(value, quantum), quantum)
    except OverflowError:
        return _beyond(format_, value)
    return result if -format_.largest <= result <= format_.largest else _beyond(format_, value)


def _shift(value: int, places: int) -> int:
    """`value / 2**places` as an integer, to nearest even."""
    if places == 0:
        return value
    half = 1 << (places - 1)
    odd = (value >> places) & 1
    return (value + half - 1 + odd) >> places


def _beyond(format_: FloatFormat, value: int | float) -> float:
    """The result for a number larger than all finite ones, by its sign; and the result for NaN."""
    if value != value:
        return -0.0 if format_.overflow == "max" else math.nan
    match format_.overflow:
        case "nan":
            return math.nan
        case "max":
            return format_.largest if value > 0 else -format_.largest
        case _:
            return math.inf if value > 0 else -math.inf
