"""exp, exp2 and what is made of them: sinh, cosh, tanh, erf, erfc, expm1, sigmoid; on f32 or f64 lanes, in their
own arithmetic.

Each writes its formula into a `Body`. There are no branches and no tables: special cases are selected.
"""

from __future__ import annotations

from dojoir.codegen.lir.notation import Body, Expr, fma, horner, select
from dojoir.codegen.math import precision
from dojoir.codegen.math.precision import Precision


def with_sign(magnitude: Expr, x: Expr, p: Precision) -> Expr:
    """`magnitude`, whose sign bit is clear, with the sign of x."""
    return (magnitude.bits(p.unsigned) | (x.bits(p.unsigned) & p.sign)).bits(p.dtype)


def reduce(body: Body, x: Expr, bias: int, p: Precision, sign: int = 1) -> tuple[Expr, Expr]:
    """r and k = n + bias, where x = ±n ln 2 + r, with `sign`, and |r| ≤ ln 2 / 2 (Cody and Waite). Only the low
    bits of k count: it is to be shifted into the place of the exponent."""
    t = body.let("t", fma(x, sign * p.log2_e, p.shifter + bias))
    n = body.let("n", t - (p.shifter + bias))
    r = fma(n, -sign * p.ln2_low, fma(n, -sign * p.ln2_high, x))
    return body.let("r", r), body.let("k", t.bits(p.unsigned))


def power_of_two(k: Expr, p: Precision) -> Expr:
    """2**n where k is n + the bias of the type, for a normal result."""
    return (k << p.digits).bits(p.dtype)


def scale(body: Body, value: Expr, k: Expr, p: Precision) -> Expr:
    """`2**n * value` for a value near 1, where k is what `reduce` gives for twice the bias. In one instruction, or
    by two factors, so that either way a subnormal result is rounded once and overflow gives inf."""
    if body.has_ldexp(value.type):
        return value.ldexp(k.bits(p.dtype) - (p.shifter + 2 * p.bias))
    first = body.let("first", (k >> 1) << p.digits)
    second = (k << p.digits) - first
    return value * first.bits(p.dtype) * second.bits(p.dtype)


def exp(body: Body, x: Expr) -> Expr:
    """eˣ = 2ⁿ eʳ, with a polynomial of degree 6 (f64: 12) for eʳ."""
    p = precision.of(x.dtype)
    x = body.let("clamped", x.at_least(p.exp_zero).at_most(p.exp_inf))
    r, k = reduce(body, x, 2 * p.bias, p)
    return scale(body, body.let("power", horner(r, (1.0, 1.0, *p.exp))), k, p)


def exp2(body: Body, x: Expr) -> Expr:
    """2ˣ = 2ⁿ 2ʳ, with a polynomial of degree 6 (f64: 12) for 2ʳ."""
    p = precision.of(x.dtype)
    x = body.let("clamped", x.at_least(p.exp2_zero).at_most(p.exp2_inf))
    t = body.let("t", x + (p.shifter + 2 * p.bias))
    r = body.let("r", x - (t - (p.shifter + 2 * p.bias)))
    power = body.let("power", horner(r, (1.0, p.ln2, *p.exp2)))
    return scale(body, power, body.let("k", t.bits(p.unsigned)), p)


def tanh(body: Body, x: Expr) -> Expr:
    """x + x³ q(x²) below 0.8, 1 - 2 / (exp(2 |x|) + 1) above, and the sign of x."""
    p = precision.of(x.dtype)
    a = body.let("a", x.abs())
    square = body.let("square", x * x)
    small = body.let("small", fma(a * square, horner(square, p.tanh), a))
    r, k = reduce(body, body.let("twice", (a * 2.0).at_most(2 * p.tanh_one)), p.bias, p)
    power = horner(r, (1.0, 1.0, *p.exp)) * power_of_two(k, p)
    large = 1.0 - 2.0 / (power + 1.0)
    return with_sign(select(a < 0.8, small, large), x, p)


def erf(body: Body, x: Expr) -> Expr:
    """x + x q(x²) below 1, 1 - q(|x|)⁴ above, where the second q fits the fourth root of 1 - erf; the sign of x.
    The higher the root, the lower the degree that it needs, and the more of its rounding comes through."""
    p = precision.of(x.dtype)
    a = body.let("a", x.abs())
    square = body.let("square", x * x)
    small = body.let("small", fma(a, horner(square, p.erf_small), a))
    shifted = body.let("shifted", a.at_most(p.erf_one) - p.erf_middle)
    root = body.let("root", horner(shifted, p.erf_root))
    square_root = body.let("square_root", root * root)
    return with_sign(select(a < 1.0, small, fma(-square_root, square_root, 1.0)), x, p)


def erfc(body: Body, x: Expr) -> Expr:
    """exp(-x²) q((a - m) / (a + m)) / (1 + 2 a) with a = |x| from ⅝ on, what the rounded square lacks put into the
    exponential, and 2 less that for a negative x; 1 - x - x q(x²) below."""
    p = precision.of(x.dtype)
    small = body.let("small", fma(-x, horner(body.let("inner", x * x), p.erf_small), 1.0 - x))
    a = body.let("a", x.abs().at_most(p.erfc_zero))
    square = body.let("square", a * a)
    r, k = reduce(body, square, 2 * p.bias, p, sign=-1)
    falling = tuple(c if n % 2 == 0 else -c for n, c in enumerate((1.0, 1.0, *p.exp)))
    power = horner(body.let("exponent", r + fma(a, a, -square)), falling)
    t = body.let("t", (a - p.erfc_middle) / (a + p.erfc_middle))
    factor = horner(t, p.erfc) / fma(a, 2.0, a.constant(1.0))
    tail = body.let("tail", scale(body, body.let("product", power * factor), k, p))
    return select(x.abs() < 0.625, small, select(x < 0.0, 2.0 - tail, tail))


def _half_exp(body: Body, a: Expr, p: Precision) -> Expr:
    """Half of eᵃ for a ≥ 0, which overflows when sinh and cosh do."""
    r, k = reduce(body, body.let("clamped", a.at_most(p.exp_inf + 1.0)), 2 * p.bias - 1, p)
    return body.let("half", scale(body, body.let("power", horner(r, (1.0, 1.0, *p.exp))), k, p))


def sinh(body: Body, x: Expr) -> Expr:
    """x + x³ q(x²) below 1, h - ¼ / h with h = exp(|x|) / 2 above; the sign of x."""
    p = precision.of(x.dtype)
    a = body.let("a", x.abs())
    square = body.let("square", x * x)
    small = body.let("small", fma(a * square, horner(square, p.sinh), a))
    half = _half_exp(body, a, p)
    return with_sign(select(a < 1.0, small, half - 0.25 / half), x, p)


def cosh(body: Body, x: Expr) -> Expr:
    """h + ¼ / h with h = exp(|x|) / 2."""
    half = _half_exp(body, x.abs(), precision.of(x.dtype))
    return half + 0.25 / half


def expm1(body: Body, x: Expr) -> Expr:
    """eʳ - 1 = r + r² q(r) where |x| is below 0.34, so that n is 0; else 2 (2ⁿ⁻¹ (eʳ - 1) + (2ⁿ⁻¹ - ½)), which does
    not overflow before its time; the sign of x."""
    p = precision.of(x.dtype)
    a = body.let("a", x.abs())
    clamped = body.let("clamped", x.at_least(-2 * p.tanh_one).at_most(p.exp_inf))
    r, k = reduce(body, clamped, p.bias - 1, p)
    small = body.let("small", fma(r * r, horner(r, p.exp), r))
    half = body.let("half", power_of_two(k, p))
    large = fma(half, small, half - 0.5) * 2.0
    return with_sign(select(a < 0.34, small, large).abs(), x, p)


def sigmoid(body: Body, x: Expr) -> Expr:
    """1 - y from 0 on, z - z y below, with z = exp(-|x|) and y = z / (1 + z): the error of the quotient counts
    only for as much as it is taken from."""
    p = precision.of(x.dtype)
    r, k = reduce(body, body.let("a", x.abs().at_most(-p.exp_zero)), 2 * p.bias, p, sign=-1)
    falling = tuple(c if n % 2 == 0 else -c for n, c in enumerate((1.0, 1.0, *p.exp)))
    z = body.let("z", scale(body, body.let("power", horner(r, falling)), k, p))
    most = body.let("most", select(x.bits(p.signed) < 0, z, 1.0))
    return fma(-most, z / (z + 1.0), most)
