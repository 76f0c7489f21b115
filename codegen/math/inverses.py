"""asin, acos, asinh, acosh and atanh, hypot, copysign, on f32 or f64 lanes; written as in
`codegen.exponentials`."""

from __future__ import annotations

from math import inf, nan

from dojoir.codegen.lir.notation import F32, F64, Body, Expr, fma, horner, select
from dojoir.codegen.math import precision
from dojoir.codegen.math.exponentials import with_sign
from dojoir.codegen.math.logarithms import natural, split
from dojoir.codegen.math.powers import LOG2_F32
from dojoir.codegen.math.precision import DOUBLE


def _arc(body: Body, x: Expr) -> tuple[Expr, Expr]:
    """asin |x| where |x| is below ½, and asin √((1 - |x|) / 2) where it is above: half of what is left to π/2."""
    p = precision.of(x.dtype)
    a = body.let("a", x.abs())
    far = body.let("far", a > 0.5)
    square = body.let("square", select(far, fma(a, -0.5, a.constant(0.5)), a * a))
    z = body.let("z", select(far, square.sqrt(), a))
    return body.let("arc", fma(z * square, horner(square, p.asin), z)), far


def asin(body: Body, x: Expr) -> Expr:
    """x + x³ q(x²) below ½, π/2 - 2 asin √((1 - x) / 2) above; the sign of x."""
    p = precision.of(x.dtype)
    arc, far = _arc(body, x)
    return with_sign(select(far, p.half_pi - fma(arc, 2.0, arc.constant(-p.half_pi_rest)), arc).abs(), x, p)


def acos(body: Body, x: Expr) -> Expr:
    """π/2 - asin x below ½, 2 asin √((1 - |x|) / 2) above, or π less that where x is negative."""
    p = precision.of(x.dtype)
    arc, far = _arc(body, x)
    negative = body.let("negative", x < 0.0)
    near = p.half_pi - (select(negative, -arc, arc) - p.half_pi_rest)
    twice = body.let("twice", arc * 2.0)
    return select(far, select(negative, 2 * p.half_pi - (twice - 2 * p.half_pi_rest), twice), near)


def _log1p_f64(body: Body, t: Expr) -> Expr:
    """ln(1 + t) in f64 to 37 digits, for t > -1 that is 0 or no less than the least f32."""
    u = body.let("u", t + 1.0)
    whole = body.let("whole", u - 1.0)
    rest = body.let("rest", ((1.0 - (u - whole)) + (t - whole)) / u)
    k, f = split(body, u, DOUBLE, subnormals=False)
    z = body.let("z", f / (f + 2.0))
    return fma(k, DOUBLE.ln2, fma(z * DOUBLE.ln2, horner(z * z, LOG2_F32), rest))


def _log1p_of_sum(body: Body, t: Expr, rest: Expr) -> Expr:
    """ln(1 + t + rest), with a small rest of t > -1."""
    p = precision.of(t.dtype)
    u = body.let("u", t + 1.0)
    whole = body.let("whole", u - 1.0)
    lost = body.let("lost", ((1.0 - (u - whole)) + (t - whole)) + rest)
    high, low = natural(body, *split(body, u, p, subnormals=False), p, lost / u)
    return high + low


def _less_one(body: Body, large: Expr, a: Expr, t: Expr, rest: Expr) -> tuple[Expr, Expr]:
    """a - 1 and what its rounding lost where a is large, else t and its rest."""
    less = body.let("less", a - 1.0)
    return body.let("of_log", select(large, less, t)), body.let(
        "of_log_rest", select(large, (a - less) - 1.0, rest)
    )


def asinh(body: Body, x: Expr) -> Expr:
    """ln(1 + t) with t = a + a² / (1 + √(1 + a²)), a = |x|; the sign of x. From 2³⁰ on ln a + ln 2."""
    p = precision.of(x.dtype)
    if x.dtype == F32:
        a = body.let("a", x.abs().convert(F64))
        square = body.let("square", a * a)
        t = body.let("t", a + square / ((square + 1.0).sqrt() + 1.0))
        y = select(a < inf, _log1p_f64(body, t), a)
        return with_sign(select(a < 1e-8, a, y).convert(F32).abs(), x, p)
    a = body.let("a", x.abs())
    large = body.let("large", a > 2.0**30)
    near = body.let("near", select(large, 1.0, a))
    square = body.let("square", near * near)
    under = body.let("under", (square + 1.0).sqrt() + 1.0)
    part = body.let("part", square / under)
    t = body.let("t", near + part)
    lost = (near - t) + part
    # what the quotient lacks: the square is rounded, and so are the root and the sum below the line
    exact = fma(near, near, -square) + fma(-part, under, square)
    t, lost = _less_one(body, large, a, t, lost + exact / under)
    y = body.let("y", _log1p_of_sum(body, t, lost))
    y = select(large, y + p.ln2, y)
    return with_sign(select(a < 2.0**-28, a, select(a < inf, y, a)).abs(), x, p)


def acosh(body: Body, x: Expr) -> Expr:
    """ln(1 + t) with s = x - 1, t = s + √(s (s + 2)); NaN below 1. From 2³⁰ on ln x + ln 2."""
    p = precision.of(x.dtype)
    if x.dtype == F32:
        s = body.let("s", x.convert(F64) - 1.0)
        y = _log1p_f64(body, body.let("t", s + (s * (s + 2.0)).sqrt()))
        return select(x >= 1.0, select(x < inf, y.convert(F32), x), x.constant(nan))
    large = body.let("large", x > 2.0**30)
    s = body.let("s", select(large, 1.0, x) - 1.0)
    square = body.let("square", fma(s, s, s * 2.0))
    root = body.let("root", square.sqrt())
    t = body.let("t", s + root)
    lost = body.let("sum_rest", select(s > root, (s - t) + root, (root - t) + s))
    t, lost = _less_one(body, large, x, t, lost)
    y = body.let("y", _log1p_of_sum(body, t, lost))
    y = select(large, y + p.ln2, y)
    return select(x >= 1.0, select(x < inf, y, x), x.constant(nan))


def atanh(body: Body, x: Expr) -> Expr:
    """½ ln(1 + t) with t = 2 a / (1 - a), a = |x|; the sign of x; NaN above 1."""
    p = precision.of(x.dtype)
    if x.dtype == F32:
        a = body.let("a", x.abs().convert(F64))
        y = _log1p_f64(body, body.let("t", (a * 2.0) / (1.0 - a))) * 0.5
        y = select(a < 1.0, select(a < 1e-8, a, y), select(a.eq(1.0), a.constant(inf), nan))
        return with_sign(y.convert(F32).abs(), x, p)
    a = body.let("a", x.abs())
    under = body.let("under", 1.0 - a)
    t = body.let("t", (a * 2.0) / under)
    below = (1.0 - under) - a
    rest = fma(-t, under, a * 2.0) - t * below
    y = _log1p_of_sum(body, t, body.let("t_rest", rest / under)) * 0.5
    y = select(a < 1.0, select(a < 2.0**-28, a, y), select(a.eq(1.0), a.constant(inf), nan))
    return with_sign(y.abs(), x, p)


def hypot(body: Body, x: Expr, y: Expr) -> Expr:
    """√(x² + y²), which overflows and vanishes only where the result does; inf where one is infinite."""
    a, b = body.let("a", x.abs()), body.let("b", y.abs())
    if x.dtype == F32:
        p, q = body.let("p", a.convert(F64)), body.let("q", b.convert(F64))
        root = fma(p, p, q * q).sqrt().convert(F32)
    else:
        high = body.let("high", select(a > b, a, b))
        huge, tiny = body.let("huge", high > 2.0**500), body.let("tiny", high < 2.0**-500)
        up = body.let("up", select(huge, a.constant(2.0**-600), select(tiny, a.constant(2.0**600), 1.0)))
        p, q = body.let("p", high * up), body.let("q", select(a > b, b, a) * up)
        down = select(huge, a.constant(2.0**600), select(tiny, a.constant(2.0**-600), 1.0))
        root = fma(p, p, q * q).sqrt() * down
    return select(a.eq(inf) | b.eq(inf), a.constant(inf), root)


def copysign(_: Body, x: Expr, y: Expr) -> Expr:
    """|x| with the sign of y."""
    return with_sign(x.abs(), y, precision.of(x.dtype))
