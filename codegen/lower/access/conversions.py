"""Numbers of the kernel as values of the program: how each type is held, and the conversions between them."""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import spread
from dojoir.codegen.lir.program import Const, Type, Value
from dojoir.codegen.lower.access.state import LoweringUnit
from dojoir.codegen.math import elementary as mathlib
from dojoir.codegen.target import Target
from dojoir.ir.dtypes import DTYPES, F32, F64, DType

PACKED = {16: DTYPES["u16"], 8: DTYPES["u8"], 4: DTYPES["u8"]}


def is_narrow(dtype: DType) -> bool:
    """Whether values are kept in this type but not computed in it."""
    return dtype.is_float and dtype.bits < 32


def as_stored(dtype: DType, target: Target) -> DType:
    """The type in which an element of `dtype` is held, in memory and in variables: bits in an unsigned integer
    where the target has no such type. A native one it converts from and to f32."""
    return PACKED[dtype.bits] if is_narrow(dtype) and dtype.name not in target.native else dtype


def as_passed(dtype: DType) -> DType:
    """The type in which a scalar argument is passed: narrow floats as their bits, on every target."""
    return PACKED[dtype.bits] if is_narrow(dtype) else dtype


def number(dtype: DType, value: int | float) -> Const:
    """A scalar constant."""
    return Const(Type(dtype), float(value) if dtype.is_float else bool(value) if dtype.kind == "b" else int(value))


def call(unit: LoweringUnit, function: lir.Function, *args: Value) -> Value:
    """A call of a function of the program, which the program gets if it does not have it yet."""
    unit.functions[function.name] = function
    return lir.Call(function.result.type, function.name, args)


def convert(unit: LoweringUnit, source: DType, dtype: DType, value: Value) -> Value:
    """A value that holds a `source`, as one that holds a `dtype`. Rounds once."""
    if source == dtype:
        return value
    lanes = value.type.lanes
    if is_narrow(source):
        native = source.name in unit.target.native
        wide = lir.Convert(Type(F32, lanes), value) if native else call(unit, mathlib.decode(source, lanes), value)
        return convert(unit, F32, dtype, wide)
    if is_narrow(dtype):
        if not source.is_float:
            source, value = F64, exact_enough(value)
        native = dtype.name in unit.target.native
        if native and source == F32:
            return lir.Convert(Type(dtype, lanes), value)
        bits = call(unit, mathlib.encode(dtype, source, lanes), value)
        return lir.Bitcast(Type(dtype, lanes), bits) if native else bits
    return lir.Convert(Type(dtype, lanes), value)


def exact_enough(value: Value) -> Value:
    """An integer as f64, so that rounding it on to a narrow float gives what rounding it once would.

    Beyond 2**53 an f64 does not hold every integer: there the low 12 bits, of which a narrow float keeps none,
    are first folded into one that only says whether there were any.
    """
    kind = value.type
    wide = kind.with_dtype(F64)
    if kind.dtype.bits < 64:
        return lir.Convert(wide, value)

    def bits(n: int) -> Value:
        return spread(number(kind.dtype, n), kind.lanes)

    low = lir.Binary(kind, "and", value, bits(0xFFF))
    sticky = lir.Select(lir.Compare("ne", low, bits(0)), bits(0x800), bits(0))
    folded = lir.Binary(kind, "or", lir.Binary(kind, "sub", value, low), sticky)
    exact = lir.Convert(wide, value)
    large = lir.Compare("ge", lir.Unary(wide, "abs", exact), lir.Const(wide, 2.0**53))
    return lir.Select(large, lir.Convert(wide, folded), exact)
