"""Typed expressions as values of the program. What is the same in all lanes stays a scalar."""

from __future__ import annotations

import math

import numpy as np

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import compare, constant_value, level
from dojoir.codegen.lir.program import Type, Value, Var
from dojoir.codegen.lower.access.conversions import call, convert, number
from dojoir.codegen.lower.access.elements import ElementAccess, index_value
from dojoir.codegen.lower.access.named_conversions import by_name
from dojoir.codegen.lower.access.nibbles import halves
from dojoir.codegen.lower.access.state import Block, LoweringUnit, at_work
from dojoir.codegen.math import elementary as mathlib
from dojoir.codegen.math.division import division
from dojoir.codegen.math.precision import SINGLE
from dojoir.ir.dtypes import F32, I64, DType
from dojoir.sets.failing import is_count, is_never_0, is_positive, may_fail
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
UNARY = frozenset({"neg", "not", "abs", "sqrt", "floor", "ceil", "round"})
BINARY = frozenset({"add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "and", "or"})
BITS = {"bitand": "and", "bitor": "or", "bitxor": "xor"}


def evaluate(typed: Typed, accesses: ElementAccess) -> Value:
    """The value of `typed` at the place of `accesses`, held as the target holds its type."""
    unit = accesses.unit
    match typed:
        case Number(dtype, value):
            return number(dtype, value)
        case IndexValue(affine):
            return index_value(affine, accesses.state)
        case Load(_, access):
            return accesses.load(access)
        case Convert(dtype, arg, way) if way != "cast":
            return by_name(unit, arg.dtype, dtype, way, evaluate(arg, accesses))
        case Convert(dtype, arg):
            return convert(unit, arg.dtype, dtype, evaluate(arg, accesses))
        case Apply(dtype, "shl" | "shr" as name, (arg, count)):
            return _shift(name, evaluate(arg, accesses), dtype, shift_count(count, dtype, accesses))
        case Apply(dtype, "floordiv" | "mod" as name, (arg, divisor)) if not _is_positive_number(divisor):
            return _division(name, dtype, arg, divisor, accesses)
        case Apply(_, "bitand") if (found := halves(typed, accesses)) is not None:
            return found
        case Apply(_, "and" | "or" as name, (left, right)) if may_fail(right, accesses.holds):
            return _short_circuit(name, left, right, accesses)
        case Apply(dtype, name, args):
            return operate(unit, name, dtype, *(evaluate(arg, accesses) for arg in args))


def _is_positive_number(typed: Typed) -> bool:
    return isinstance(typed, Number) and typed.value > 0


def _short_circuit(name: str, left: Typed, right: Typed, accesses: ElementAccess) -> Value:
    """`left and right`, or `or`, whose right side may be an error of the run: it is computed where the left side
    does not decide, in one iteration or in some lanes. Elsewhere nothing is read, nor can anything fail."""
    unit, around = accesses.unit, accesses.block
    first = evaluate(left, accesses)
    value = Var(first.type, unit.names.fresh("holds"))
    around.emit(lir.Let(value, first))
    reached: Value = value if name == "and" else lir.Unary(value.type, "not", value)
    reached, state = at_work(unit.names, accesses.state, reached, around)
    inner = Block(pending=set())
    second = evaluate(right, ElementAccess(unit, state, inner, accesses.path))
    one, other = level(value, second)
    both_hold = Var(one.type, unit.names.fresh("both" if name == "and" else "either"))
    around.emit(lir.Declare(both_hold, one))
    inner.emit(lir.Assign(both_hold, lir.Binary(one.type, name, one, other)))
    around.emit(lir.If(reached, inner.body))
    return both_hold


def _division(name: str, dtype: DType, typed: Typed, by: Typed, accesses: ElementAccess) -> Value:
    """Division by any integer, rounded down. Where the divisor is 0, the program records the error, divides by 1
    and goes on."""
    unit = accesses.unit
    value, divisor = evaluate(typed, accesses), evaluate(by, accesses)
    if not is_never_0(by, accesses.holds):
        kind = divisor.type
        failed = accesses.fail_where(
            lir.Compare("eq", divisor, lir.Const(kind, 0)), unit.divisor_status(accesses.path), "divides_by_0"
        )
        divisor = lir.Select(failed, lir.Const(kind, 1), divisor)
    elif not isinstance(by, Number) and divisor.type.lanes > 1 and (mask := accesses.state.mask) is not None:
        divisor = lir.Select(mask, divisor, lir.Const(divisor.type, 1))  # what is known holds of lanes at work
    value, divisor = level(value, divisor)
    if dtype.kind == "u" or (is_positive(by, accesses.holds) and _is_natural(typed, accesses)):
        return lir.Binary(value.type, "div" if name == "floordiv" else "rem", value, divisor)
    return call(unit, division(name, dtype, value.type.lanes), value, divisor)


def _is_natural(typed: Typed, accesses: ElementAccess) -> bool:
    """Whether an integer is seen to be an index that is 0 or more."""
    return isinstance(typed, IndexValue) and accesses.holds(typed.affine)


def _shift(name: str, value: Value, dtype: DType, count: Value) -> Value:
    """A shift by a count of the same type that is in range; a right shift of a signed integer copies the sign."""
    if constant_value(count) == 0:
        return value
    left, right = level(value, count)
    op = "shl" if name == "shl" else "sar" if dtype.kind == "i" else "shr"
    return lir.Binary(left.type, op, left, right)


def shift_count(typed: Typed, dtype: DType, accesses: ElementAccess) -> Value:
    """The count of a shift as a value of `dtype`. Where it is out of range, the program records the error and
    shifts by 0."""
    unit = accesses.unit
    count = evaluate(typed, accesses)
    if not is_count(typed, dtype, accesses.holds):
        kind = count.type
        outside: Value = lir.Compare("ge", count, lir.Const(kind, dtype.bits))
        if typed.dtype.kind == "i":
            outside = lir.Binary(outside.type, "or", lir.Compare("lt", count, lir.Const(kind, 0)), outside)
        failed = accesses.fail_where(outside, unit.shift_status(accesses.path), "outside")
        count = lir.Select(failed, lir.Const(kind, 0), count)
    return convert(unit, typed.dtype, dtype, count)


def operate(unit: LoweringUnit, name: str, dtype: DType, *args: Value) -> Value:
    """An operation of the language on values; `dtype` is what it gives."""
    values = level(*args)
    kind = values[-1].type.with_dtype(dtype)
    match name, values:
        case "select", (condition, yes, no):
            return lir.Select(condition, yes, no)
        case "fma", (a, b, c):
            return lir.Fma(a, b, c)
        case "bitnot", (arg,):
            return lir.Unary(kind, "not", arg)
        case _, (left, right) if name in BITS:
            return lir.Binary(kind, BITS[name], left, right)
        case _, (arg,) if name in UNARY:
            return lir.Unary(kind, name, arg)
        case "min" | "max", (left, right) if dtype.is_float and not unit.fast:
            return extreme(kind, name, left, right)
        case _, (left, right) if name in COMPARISONS:
            return compare(name, left, right)
        case _, (left, right) if name in BINARY:
            return lir.Binary(kind, combination(unit, name, dtype), left, right, of_data=dtype == I64)
    target = unit.target
    if name == "exp" and dtype == F32 and unit.fast and target.approximates:
        name, values = "exp2", (_times(values[0], SINGLE.log2_e),)
    return call(
        unit, mathlib.function(name, kind, unit.fast, target.scales, unit.fast and target.approximates), *values
    )


def _times(value: Value, factor: float) -> Value:
    """A value times a factor, by one multiplication where the value is a multiple of a number."""
    match value:
        case (
            lir.Binary(op="mul", left=lir.Const(value=number), right=other)
            | lir.Binary(op="mul", left=other, right=lir.Const(value=number))
        ) if 1e-30 < abs(number) < 1e30:
            return lir.Binary(value.type, "mul", lir.Const(value.type, float(np.float32(number * factor))), other)
    return lir.Binary(value.type, "mul", value, lir.Const(value.type, factor))


def extreme(kind: Type, op: str, left: Value, right: Value) -> Value:
    """The smaller or larger of two floats. Beside a number that is known, no test for NaN is needed, and for the
    sign of zero at most one instruction: `c < x ? c : x` is `x` where that is NaN or equal to `c`."""
    for fixed, other in ((left, right), (right, left)):
        value = fixed.arg if isinstance(fixed, lir.Splat) else fixed
        if isinstance(value, lir.Const) and value.value == value.value:
            chosen = lir.Binary(kind, f"{op}_fast", fixed, other)
            if value.value or math.copysign(1.0, float(value.value)) == (1.0 if op == "min" else -1.0):
                return chosen
            positive = lir.Unary(kind, "abs", chosen)
            return positive if op == "max" else lir.Unary(kind, "neg", lir.Unary(kind, "abs", chosen))
    return lir.Binary(kind, op, left, right)


def combination(unit: LoweringUnit, name: str, dtype: DType) -> str:
    """The LIR operation for an operation of the language: `fp fast` does not ask where a NaN goes."""
    if name in BITS:
        return BITS[name]
    if name not in ("min", "max") or not dtype.is_float or not unit.fast:
        return name
    return f"{name}_number" if unit.target.approximates and dtype == F32 else f"{name}_fast"
