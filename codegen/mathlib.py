"""Elementary functions and storage conversions as LIR functions: one body for all targets and lane counts.

They use exactly defined LIR operations only, fma among them, each rounded once: a function gives the same bits on
every target. `function` gives exp and its like, `decode` and `encode` convert narrow floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dojoir.codegen import exponentials, fast, lir, logarithms, powers, trigonometry
from dojoir.codegen.builder import F32, Body, Expr
from dojoir.codegen.storage import decode, encode

__all__ = ["FAST", "FUNCTIONS", "decode", "encode", "function"]

Formula = Callable[[Body, Expr], Expr]

FUNCTIONS: Mapping[str, Formula] = {
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "log": logarithms.log,
    "log2": logarithms.log2,
    "tanh": exponentials.tanh,
    "erf": exponentials.erf,
    "sigmoid": exponentials.sigmoid,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "rsqrt": logarithms.rsqrt,
}
"""The functions of one argument, on f32 and f64. Their largest errors stand in `benchmarks/accuracy.py`."""

FAST: Mapping[str, Formula] = {"exp": fast.exp, "log": fast.log, "tanh": fast.tanh, "sigmoid": fast.sigmoid}
"""The cheaper ones for f32: within 4 ulp where argument and result are normal numbers."""


def function(name: str, type: lir.Type, fast: bool = False) -> lir.Function:
    """The elementary function `name` (one of `FUNCTIONS`, or pow with two arguments) on f32 or f64 lanes.

    It calls no other and is named like `exp_f32x16`. `fast` gives the cheaper one (`exp_fast_f32x16`) where there
    is one, and else the same as without.
    """
    body = Body(type.lanes)
    x = body.param("x", type.dtype)
    if name == "pow":
        return body.function(f"pow_{type}", powers.pow(body, x, body.param("y", type.dtype)))
    if fast and type.dtype == F32 and name in FAST:
        return body.function(f"{name}_fast_{type}", FAST[name](body, x))
    return body.function(f"{name}_{type}", FUNCTIONS[name](body, x))
