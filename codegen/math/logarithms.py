"""log, log1p, log2, log10 and rsqrt on f32 or f64 lanes, in their own arithmetic; written as in
`codegen.exponentials`."""

from __future__ import annotations

from math import inf, nan

from dojoir.codegen.lir.notation import Body, Expr, fma, horner, select
from dojoir.codegen.math import precision
from dojoir.codegen.math.precision import Precision


def split(body: Body, x: Expr, p: Precision, subnormals: bool) -> tuple[Expr, Expr]:
    """k and f, where x = 2ᵏ (1 + f) and 1 + f is between √½ and √2, for a positive finite x: a normal number
    unless `subnormals`."""
    bits = x.bits(p.signed)
    if subnormals:
        tiny = body.let("tiny", x < p.smallest_normal)
        bits = select(tiny, x * 2.0**p.digits, x).bits(p.signed)
    bits = body.let("bits", bits)
    e = body.let("e", (bits - p.sqrt_half) >> p.digits)
    k = e.convert(p.dtype)
    if subnormals:
        k = k - select(tiny, x.constant(p.digits), 0.0)
    f = (bits - (e << p.digits)).bits(p.dtype) - 1.0
    return body.let("exponent", k), body.let("f", f)


def ends(x: Expr, y: Expr, zero: float = 0.0) -> Expr:
    """y, but what a logarithm is at 0, inf, NaN and below 0. Numbers up to `zero` in size count as 0."""
    special = select(x < -zero, x.constant(nan), select(x <= zero, x.constant(-inf), x))
    return select(x > zero, select(x < inf, y, x), special)


def natural(body: Body, k: Expr, f: Expr, p: Precision, rest: Expr | None = None) -> tuple[Expr, Expr]:
    """k ln 2 + ln(1 + f), and a small rest, as a sum of two numbers: f + f² q(f) for the second, q of degree 8
    (f64: 21)."""
    square, q = f * f, horner(f, p.log)
    correction = body.let("correction", square * q if rest is None else fma(square, q, rest))
    high = body.let("high", fma(k, p.ln2_high, f))
    return high, (fma(k, p.ln2_high, -high) + f) + fma(k, p.ln2_low, correction)


def log(body: Body, x: Expr) -> Expr:
    """k ln 2 + ln(1 + f)."""
    p = precision.of(x.dtype)
    high, low = natural(body, *split(body, x, p, subnormals=True), p)
    return ends(x, high + low)


def log1p(body: Body, x: Expr) -> Expr:
    """ln u + rest / u, with u the rounded 1 + x and `rest` what that lacks; x where it is too small to tell."""
    p = precision.of(x.dtype)
    u = body.let("u", x + 1.0)
    whole = body.let("whole", u - 1.0)
    rest = body.let("rest", (1.0 - (u - whole)) + (x - whole))
    high, low = natural(body, *split(body, u, p, subnormals=False), p, rest / u)
    y = ends(u, high + low)
    return select(x.abs() < 2.0 ** -(p.digits + 1), x, y)


def log2(body: Body, x: Expr) -> Expr:
    """k + log₂(1 + f), with f log₂e + f² q(f) for the second, q of degree 8 (f64: 21)."""
    p = precision.of(x.dtype)
    k, f = split(body, x, p, subnormals=True)
    rest = body.let("rest", fma(f, p.log2_e_rest, f * f * horner(f, p.log2)))
    return ends(x, k + fma(f, p.log2_e, rest))


def log10(body: Body, x: Expr) -> Expr:
    """k log₁₀2 + log₁₀(1 + f): the natural logarithm as a sum of two numbers, times log₁₀e in two."""
    p = precision.of(x.dtype)
    high, low = natural(body, *split(body, x, p, subnormals=True), p)
    rest = body.let("rest", low)
    total = body.let("total", high + rest)
    lost = (high - total) + rest
    product = body.let("product", total * p.log10_e)
    return ends(x, product + (fma(total, p.log10_e, -product) + fma(total, p.log10_e_rest, lost * p.log10_e)))


def rsqrt(_: Body, x: Expr) -> Expr:
    """1 / √x, the two operations each rounded."""
    return 1.0 / x.sqrt()
