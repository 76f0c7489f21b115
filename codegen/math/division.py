"""Quotients and rests of integers, rounded down, by any number but 0. In unsigned arithmetic nothing overflows or
traps; the smallest number by -1 wraps around."""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.notation import Body, select
from dojoir.ir.dtypes import DTYPES, DType


def division(op: str, dtype: DType, lanes: int) -> lir.Function:
    """`floordiv` or `mod` of two numbers of a signed type; the second is not 0."""
    body = Body(lanes)
    a, b = body.param("a", dtype), body.param("b", dtype)
    unsigned = DTYPES[f"u{dtype.bits}"]
    whole, by = body.let("whole", a.abs().bits(unsigned)), body.let("by", b.abs().bits(unsigned))
    quotient = body.let("quotient", whole / by)
    rest = body.let("rest", whole - quotient * by)
    apart = body.let("apart", (a ^ b) < 0)
    if op == "floordiv":
        up = select(rest.ne(0), quotient + 1, quotient)
        result = select(apart, -up.bits(dtype), quotient.bits(dtype))
        comment = "a / b rounded down, for b other than 0; wraps around"
    else:
        lifted = body.let("lifted", select(apart, select(rest.ne(0), by - rest, rest), rest).bits(dtype))
        result = select(b < 0, -lifted, lifted)
        comment = "a modulo b, of the sign of b, for b other than 0"
    return body.function(f"{_NAMES[op]}_{lir.Type(dtype, lanes)}", result, comment)


_NAMES = {"floordiv": "floor_quotient", "mod": "floor_rest"}
