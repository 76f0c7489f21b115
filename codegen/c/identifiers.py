"""Names of a program as identifiers of C: distinct, and none of them a word that C or the printed text needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dojoir.codegen.c.symbols import LOCAL_WORDS, is_patterned, plain_name
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import Allocate, Assign, Declare, For, Instruct, Launch, Let, Parallel, Program
from dojoir.codegen.lir.walk import statements


def identifiers(program: Program) -> Mapping[str, str]:
    """The C identifiers of the variables, arrays and functions of a program."""
    taken = {word for stmt in statements(program.body) for word in _spelled(stmt)}
    names: dict[str, str] = {}
    for name in all_names(program):
        if name in names:
            continue
        plain = plain_name(name)
        while plain in taken or plain in LOCAL_WORDS or is_patterned(plain):
            plain += "_"
        taken.add(plain)
        names[name] = plain
    return names


def _spelled(stmt: lir.Stmt) -> Iterable[str]:
    """The words that an instruction is spelled with: it may declare variables of its own."""
    if isinstance(stmt, Instruct) and stmt.instruction.c is not None:
        yield from re.findall(r"[A-Za-z_]\w*", re.sub(r"\{\w+\}", "", stmt.instruction.c))


def all_names(program: Program) -> Iterable[str]:
    """The names of everything in a program, some more than once."""
    yield from (array.name for array in program.arguments)
    yield from (size.name for size in program.sizes)
    for function in program.functions:
        yield function.name
        yield from (var.name for var in function.params)
        yield from (let.var.name for let in function.body)
    for stmt in statements(program.body):
        match stmt:
            case Let(var) | Declare(var) | Assign(var) | For(var) | Parallel(var):
                yield var.name
            case Allocate(array):
                yield array.name
            case Launch(name, shared=shared):
                yield name
                yield from (array.name for array in shared)
