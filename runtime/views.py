"""What a caller's array is: where its memory lies, of what type, in what layout. Nothing is copied."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from dojoir.dtypes import DTYPES
from dojoir.errors import ArgumentError
from dojoir.runtime.dlpack import borrow, has_dlpack

_ITEM_BYTES = {name: dtype.itemsize for dtype in DTYPES.values() for name in dtype.accepted}
_NUMPY = {np.dtype(dtype.stored): dtype.stored for dtype in DTYPES.values()}
"""The names of NumPy's own types, which are slow to ask a type for."""


@dataclass(frozen=True, slots=True)
class View:
    """Memory of an array; `strides` are in bytes. The memory is there as long as `owner` is."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    owner: object


def view_of(name: str, value: object) -> View:
    """The memory of the argument `name`. Raises ArgumentError where `value` is no array that the CPU can use."""
    if isinstance(value, np.ndarray):
        address: int = value.__array_interface__["data"][0]
        return View(address, _dtype_name(name, value), value.shape, value.strides, value.flags.writeable, value)
    if has_dlpack(value):
        tensor = borrow(name, value)
        item = _ITEM_BYTES.get(tensor.dtype, 1)
        strides = tuple(stride * item for stride in tensor.strides)
        return View(tensor.address, tensor.dtype, tensor.shape, strides, tensor.writable, (value, tensor.owner))
    raise ArgumentError(
        f"argument {name} must be a NumPy array or anything with __dlpack__, not {type(value).__name__}",
        "not-an-array",
    )


def as_numpy(view: View, dtype: str) -> np.ndarray:
    """The same memory as a NumPy array of the type `dtype`, which has as many bytes. Good while `view` is."""
    reach = [(n - 1) * step for n, step in zip(view.shape, view.strides, strict=True) if n > 1]
    low, high = sum(min(step, 0) for step in reach), sum(max(step, 0) for step in reach)
    if 0 in view.shape:
        return np.empty(view.shape, dtype)
    memory = (ctypes.c_char * (high - low + np.dtype(dtype).itemsize)).from_address(view.address + low)
    return np.ndarray(view.shape, dtype, memoryview(memory).cast("B"), -low, view.strides)


def _dtype_name(name: str, array: np.ndarray) -> str:
    dtype = array.dtype
    if not dtype.isnative:
        raise ArgumentError(
            f"argument {name} is not in this machine's byte order: pass "
            f"{name}.astype({name}.dtype.newbyteorder('='))",
            "byte-order",
        )
    return _NUMPY.get(dtype) or dtype.name
