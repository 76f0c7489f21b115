"""Lowered programs run by the LLVM target."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dojoir.codegen.lir.program import Program, Type
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.target import llvm_host
from dojoir.ir.dtypes import DTYPES
from dojoir.runtime.build.llvm_engine import build
from dojoir.runtime.build.pool import parallel_for
from dojoir.support.cache import Cache

HOST = llvm_host()
Arrays = Mapping[str, NDArray[Any]]


def run(prog: Program, arrays: Arrays, threads: int = 2, **sizes: int) -> tuple[int, dict[str, NDArray[Any]]]:
    """The status of a program, and its arguments afterwards."""
    text = print_llvm(prog, HOST)
    symbols = {"dojo_parallel_for": parallel_for(threads)} if "@dojo_parallel_for" in text else {}
    library = build(text, [prog.name], symbols, Cache.default())
    results = {name: given.copy() for name, given in arrays.items()}
    by_value = {var.name for var in prog.by_value}
    values: list[object] = []
    for argument in prog.arguments:
        given = results[argument.name]
        scalar = argument.name in by_value
        values.append(np.ctypeslib.as_ctypes(given) if scalar else ctypes.c_void_p(given.ctypes.data))
    values += [ctypes.c_int64(sizes[size.name]) for size in prog.sizes]
    kinds = [type(value) for value in values]
    status = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(library.addresses[prog.name])(*values)
    return int(status), results


def lanes(dtype: str, count: int) -> Type:
    return Type(DTYPES[dtype], count)
