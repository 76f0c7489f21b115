"""Remainders and quotients of floats without an error, whatever the size of the quotient: fmod, and by it the ones
that are rounded down; written as in `codegen.exponentials`.

For f32 they are taken in f64, some 50 digits of the quotient at a time: an fma gives what is left of each exactly.
For f64, x = m 2ᵏ n with y = n 2ᵉ and integers m, n of 53 digits: m 2ᵏ modulo n by squaring 2ᵏ, each product of two
residues exact as a sum of two f64.
"""

from __future__ import annotations

from math import inf

from dojoir.codegen.lir.notation import F32, F64, I64, Body, Expr, fma, select
from dojoir.codegen.math import precision
from dojoir.codegen.math.exponentials import with_sign

STEPS = 6
"""Of the division in f64: a quotient of two f32 is below 2²⁷⁷, and each step leaves 2⁻⁵¹ of it, the last less than
half of the divisor."""


def _divided_f32(body: Body, x: Expr, y: Expr) -> tuple[list[Expr], Expr]:
    """|x| modulo |y| in f64, exactly, and the parts of the quotient rounded down, in f64 too."""
    a, b = body.let("a", x.abs().convert(F64)), body.let("b", y.abs().convert(F64))
    inverse = body.let("inverse", 1.0 / b)
    rest, parts = a, []
    for _ in range(STEPS):
        parts.append(body.let("part", (rest * inverse).round()))
        rest = body.let("rest", fma(-parts[-1], b, rest))
    over = body.let("over", rest < 0.0)
    less = body.let("less", a < b)  # also where y is infinite
    quotient = [select(less, 0.0, part) for part in parts]
    quotient.append(select(less, a.constant(0.0), select(over, a.constant(-1.0), 0.0)))
    return quotient, select(less, a, select(over, rest + b, rest))


# -- f64 ---------------------------------------------------------------------------------------------------
DIGITS, BIAS, TINY = 52, 1023, 2.0**-1000


class _Residues:
    """Integers modulo `n`, 2⁵² ≤ n < 2⁵³, as f64 of size n / 2 at most."""

    def __init__(self, body: Body, n: Expr) -> None:
        self.body, self.n = body, n
        self.inverse = body.let("inverse", 1.0 / n)

    def reduced(self, value: Expr) -> Expr:
        """An integer of size 2⁵³ at most."""
        value = self.body.let("residue", value)
        return self.body.let("residue", fma(-(value * self.inverse).round(), self.n, value))

    def product(self, a: Expr, b: Expr) -> Expr:
        """Of the rounded product, at most n² / 4, a quotient off by 1 at most is taken away, so that what is left
        is an integer of size n at most; then what the rounding lost, at most 2⁵⁰, is added."""
        high = self.body.let("high", a * b)
        low = self.body.let("low", fma(a, b, -high))
        left = fma(-(high * self.inverse).round(), self.n, high)
        return self.reduced(self.reduced(left) + low)


def _significand(body: Body, a: Expr) -> tuple[Expr, Expr]:
    """m and e of a = m 2ᵉ, m an integer of 53 digits, for a finite a > 0."""
    tiny = body.let("tiny", a < TINY)
    bits = body.let("bits", select(tiny, a * 2.0**64, a).bits(I64))
    m = ((bits & ((1 << DIGITS) - 1)) | ((BIAS + DIGITS) << DIGITS)).bits(F64)
    e = (bits >> DIGITS) - select(tiny, bits.constant(BIAS + DIGITS + 64), BIAS + DIGITS)
    return body.let("m", m), body.let("e", e)


def _power_of_two(n: Expr) -> Expr:
    return ((n + BIAS) << DIGITS).bits(F64)


def _rest_f64(body: Body, a: Expr, b: Expr) -> Expr:
    """a modulo b, for a ≥ 0 and b > 0 that are finite; else NaN, or a where it is smaller."""
    m, of_a = _significand(body, a)
    n, of_b = _significand(body, b)
    k = body.let("k", of_a - of_b)
    modulo = _Residues(body, n)
    power = body.let("power", _power_of_two(k >> 6))  # k is below 2¹², so that this is below 2³³
    for bit in reversed(range(6)):
        square = modulo.product(power, power)
        power = modulo.reduced(select((k & (1 << bit)).ne(0), square + square, square))
    rest = modulo.product(modulo.reduced(modulo.reduced(m)), power)
    rest = body.let("positive", select(rest < 0.0, rest + n, rest))
    # by two powers: the exponent of b may be less than that of the least normal number
    half = body.let("half", of_b >> 1)
    rest = rest * _power_of_two(half) * _power_of_two(of_b - half)
    ordinary = (a < inf) & (b > 0.0)
    return select(a < b, a, select(ordinary, rest, (a * b) / (a * b) - (a - a)))


# -- both --------------------------------------------------------------------------------------------------
def fmod(body: Body, x: Expr, y: Expr) -> Expr:
    """x less y times the quotient rounded towards 0: exact, of the sign of x."""
    p = precision.of(x.dtype)
    if x.dtype == F32:
        rest = _divided_f32(body, x, y)[1].convert(F32)
    else:
        rest = _rest_f64(body, body.let("a", x.abs()), body.let("b", y.abs()))
    return with_sign(rest.abs(), x, p)


def _are_apart(x: Expr, y: Expr) -> Expr:
    """Whether two numbers have different signs."""
    signed = precision.of(x.dtype).signed
    return (x.bits(signed) ^ y.bits(signed)) < 0


def floor_mod(body: Body, x: Expr, y: Expr) -> Expr:
    """x less y times the quotient rounded down, rounded once: of the sign of y, or 0."""
    rest = body.let("fmod", fmod(body, x, y))
    return select(rest.ne(0.0) & _are_apart(x, y), rest + y, rest)


def floor_div(body: Body, x: Expr, y: Expr) -> Expr:
    """The quotient rounded down; x / y where y is 0.

    For f64 it is (x - fmod(x, y)) / y, rounded to the integer that it is nearly."""
    if x.dtype == F32:
        parts, rest = _divided_f32(body, x, y)
        rest, whole = body.let("left", rest), parts[0]
        for part in parts[1:]:
            whole = whole + part
        whole = body.let("whole", whole)
        apart = body.let("apart", _are_apart(x, y))
        size = body.let("size", select(apart & rest.ne(0.0), whole + 1.0, whole))
        number = select(rest.eq(rest), select(apart, -size, size), rest).convert(F32)
        return select(y.eq(0.0), x / y, number)
    rest = body.let("fmod", fmod(body, x, y))
    near = body.let("near", (x - rest) / y)
    near = body.let("below", select(rest.ne(0.0) & _are_apart(x, y), near - 1.0, near))
    down = body.let("down", near.floor())
    down = select((near - down) > 0.5, down + 1.0, down)
    plain = body.let("plain", x / y)
    zero = with_sign(plain.constant(0.0), plain, precision.of(x.dtype))
    return select(y.eq(0.0), plain, select(near.eq(0.0), zero, down))
