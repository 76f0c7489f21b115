"""The sign of a sum that may have been rounded once, turned by its bits.

Compilers of the GNU family take `-fma(a, b, c)` for `fma(-a, b, -c)`, which is +0 where the sum is +0 and its
negative -0 (`a * b` is `-c`). They see the fma through variables, arrays and inlined functions, so all that is not
surely something else is negated by its bits where a program has an fma.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import replace

from dojoir.codegen.lir.program import (
    Assign,
    Binary,
    Const,
    Convert,
    Declare,
    Fma,
    Function,
    Let,
    Load,
    Program,
    Select,
    Stmt,
    Type,
    Unary,
    Value,
    Var,
)
from dojoir.codegen.lir.walk import changed_by, mapped, parts, rebuilt, statements, values, with_blocks


def with_negation_by_bits(program: Program) -> Program:
    """The program, which negates what may be an fma by its bits. A function is the same in all programs."""
    functions = tuple(map(_of_function, program.functions))
    roots = [value for stmt in statements(program.body) for value in values(stmt)]
    roots += [value for function in functions for value in _values_of(function)]
    if not any(isinstance(part, Fma) for value in roots for part in parts(value)):
        return replace(program, functions=functions)
    return replace(program, functions=functions, body=_body(program.body))


def _values_of(function: Function) -> Iterator[Value]:
    yield from (let.value for let in function.body)
    yield function.result


def _of_function(function: Function) -> Function:
    turned = _turned(function.body, frozenset())
    body = tuple(Let(let.var, turned(let.value)) for let in function.body)
    return replace(function, body=body, result=turned(function.result))


def _body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    turned = _turned(tuple(statements(body)), changed_by(body))

    def block(inner: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(with_blocks(mapped(stmt, turned), block) for stmt in inner)

    return block(body)


def _turned(body: tuple[Stmt, ...], written: Set[str]) -> Callable[[Value], Value]:
    """A function that makes a value negate by its bits what may be an fma, where `written` are the arrays and
    variables that may hold one."""
    plain: set[str] = set()
    unsure = {stmt.var.name for stmt in body if isinstance(stmt, Declare | Assign)}
    for let in (stmt for stmt in body if isinstance(stmt, Let)):  # before its uses, but where names are used again
        (plain if _is_no_fma(let.value, written, plain - unsure) else unsure).add(let.var.name)
    sure = plain - unsure

    def turned(value: Value) -> Value:
        value = rebuilt(value, turned)
        match value:
            case Unary(Type(dtype, 1) as kind, "neg", arg) if dtype.is_float and not _is_no_fma(arg, written, sure):
                return Unary(kind, "neg_by_bits", arg)
        return value

    return turned


def _is_no_fma(value: Value, written: Set[str], sure: Set[str]) -> bool:
    """Whether a value, by its form, is surely no result of an fma; `sure` are variables that are none."""
    match value:
        case Var(name=name):
            return name in sure
        case Load(buffer=buffer):
            return buffer not in written
        case Select(yes=yes, no=no):
            return _is_no_fma(yes, written, sure) and _is_no_fma(no, written, sure)
        case Unary(op="neg" | "abs", arg=arg):
            return _is_no_fma(arg, written, sure)
        case Binary(op=op) | Unary(op=op):
            return not op.startswith(("max", "min"))
    return isinstance(value, Const | Convert)
