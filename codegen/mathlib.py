"""Elementary functions and storage conversions as LIR functions, one body for all targets and lane counts.

Only exactly defined LIR operations are used (each rounded once, fma included), so that a function gives the
same bits on every target. `function` gives exp and its like, `codegen.storage` the conversions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dojoir.codegen import lir, math_f32
from dojoir.codegen.builder import F32, Body, Expr
from dojoir.codegen.storage import decode, encode

__all__ = ["decode", "encode", "function"]

Formula = Callable[[Body, Expr], Expr]

F32_FUNCTIONS: Mapping[str, Formula] = {
    "exp": math_f32.exp,
    "log": math_f32.log,
    "log2": math_f32.log2,
    "exp2": math_f32.exp2,
    "tanh": math_f32.tanh,
    "erf": math_f32.erf,
    "sigmoid": math_f32.sigmoid,
    "rsqrt": math_f32.rsqrt,
}

F32_FAST: Mapping[str, Formula] = {"exp": math_f32.exp_fast, "log": math_f32.log_fast}


def function(name: str, type: lir.Type, fast: bool = False) -> lir.Function:
    """The elementary function `name` (exp, log, …) on lanes of `type`, self-contained, called like `exp_f32x16`.

    `fast` allows a cheaper one (called `exp_fast_f32x16`) where there is one; where there is none, the exact one
    is returned.
    """
    cheaper = fast and type.dtype == F32 and name in F32_FAST
    formula = (F32_FAST if cheaper else F32_FUNCTIONS)[name]
    body = Body(type.lanes)
    result = formula(body, body.param("x", type.dtype))
    return body.function(f"{name}_fast_{type}" if cheaper else f"{name}_{type}", result)
