"""Conditions that isl found, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

import islpy as isl

from dojoir.codegen.lir.arith import add, both, compare, constant_value, divide, integer, mul, sub
from dojoir.codegen.lir.program import FLAG, INDEX, Binary, Const, Select, Value, Var

RELATIONS = {"eq", "le", "lt", "ge", "gt"}
QUOTIENTS = {"fdiv_q": "floordiv", "pdiv_q": "div", "pdiv_r": "rem", "zdiv_r": "mod"}


def size_value(name: str) -> Value:
    """A size of the kernel."""
    return Var(INDEX, name)


def value_of(expr: isl.AstExpr, names: Mapping[str, Value], most: int) -> Value | None:
    """A condition as a value, with the values of the names in it; None where it has more than `most` operations, or
    one that values have not."""
    if sum(1 for _ in _operations(expr)) > most:
        return None
    try:
        found = _value(expr, names)
    except KeyError:
        return None
    return found if found.type == FLAG else Const(FLAG, bool(constant_value(found)))


def _operations(expr: isl.AstExpr) -> Iterator[isl.AstExpr]:
    if isl.ast_expr_type(expr.get_type()) is isl.ast_expr_type.op:
        yield expr
        for n in range(expr.op_get_n_arg()):
            yield from _operations(expr.op_get_arg(n))


def _value(expr: isl.AstExpr, names: Mapping[str, Value]) -> Value:
    """The value of an expression. Raises KeyError for an operation that values have not."""
    match isl.ast_expr_type(expr.get_type()):
        case isl.ast_expr_type.int:
            return integer(int(expr.get_val().to_str()))
        case isl.ast_expr_type.id:
            return names[expr.get_id().get_name()]
    kind = isl.ast_expr_op_type(expr.op_get_type()).name
    args = [_value(expr.op_get_arg(n), names) for n in range(expr.op_get_n_arg())]
    match kind:
        case "and_" | "and_then":
            found = both(*args)
            assert found is not None
            return found
        case "or_" | "or_else":
            return Binary(FLAG, "or", *args)
        case "minus":
            return sub(integer(0), args[0])
        case "add":
            return add(*args)
        case "sub":
            return sub(*args)
        case "mul":
            return mul(*args)
        case "div":  # it divides without a rest
            return divide("floordiv", args[0], _number(args[1]))
        case "cond" | "select":
            return Select(*args)
        case "min" | "max":
            return reduce(lambda left, right: Binary(INDEX, kind, left, right), args)
    if kind in RELATIONS:
        return compare(kind, *args)
    return divide(QUOTIENTS[kind], args[0], _number(args[1]))


def _number(value: Value) -> int:
    """A positive constant. Raises KeyError for another value."""
    number = constant_value(value)
    if number is None or number <= 0:
        raise KeyError("a divisor that is no positive number")
    return number
