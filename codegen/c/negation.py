"""Negation by the sign bit, of what may be the result of an fma.

GCC folds `-fma(a, b, c)` into `fma(-a, b, -c)`. Where `a * b` is `-c`, the first is -0 and the second +0. It sees
the fma through variables, arrays and inlined functions, so every negated value that is not surely something else
is negated by its sign bit, in programs that have an fma.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import Assign, Binary, Const, Convert, Function, Let, Program, Stmt, Unary, Value
from dojoir.codegen.lir.walk import all_values, changed_by, changed_values, parts, rebuilt, statements


def with_negation_by_bits(program: Program) -> Program:
    """The program, with what may be the result of an fma negated by its sign bit. The text of a function does not
    depend on the program around it, since a file may hold several programs."""
    program = replace(program, functions=tuple(map(_of_function, program.functions)))
    if not any(isinstance(part, lir.Fma) for value in all_values(program) for part in parts(value)):
        return program
    return replace(program, body=_body(program.body))


def _of_function(function: Function) -> Function:
    turned = _with_sign_bits(function.body, frozenset())
    body = tuple(Let(let.var, turned(let.value)) for let in function.body)
    return replace(function, body=body, result=turned(function.result))


def _body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return changed_values(body, _with_sign_bits(tuple(statements(body)), changed_by(body)))


def _with_sign_bits(body: tuple[Stmt, ...], written: Set[str]) -> Callable[[Value], Value]:
    """A function from a value to the same value with negations by the sign bit. `written` are the arrays that may
    hold the result of an fma."""
    plain: set[str] = set()
    unsure = {stmt.var.name for stmt in body if isinstance(stmt, lir.Declare | Assign)}
    for let in (stmt for stmt in body if isinstance(stmt, Let)):  # before its uses, but where names are used again
        (plain if _is_no_fma(let.value, written, plain - unsure) else unsure).add(let.var.name)
    sure = plain - unsure

    def turned(value: Value) -> Value:
        value = rebuilt(value, turned)
        match value:
            case Unary(lir.Type(dtype, 1) as kind, "neg", arg) if dtype.is_float and not _is_no_fma(
                arg, written, sure
            ):
                return Unary(kind, "neg_by_bits", arg)
        return value

    return turned


def _is_no_fma(value: Value, written: Set[str], sure: Set[str]) -> bool:
    """Whether a value, by its form, is surely no result of an fma; `sure` are variables that are none."""
    match value:
        case lir.Var(name=name):
            return name in sure
        case lir.Load(buffer=buffer):
            return buffer not in written
        case lir.Select(yes=yes, no=no):
            return _is_no_fma(yes, written, sure) and _is_no_fma(no, written, sure)
        case Unary(op="neg" | "abs", arg=arg):
            return _is_no_fma(arg, written, sure)
        case Binary(op=op) | Unary(op=op):
            return not op.startswith(("max", "min"))
    return isinstance(value, Const | Convert)
