"""log, log2 and rsqrt on f32 or f64 lanes, in the arithmetic of the type; written as in `codegen.exponentials`."""

from __future__ import annotations

from math import inf, nan

from dojoir.codegen import precision
from dojoir.codegen.builder import Body, Expr, fma, horner, select
from dojoir.codegen.precision import Precision


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


def log(body: Body, x: Expr) -> Expr:
    """k ln 2 + ln(1 + f), with f + f² q(f) for the second, q of degree 8 (f64: 21)."""
    p = precision.of(x.dtype)
    k, f = split(body, x, p, subnormals=True)
    correction = body.let("correction", f * f * horner(f, p.log))
    high = body.let("high", fma(k, p.ln2_high, f))
    low = fma(k, p.ln2_high, -high) + f
    return ends(x, high + (low + fma(k, p.ln2_low, correction)))


def log2(body: Body, x: Expr) -> Expr:
    """k + log₂(1 + f), with f log₂e + f² q(f) for the second, q of degree 8 (f64: 21)."""
    p = precision.of(x.dtype)
    k, f = split(body, x, p, subnormals=True)
    rest = body.let("rest", fma(f, p.log2_e_rest, f * f * horner(f, p.log2)))
    return ends(x, k + fma(f, p.log2_e, rest))


def rsqrt(_: Body, x: Expr) -> Expr:
    """1 / √x, the two operations each rounded."""
    return 1.0 / x.sqrt()
