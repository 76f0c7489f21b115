"""Functions of one f32 from the special-function unit of a GPU, for kernels under `fp fast`.

`approx_exp2` (`ex2.approx.ftz.f32`, `v_exp_f32`) and `approx_rsqrt` (`rsqrt.approx.ftz.f32`, `v_rsq_f32`) are right
to 2 units in the last place, as the makers of the hardware say, with subnormal arguments and results as 0, and have
the special values of the functions. What is made of them here adds its own error to that.
"""

from __future__ import annotations

from dojoir.codegen.lir.notation import Body, Expr, fma
from dojoir.codegen.math.precision import SINGLE as P


def exp2(_: Body, x: Expr) -> Expr:
    """The instruction."""
    return x.approx_exp2()


def rsqrt(_: Body, x: Expr) -> Expr:
    """The instruction."""
    return x.approx_rsqrt()


def exp(body: Body, x: Expr) -> Expr:
    """2ᵗ (1 + s ln 2) where t + s = x log₂e and s is what the rounded t leaves of it, 9e-6 at most: without it the
    error would grow with |x| to 60 ulp. At the ends x is clamped, so that s is a number, and 2ᵗ is 0 or inf."""
    clamped = body.let("clamped", x.at_least(-104.0).at_most(89.0))
    t = body.let("t", clamped * P.log2_e)
    s = fma(clamped, P.log2_e_rest, fma(clamped, P.log2_e, -t))
    return t.approx_exp2() * fma(s, P.ln2, 1.0)
