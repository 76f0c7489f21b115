"""Bounds on integer values, from the types and loops that they come from: what never wraps around."""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import INDEX, Binary, BlockNumber, Const, Convert, For, Let, Parallel, Program, Var
from dojoir.codegen.lir.walk import statements
from dojoir.ir.dtypes import I64, DType

MOST_THREADS = 1024

THREAD = "the number of the thread"
"""The key of the range of a thread's number, where it is: no variable is called that."""

Range = tuple[int, int]
"""The least and the greatest number that a value can be."""


def limits(dtype: DType) -> Range:
    """The range of an integer type or bool."""
    match dtype.kind:
        case "b":
            return 0, 1
        case "i":
            return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
        case _:
            return 0, 2**dtype.bits - 1


def loop_ranges(program: Program) -> Mapping[str, Range]:
    """The ranges of the sizes, loop variables and named indices of a program. What shares a name shares a range."""
    known: dict[str, Range] = {size.name: (0, limits(I64)[1]) for size in program.sizes}
    for stmt in statements(program.body):
        match stmt:
            case For(var, start, stop):
                lowest = range_of(start, known)[0]
            case Parallel(var, stop):
                lowest = 0
            case Let(var, value) if var.type == INDEX:
                join(known, var.name, range_of(value, known))
                continue
            case _:
                continue
        highest = range_of(stop, known)[1] - 1
        join(known, var.name, (lowest, max(highest, lowest)))
    return known


def join(known: dict[str, Range], name: str, found: Range) -> None:
    """Widens the range of a name, which blocks side by side may use for several variables."""
    low, high = known.get(name, found)
    known[name] = (min(low, found[0]), max(high, found[1]))


def fits(value: Binary, known: Mapping[str, Range]) -> bool:
    """Whether an integer sum, difference or product never wraps around, if variables are in the ranges `known`."""
    return _within(before_wrapping(value, known), limits(value.type.dtype))


def range_of(value: lir.Value, known: Mapping[str, Range]) -> Range:
    """The range of an integer value, if variables are in the ranges `known`."""
    full = limits(value.type.dtype)
    match value:
        case Const(_, number):
            return int(number), int(number)
        case Var(_, name):
            return known.get(name, full)
        case lir.ThreadNumber():
            return known.get(THREAD, (0, MOST_THREADS - 1))
        case BlockNumber():
            return 0, 2**31 - 1
        case Convert(_, arg) if not arg.type.dtype.is_float:
            exact = range_of(arg, known)
        case Binary(_, "add" | "sub" | "mul"):
            exact = before_wrapping(value, known)
        case Binary(_, "mod", _, Const(_, divisor)):
            return 0, int(divisor) - 1
        case Binary(_, "rem", left, Const(_, divisor)):
            return 0, min(int(divisor) - 1, range_of(left, known)[1])
        case Binary(_, "floordiv" | "div", left, Const(_, divisor)):
            low, high = range_of(left, known)
            return low // int(divisor), high // int(divisor)
        case Binary(_, "min" | "min_fast", left, right):
            (a, b), (c, d) = range_of(left, known), range_of(right, known)
            return min(a, c), min(b, d)
        case Binary(_, "max" | "max_fast", left, right):
            (a, b), (c, d) = range_of(left, known), range_of(right, known)
            return max(a, c), max(b, d)
        case lir.Select(_, yes, no):
            (a, b), (c, d) = range_of(yes, known), range_of(no, known)
            return min(a, c), max(b, d)
        case _:
            return full
    return exact if _within(exact, full) else full


def before_wrapping(value: Binary, known: Mapping[str, Range]) -> Range:
    """The range of an integer sum, difference or product as a number of any size."""
    (a, b), (c, d) = range_of(value.left, known), range_of(value.right, known)
    match value.op:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case _:
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
