"""The operations of the IR on one number: IEEE 754 on Python floats, where Python itself would raise an error.

All functions are total. `sqrt` and `fma` are rounded once. The transcendental ones are those of the C library in
f64, within about 1 ulp (2 for rsqrt and sigmoid), so that rounding to f32 what they give is the f32 number nearest
to the true value in all but about one case in 2**27.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

Function = Callable[[float], float]
OfTwo = Callable[[float, float], float]


# -- arithmetic --------------------------------------------------------------------------------------------
def divide_by_zero(a: float, b: float) -> float:
    """`a / b` for a `b` that is ±0."""
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def lower_zero(a: float, b: float) -> float:
    """The smaller of two zeros, where -0 is below +0. IEEE 754-2019, 9.6: minimum."""
    return a if math.copysign(1.0, a) < 0 else b


def upper_zero(a: float, b: float) -> float:
    """The larger of two zeros: maximum."""
    return b if math.copysign(1.0, a) < 0 else a


def fma(a: float, b: float, c: float) -> float:
    """`a * b + c`, rounded to f64 once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        # A product that overflows must not turn an infinite c into NaN.
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # exact as well, and with the right sign
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fma_f32(a: float, b: float, c: float) -> float:
    """`a * b + c` of f32 numbers as an f64 that rounds to the f32 nearest to the exact result.

    The product is exact in f64. The sum is rounded to odd: a second rounding, to fewer bits by two or more, then
    gives what a single one would. (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
    algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008.)
    """
    product = a * b
    total = product + c
    if not math.isfinite(total):
        return total
    part = total - product
    error = (product - (total - part)) + (c - part)
    if error == 0 or int(math.ldexp(math.frexp(total)[0], 53)) & 1:
        return total
    return math.nextafter(total, math.copysign(math.inf, error))


def saturate(x: float, low: int, high: int) -> int:
    """`x` truncated to an integer within `low` and `high`; 0 for NaN."""
    if x != x:
        return 0
    return low if x <= low else high if x >= high else int(x)


def clamp(x: int, low: int, high: int) -> int:
    """The nearest integer to `x` within `low` and `high`."""
    return min(max(x, low), high)


def away(x: float) -> float:
    """`x` rounded to an integer, ties away from 0."""
    if not math.isfinite(x):
        return x
    whole = math.floor(abs(x))
    return math.copysign(whole + (abs(x) - whole >= 0.5), x)


# -- functions ---------------------------------------------------------------------------------------------
def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _expm1(x: float) -> float:
    try:
        return math.expm1(x)
    except OverflowError:
        return math.inf


def _log1p(x: float) -> float:
    if x > -1:
        return math.log1p(x)
    return -math.inf if x == -1 else math.nan


def _exp2(x: float) -> float:
    try:
        return math.exp2(x)
    except OverflowError:
        return math.inf


def _sinh(x: float) -> float:
    try:
        return math.sinh(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def _cosh(x: float) -> float:
    try:
        return math.cosh(x)
    except OverflowError:
        return math.inf


def _atanh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x) if abs(x) < 1 else math.nan


def _between(function: Function, low: float, high: float) -> Function:
    """A function that is NaN outside of some numbers."""
    return lambda x: function(x) if low <= x <= high else math.nan


def _logarithm(log: Function) -> Function:
    def total(x: float) -> float:
        if x > 0:
            return log(x)
        return -math.inf if x == 0 else math.nan

    return total


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _rsqrt(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    return math.nan if x < 0 else 1.0 / math.sqrt(x)


def _sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), in the form that does not overflow and keeps small results."""
    if x < 0:
        small = math.exp(x)
        return small / (1.0 + small)
    return 1.0 / (1.0 + math.exp(-x))


def _periodic(function: Function) -> Function:
    return lambda x: math.nan if math.isinf(x) else function(x)


def _to_integer(rounding: Callable[[float], int]) -> Function:
    """A rounding to integers that keeps the sign of zero and leaves infinities and NaN as they are."""
    return lambda x: math.copysign(rounding(x), x) if math.isfinite(x) else x


def power(x: float, y: float) -> float:
    """`x ** y` as C11 (F.10.4.4) defines it: NaN for a negative `x` and a `y` that is no integer."""
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        if x < 0 and math.isfinite(y) and not y.is_integer():
            return math.nan
        negative = math.copysign(1.0, x) < 0 and math.fmod(y, 2.0) != 0
        return -math.inf if negative else math.inf


def fmod(x: float, y: float) -> float:
    """`x` less `y` times the quotient rounded towards 0, exactly: of the sign of `x`."""
    return math.nan if math.isinf(x) or y == 0 else math.fmod(x, y)


def _are_apart(rest: float, y: float) -> bool:
    """Whether a remainder has another sign than the divisor."""
    return rest != 0 and math.copysign(1.0, rest) != math.copysign(1.0, y)


def floor_mod(x: float, y: float) -> float:
    """`x` less `y` times the quotient rounded down: of the sign of `y`, or a 0 of that of `x`."""
    rest = fmod(x, y)
    return rest + y if _are_apart(rest, y) else rest


def floor_div(x: float, y: float) -> float:
    """The quotient rounded down, as Python's `//` of floats has it; `x / y` for a `y` that is ±0."""
    if y == 0:
        return divide_by_zero(x, y)
    rest = fmod(x, y)
    near = (x - rest) / y - _are_apart(rest, y)
    if near == 0:
        return math.copysign(0.0, x) * math.copysign(1.0, y)
    if not math.isfinite(near):
        return near
    down = float(math.floor(near))
    return down + (near - down > 0.5)


FUNCTIONS: dict[str, Function] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _logarithm(math.log),
    "log2": _logarithm(math.log2),
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": _sigmoid,
    "sin": _periodic(math.sin),
    "cos": _periodic(math.cos),
    "tan": _periodic(math.tan),
    "atan": math.atan,
    "expm1": _expm1,
    "log1p": _log1p,
    "log10": _logarithm(math.log10),
    "erfc": math.erfc,
    "sinh": _sinh,
    "cosh": _cosh,
    "asin": _between(math.asin, -1.0, 1.0),
    "acos": _between(math.acos, -1.0, 1.0),
    "asinh": math.asinh,
    "acosh": _between(math.acosh, 1.0, math.inf),
    "atanh": _atanh,
    "floor": _to_integer(math.floor),
    "ceil": _to_integer(math.ceil),
    "round": _to_integer(round),
}
"""The float operations of one operand, on f64. `round` is to nearest even."""

OF_TWO: dict[str, OfTwo] = {
    "pow": power,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "copysign": math.copysign,
    "fmod": fmod,
    "floor_mod": floor_mod,
    "floor_div": floor_div,
}
"""The float operations of two operands that are calls, on f64."""
