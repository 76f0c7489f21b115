"""Elementary functions and storage conversions as LIR functions: one body for all targets and lane counts.

They use exactly defined LIR operations only, fma among them, each rounded once: a function gives the same bits on
every target. `function` gives exp and its like, `decode` and `encode` convert narrow floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.notation import F32, F64, Body, Expr
from dojoir.codegen.math import exponentials, hardware, inverses, logarithms, powers, quotients, trigonometry
from dojoir.codegen.math import fast as cheaper
from dojoir.codegen.math.narrow_floats import decode, encode
from dojoir.ir.dtypes import DType
from dojoir.support.frozen import dataclass

__all__ = ["FAST", "FUNCTIONS", "HARDWARE", "OF_TWO", "Elementary", "decode", "encode", "function"]


@dataclass(frozen=True)
class Elementary:
    """A function: `write` puts its formula on some arguments into a body; `ulp` bounds its error in each type, in
    units in the last place of the true result; 0 is exact or rounded once. For f32 the bound holds for all
    arguments, for f64 and for two arguments it was not passed by any of a large sample
    (`benchmarks/accuracy.py`)."""

    write: Callable[..., Expr]
    ulp: Mapping[DType, float]


def _both(write: Callable[..., Expr], f32: float, f64: float) -> Elementary:
    return Elementary(write, {F32: f32, F64: f64})


FUNCTIONS: Mapping[str, Elementary] = {
    "exp": _both(exponentials.exp, 0.9, 0.9),
    "exp2": _both(exponentials.exp2, 0.9, 0.9),
    "log": _both(logarithms.log, 0.9, 0.9),
    "log2": _both(logarithms.log2, 1.05, 1.05),
    "tanh": _both(exponentials.tanh, 1.05, 1.05),
    "erf": _both(exponentials.erf, 1.9, 1.4),
    "sigmoid": _both(exponentials.sigmoid, 1.65, 1.6),
    "sin": _both(trigonometry.sin, 0.52, 1.5),
    "cos": _both(trigonometry.cos, 0.52, 1.5),
    "tan": _both(trigonometry.tan, 0.6, 2.0),
    "atan": _both(trigonometry.atan, 1.9, 1.9),
    "expm1": _both(exponentials.expm1, 1.9, 1.9),
    "log1p": _both(logarithms.log1p, 1.9, 1.9),
    "rsqrt": _both(logarithms.rsqrt, 1.5, 1.5),
    "log10": _both(logarithms.log10, 0.9, 0.9),
    "erfc": _both(exponentials.erfc, 4.0, 4.0),
    "sinh": _both(exponentials.sinh, 1.7, 1.7),
    "cosh": _both(exponentials.cosh, 1.5, 1.5),
    "asin": _both(inverses.asin, 2.4, 2.4),
    "acos": _both(inverses.acos, 1.2, 1.2),
    "asinh": _both(inverses.asinh, 0.6, 1.5),
    "acosh": _both(inverses.acosh, 0.6, 1.5),
    "atanh": _both(inverses.atanh, 0.6, 1.2),
}
"""The functions of one argument, on f32 and f64, subnormal arguments and results included."""

OF_TWO: Mapping[str, Elementary] = {
    "pow": _both(powers.pow, 0.52, 1.4),
    "atan2": _both(trigonometry.atan2, 2.0, 2.0),
    "hypot": _both(inverses.hypot, 0.52, 1.1),
    "fmod": _both(quotients.fmod, 0.0, 0.0),
    "floor_mod": _both(quotients.floor_mod, 0.0, 0.0),
    "floor_div": _both(quotients.floor_div, 0.6, 1.5),
    "copysign": _both(inverses.copysign, 0.0, 0.0),
}
"""The functions of two arguments."""

FAST: Mapping[str, Elementary] = {
    "exp": Elementary(cheaper.exp, {F32: 2.3}),
    "log": Elementary(cheaper.log, {F32: 3.5}),
    "tanh": Elementary(cheaper.tanh, {F32: 2.6}),
    "sigmoid": Elementary(cheaper.sigmoid, {F32: 3.6}),
}
"""Cheaper ones; the error where argument and result are normal numbers."""


HARDWARE: Mapping[str, Elementary] = {
    "exp2": Elementary(hardware.exp2, {F32: 4.5}),
    "rsqrt": Elementary(hardware.rsqrt, {F32: 2.5}),
}
"""Those of the hardware of a GPU, under the same condition, one number at a time; what is over 3.8 is so just below
powers of two."""


def function(
    name: str, type: lir.Type, fast: bool = False, scales: bool = False, approximates: bool = False
) -> lir.Function:
    """The elementary function `name` (one of `FUNCTIONS`, or of `OF_TWO` with two arguments) on f32 or f64 lanes.

    It calls no other and is named like `exp_f32x16`. `fast` gives the cheaper one (`exp_fast_f32x16`) where there
    is one, and else the same as without; so does `approximates` with that of the hardware (`exp2_approx_f32`).
    `scales` says that the target has `ldexp`.
    """
    chosen, arguments = (OF_TWO[name], ("x", "y")) if name in OF_TWO else (FUNCTIONS[name], ("x",))
    title = name
    if approximates and name in HARDWARE and type == lir.Type(F32):
        chosen, title = HARDWARE[name], f"{name}_approx"
    elif fast and name in FAST and type.dtype in FAST[name].ulp:
        chosen, title = FAST[name], f"{name}_fast"
    body = Body(type.lanes, scales)
    params = [body.param(p, type.dtype) for p in arguments]
    ulp = chosen.ulp[type.dtype]
    bound = f"within {ulp:g} ulp" if ulp else "rounded once"
    comment = f"{name}({', '.join(arguments)}), {bound}" if len(arguments) > 1 else f"{name} x, {bound}"
    return body.function(f"{title}_{type}", chosen.write(body, *params), comment)
