"""Conversions by name: they saturate, round otherwise than to even, or keep the bits."""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.notation import Expr
from dojoir.codegen.lir.program import Type, Value
from dojoir.codegen.lower.access.conversions import as_stored, call, convert, exact_enough, is_narrow
from dojoir.codegen.lower.access.state import LoweringUnit
from dojoir.codegen.math import codes, elementary
from dojoir.codegen.math.narrow_floats import bits_of
from dojoir.ir.dtypes import F64, DType


def by_name(unit: LoweringUnit, source: DType, dtype: DType, way: str, value: Value) -> Value:
    """A value that holds a `source`, as one that holds a `dtype`."""
    lanes = value.type.lanes
    if way == "bitcast":
        if source.is_float:
            return call(unit, codes.code_of(source, lanes), _plain(unit, source, value))
        return _held(unit, dtype, call(unit, codes.coded(dtype, lanes), value))
    if not (source.is_float or dtype.is_float):
        return lir.Convert(Type(dtype, lanes), _clamped(source, dtype, value))
    if dtype.is_integer:
        wide = convert(unit, source, source.compute, value)
        return lir.Convert(Type(dtype, lanes), call(unit, codes.away(source.compute, lanes), wide))
    if dtype.bits >= 32 and way == "sat":
        wide = convert(unit, source, dtype, value)
        return call(unit, codes.in_range(dtype, lanes), wide)
    if source.is_float:
        source, value = source.compute, convert(unit, source, source.compute, value)
    else:
        source, value = F64, exact_enough(value)
    bits = call(unit, elementary.encode(dtype, source, lanes, way), value)
    return lir.Bitcast(Type(dtype, lanes), bits) if dtype.bits >= 32 else _held(unit, dtype, bits)


def _plain(unit: LoweringUnit, dtype: DType, value: Value) -> Value:
    """The bits of a narrow float where the target has such a type; what it is otherwise."""
    native = is_narrow(dtype) and as_stored(dtype, unit.target) == dtype
    return lir.Bitcast(value.type.with_dtype(bits_of(dtype)), value) if native else value


def _held(unit: LoweringUnit, dtype: DType, bits: Value) -> Value:
    native = is_narrow(dtype) and as_stored(dtype, unit.target) == dtype
    return lir.Bitcast(bits.type.with_dtype(dtype), bits) if native else bits


def _clamped(source: DType, dtype: DType, value: Value) -> Value:
    """An integer within the range of another type."""

    def limits(one: DType) -> tuple[int, int]:
        low = -(1 << (one.bits - 1)) if one.kind == "i" else 0
        return low, low + (1 << one.bits) - 1

    (least, most), (low, high) = limits(source), limits(dtype)
    clamped = Expr(value)
    if most > high:
        clamped = Expr(lir.Binary(value.type, "min", clamped.value, clamped.same(high)))
    if least < low:
        clamped = Expr(lir.Binary(value.type, "max", clamped.value, clamped.same(low)))
    return clamped.value
