"""The sign of a sum that may have been rounded once, turned by its bits.

Compilers of the GNU family take `-fma(a, b, c)` for `fma(-a, b, -c)`, which is +0 where the sum is +0 and its
negative -0 (`a * b` is `-c`). They see the fma through variables, arrays and inlined functions, so all that is not
surely something else is negated by its bits where a program has an fma.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from dojoir.codegen.lir.program import (
    Binary,
    Const,
    Convert,
    Fma,
    Function,
    Let,
    Load,
    Program,
    Stmt,
    Type,
    Unary,
    Value,
)
from dojoir.codegen.lir.walk import changed_by, mapped, parts, rebuilt, statements, values, with_blocks


def with_negation_by_bits(program: Program) -> Program:
    """The program, which negates what may be an fma by its bits."""
    if not any(isinstance(part, Fma) for value in _roots(program) for part in parts(value)):
        return program
    written = changed_by(program.body)

    def turned(value: Value) -> Value:
        value = rebuilt(value, turned)
        match value:
            case Unary(Type(dtype, 1) as kind, "neg", arg) if dtype.is_float and not _is_no_fma(arg, written):
                return Unary(kind, "neg_by_bits", arg)
        return value

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(with_blocks(mapped(stmt, turned), block) for stmt in body)

    def of(function: Function) -> Function:
        body = tuple(Let(let.var, turned(let.value)) for let in function.body)
        return replace(function, body=body, result=turned(function.result))

    return replace(program, body=block(program.body), functions=tuple(map(of, program.functions)))


def _roots(program: Program) -> Iterator[Value]:
    for body in (program.body, *(function.body for function in program.functions)):
        for stmt in statements(body):
            yield from values(stmt)
    yield from (function.result for function in program.functions)


def _is_no_fma(value: Value, written: Set[str]) -> bool:
    """Whether a value, by its form, is surely no result of an fma: `written` are arrays that may hold one."""
    match value:
        case Load(buffer=buffer):
            return buffer not in written
        case Binary(op=op) | Unary(op=op):
            return op not in ("neg", "abs", "max", "min")
    return isinstance(value, Const | Convert)
