"""Lowered programs, and what is found in them."""

from __future__ import annotations

from typing import TypeVar

import dojoir
from dojoir.codegen.lir.program import Binary, Const, Program, Stmt, Value, Var
from dojoir.codegen.lir.walk import statements
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import C, Target

WIDE = Target("llvm", 512, "mask", frozenset({"f16"}), 32)
NARROW = Target("llvm", 256, "scalar", frozenset(), 16)
Kind = TypeVar("Kind", bound=Stmt)


def program(text: str, target: Target = C) -> Program:
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    return lower(kernel, target)


def found(prog: Program, kind: type[Kind]) -> list[Kind]:
    """All statements of a kind, in the order of the text."""
    return [statement for statement in statements(prog.body) if isinstance(statement, kind)]


def evaluated(value: Value, sizes: dict[str, int]) -> int:
    """The number that index arithmetic gives."""
    match value:
        case Const(_, number):
            return int(number)
        case Var(_, name):
            return sizes[name]
        case Binary(_, op, left, right):
            a, b = evaluated(left, sizes), evaluated(right, sizes)
            operations = {"add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b),
                          "div": a // b if b else 0, "rem": a % b if b else 0, "floordiv": a // b if b else 0,
                          "mod": a % b if b else 0}  # fmt: skip
            return operations[op]
    raise AssertionError(value)


ROWS = """
kernel rows(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[{m}]
tmp e: f32[{e}]
N{p}
| m[{{0}}] = -inf
| M
| | m[{{0}}] max= x[{{0}}, {{1}}]
| M{v}
| | e[{{0}}, {{1}}] = x[{{0}}, {{1}}] - m[{{0}}]
| M{v}
| | y[{{0}}, {{1}}] = e[{{0}}, {{1}}]
"""


def rows(m: str = "N", e: str = "N, M", p: str = "", v: str = "") -> str:
    return ROWS.format(m=m, e=e, p=p, v=v)
