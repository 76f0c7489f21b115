"""Programs for the C target, run by a compiler with all its warnings on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from c_machine import Arrays, Machine
from lir_programs import numpy_type
from numpy.typing import NDArray

from dojoir.codegen.c.printer import print_c
from dojoir.codegen.lir.program import Program, Value
from dojoir.errors import ToolchainError
from dojoir.ir.dtypes import DType
from dojoir.runtime.build import c_toolchain


def compiler() -> c_toolchain.Toolchain:
    """A compiler; machines without one cannot run what is printed, and skip."""
    try:
        return c_toolchain.find()
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)


def run_both(machine: Machine, prog: Program, arrays: Arrays, **sizes: int) -> tuple[int, Arrays]:
    """The result of a program, the same from the sanitized and from the optimised build, and free of warnings."""
    machine.check_warnings(print_c(prog))
    status, results = machine.run_checked(prog, arrays, **sizes)
    fast_status, fast = machine.run_shared(prog, arrays, **sizes)
    assert fast_status == status
    for name, result in results.items():
        np.testing.assert_array_equal(fast[name], result, err_msg=name)
    return status, results


Case = tuple[str, DType, Callable[..., Value], Callable[..., Any]]
"""A name, the type of the result, how to compute it from the operands, and what it must be."""


def dtype_of(values: NDArray[Any]) -> str:
    return "bool" if values.dtype == np.bool_ else f"{values.dtype.kind}{values.dtype.itemsize * 8}"


def limits(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(numpy_type(dtype))
    return int(info.min), int(info.max)


def wrapped(dtype: DType, value: int) -> int:
    value %= 2**dtype.bits
    return value - 2**dtype.bits if dtype.kind == "i" and value >= 2 ** (dtype.bits - 1) else value
