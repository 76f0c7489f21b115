"""The largest of magnitudes, by the integers that their bits are.

Floats without a sign are in the order of their bits, as signed integers, with NaN beyond infinity; -inf, where a
maximum begins, is below them all. So the maximum is that of integers, which every processor has, where that of IEEE
754-2019 takes some eight instructions each time two halves of a vector are combined.
"""

from __future__ import annotations

from collections.abc import Iterable

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import Type, Value
from dojoir.ir.dtypes import DTYPES
from dojoir.types.typed import Apply, Convert, Typed, TypedStatement


def accumulate_magnitudes(statements: Iterable[TypedStatement]) -> bool:
    """Whether statements take the maximum of what has no sign, in f32."""
    return all(one.op == "max" and one.value.dtype.name == "f32" and _is_magnitude(one.value) for one in statements)


def _is_magnitude(value: Typed) -> bool:
    """Whether a float has no sign, whatever it is made of."""
    match value:
        case Apply(dtype, "abs", _):
            return dtype.is_float
        case Convert(dtype, arg, "cast"):
            return dtype.is_float and arg.dtype.is_float and _is_magnitude(arg)
        case _:
            return False


def largest_magnitude(value: Value) -> Value:
    """The largest lane of a vector of f32, each of which is -inf or has no sign."""
    bits = value.type.with_dtype(DTYPES["i32"])
    return lir.Bitcast(Type(value.type.dtype), lir.Reduce("max", lir.Bitcast(bits, value)))
