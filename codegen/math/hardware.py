"""Functions of one f32 from the special-function unit of a GPU, for kernels under `fp fast`.

`approx_exp2` (`ex2.approx.ftz.f32`, `v_exp_f32`) and `approx_rsqrt` (`rsqrt.approx.ftz.f32`, `v_rsq_f32`) are right
to 2 units in the last place, as the makers of the hardware say, with subnormal arguments and results as 0, and have
the special values of the functions. What is made of them here adds its own error to that.
"""

from __future__ import annotations

from dojoir.codegen.lir.notation import Body, Expr


def exp2(_: Body, x: Expr) -> Expr:
    """The instruction."""
    return x.approx_exp2()


def rsqrt(_: Body, x: Expr) -> Expr:
    """The instruction."""
    return x.approx_rsqrt()
