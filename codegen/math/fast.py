"""Cheaper functions on f32 lanes, for kernels under `fp fast`: at most 4 ulp, and subnormals count as 0.

Written as in `codegen.exponentials`.
"""

from __future__ import annotations

from dojoir.codegen.lir.notation import Body, Expr, fma, horner
from dojoir.codegen.math.exponentials import power_of_two, reduce, with_sign
from dojoir.codegen.math.logarithms import ends, split
from dojoir.codegen.math.precision import SINGLE as P

EXP = (1.0, 1.0, 0.499992311000824, 0.16667114198207855, 0.04189034178853035, 0.008312554098665714)
EXPM1 = (0.4999999701976776, 0.1666654348373413, 0.04166720062494278, 0.008366549387574196, 0.0013882481725886464)
LOG = (
    -0.5000032186508179, 0.3333471417427063, -0.2497120201587677, 0.19906949996948242, -0.17243701219558716,
    0.16179974377155304, -0.10079847276210785,
)  # fmt: skip


def exp(body: Body, x: Expr) -> Expr:
    """eˣ with a polynomial of degree 5. inf begins at 88.38 instead of 88.73."""
    r, k = reduce(body, body.let("clamped", x.at_least(-88.0).at_most(89.0)), P.bias, P)
    return horner(r, EXP) * power_of_two(k, P)


def log(body: Body, x: Expr) -> Expr:
    """ln x with a polynomial of degree 8, and no second word for the sum."""
    k, f = split(body, x, P, subnormals=False)
    q = body.let("q", horner(f, LOG))
    return ends(x, fma(k, P.ln2, fma(f * f, q, f)), P.largest_subnormal)


def tanh(body: Body, x: Expr) -> Expr:
    """t / (t + 2) with t = exp(2 |x|) - 1, and the sign of x."""
    r, k = reduce(body, body.let("twice", (x.abs() * 2.0).at_most(2 * P.tanh_one)), P.bias, P)
    power = body.let("power", power_of_two(k, P))
    t = body.let("expm1", fma(power, fma(r * r, horner(r, EXPM1), r), power - 1.0))
    return with_sign(t / (t + 2.0), x, P)


def sigmoid(body: Body, x: Expr) -> Expr:
    """1 / (1 + exp(-x)), with the fast exp."""
    return 1.0 / (exp(body, -x) + 1.0)
