"""NumPy as dojoir's library has it, with OpenBLAS under its matrix products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from peer_common import Arrays, Call
from rows import ROWS

import dojoir


def swiglu_gate(g: Any, u: Any, y: Any) -> None:
    np.negative(g, out=y)
    np.exp(y, out=y)
    np.add(y, np.float32(1), out=y)
    np.divide(g, y, out=y)
    np.multiply(y, u, out=y)


def jacobi2d_sweep(a: Any, b: Any) -> None:
    inside = b[1:-1, 1:-1]
    np.add(a[1:-1, 1:-1], a[1:-1, :-2], out=inside)
    np.add(inside, a[1:-1, 2:], out=inside)
    np.add(inside, a[2:, 1:-1], out=inside)
    np.add(inside, a[:-2, 1:-1], out=inside)
    np.multiply(inside, np.float32(0.2), out=inside)


FUNCTIONS: dict[str, Callable[..., object]] = {
    "swiglu_gate": swiglu_gate,
    "jacobi2d_sweep": jacobi2d_sweep,
}
"""What is not in the library."""


def bind(operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation by NumPy; its BLAS takes the number of threads from the environment."""
    kernel = next(row for row in ROWS if row.kernel == operation).load()
    function = FUNCTIONS.get(operation) or dojoir.kernels.numpy_version(kernel)
    if function is None:
        raise KeyError(operation)
    return partial(function, *arrays.values())
