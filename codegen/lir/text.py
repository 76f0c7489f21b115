"""Lowered programs as text, for people: a line a statement, blocks indented. Nothing reads it back."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import Allocate, Assign, Atomic, Barrier, Binary, Comment, Compare, If, Stmt, Value
from dojoir.codegen.lir.walk import blocks, operands, values

INFIX = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
STEP = "    "


def lir_text(program: lir.Program) -> str:
    """The text of a program, its functions first."""
    arguments = ", ".join(f"{array.name}: {array.dtype}" for array in program.arguments)
    head = f"program {program.name}({arguments}; {', '.join(size.name for size in program.sizes)})"
    functions = [line for function in program.functions for line in _lines_of_function(function)]
    return "\n".join([*functions, head, *_block(program.body)]) + "\n"


def _lines_of_function(function: lir.Function) -> Iterator[str]:
    params = ", ".join(f"{var.name}: {var.type}" for var in function.params)
    yield f"function {function.name}({params})"
    yield from _block(function.body)
    yield f"{STEP}give {value_text(function.result)}"
    yield ""


def _block(body: tuple[Stmt, ...]) -> Iterator[str]:
    for stmt in body:
        yield STEP + _head(stmt)
        before = False
        for number, inner in enumerate(blocks(stmt)):
            if inner and (before or (number and isinstance(stmt, If))):
                yield f"{STEP}{'else' if isinstance(stmt, If) else 'then'}"
            before = before or bool(inner)
            yield from (STEP + line for line in _block(inner))


def _head(stmt: Stmt) -> str:
    """The first line of a statement."""
    match stmt:
        case lir.Let(var, value):
            return f"let {var.name}: {var.type} = {value_text(value)}"
        case lir.Declare(var, value):
            return f"var {var.name}: {var.type} = {value_text(value)}"
        case Assign(var, value):
            return f"{var.name} = {value_text(value)}"
        case lir.Store(buffer, offset, value, stride, mask, streaming):
            way = " past the caches" if streaming else ""
            return f"{_place(buffer, offset, stride, mask)} = {value_text(value)}{way}"
        case lir.For(var, start, stop, step):
            every = f" step {step}" if step != 1 else ""
            return f"for {var.name} from {value_text(start)} below {value_text(stop)}{every} ({stmt.kind})"
        case lir.Parallel(var, stop):
            return f"on the cores {var.name} below {value_text(stop)}"
        case If(condition):
            return f"if {value_text(condition)}"
        case lir.Fail(condition, status):
            return f"fail with {status} if {value_text(condition)}"
        case Comment(text):
            return f"# {text}"
        case Allocate(array):
            return f"array {array.name}: {array.dtype}[{value_text(array.elements)}] in {array.lives}"
        case lir.Launch(name, grid, threads):
            return f"launch {name} of {', '.join(map(value_text, grid))} blocks of {threads} threads"
        case Barrier(about, lanes):
            return f"barrier{f' of {lanes} lanes' if lanes else ''} for {', '.join(about)}"
        case lir.Phase(threads):
            return "by all threads" if threads is None else f"by {threads} threads"
        case Atomic(op, buffer, offset, value):
            return f"atomic {op} {_place(buffer, offset)} by {value_text(value)}"
        case lir.Swap(seen, buffer, offset, value):
            return f"atomic {_place(buffer, offset)} = {value_text(value)}, {seen.name} being what it is"
        case lir.Instruct(instruction):
            return f"{instruction.name}({', '.join(map(value_text, values(stmt)))})"
    return f"{type(stmt).__name__.lower()} {', '.join(map(value_text, values(stmt)))}".rstrip()


def _place(buffer: str, offset: Value, stride: Value | None = None, mask: Value | None = None) -> str:
    apart = "" if stride is None else f", every {value_text(stride)}"
    return f"{buffer}[{value_text(offset)}{apart}]" + ("" if mask is None else f" where {value_text(mask)}")


def value_text(value: Value) -> str:
    """The text of a value."""
    match value:
        case lir.Const(kind, number):
            return f"{number}" if kind.lanes == 1 else f"{number}:{kind}"
        case lir.Var(_, name):
            return name
        case Binary(_, op, left, right) | Compare(op, left, right) if op in INFIX:
            return f"({value_text(left)} {INFIX[op]} {value_text(right)})"
        case lir.Load(kind, buffer, offset, stride, mask):
            found = _place(buffer, offset, stride, mask)
            return found if kind.lanes == 1 else f"{found}:{kind}"
        case lir.Select(condition, yes, no):
            return f"({value_text(condition)} ? {value_text(yes)} : {value_text(no)})"
    named = getattr(value, "op", None) or getattr(value, "function", None) or type(value).__name__.lower()
    given = ", ".join(map(value_text, operands(value)))
    return f"{named}({given})" if isinstance(value, Binary) else f"{named}({given}):{value.type}"
