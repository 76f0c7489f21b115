"""Short ways to write lowered programs by hand: arguments, a loop over N elements, constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from dojoir.codegen.lir.outcome import Check
from dojoir.codegen.lir.program import INDEX, Const, For, Function, Program, ProgramArray, Stmt, Type, Value, Var
from dojoir.ir.dtypes import BOOL, DTYPES, DType

F32, I32 = Type(DTYPES["f32"]), Type(DTYPES["i32"])
N, AT = Var(INDEX, "N"), Var(INDEX, "at")


def index(value: int) -> Const:
    return Const(INDEX, value)


def numpy_type(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.bool_) if dtype == BOOL else np.dtype(f"{dtype.kind}{dtype.bits // 8}")


def array(name: str, dtype: str, elements: Value = N, constant: bool = False) -> ProgramArray:
    return ProgramArray(name, DTYPES[dtype], elements, "argument", constant=constant)


def program(
    body: tuple[Stmt, ...],
    arguments: tuple[ProgramArray, ...],
    functions: tuple[Function, ...] = (),
    by_value: tuple[Var, ...] = (),
    sizes: tuple[Var, ...] = (N,),
    name: str = "kernel",
    checks: tuple[Check, ...] = (),
) -> Program:
    return Program(name, arguments, by_value, sizes, functions, body, checks)


def over_n(*body: Stmt, kind: str = "seq", reductions: tuple[tuple[str, Var], ...] = ()) -> For:
    return For(AT, index(0), N, 1, body, kind, reductions)
