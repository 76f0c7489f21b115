"""The view of a caller's array: where its memory lies, its type and its layout. Nothing is copied."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dojoir.errors import ArgumentError
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.flat import split_shapes
from dojoir.runtime.call.dlpack import borrow, contiguous, has_dlpack
from dojoir.runtime.call.tensors import Torch, element_type, torch_now

_ITEM_BYTES = {name: dtype.itemsize for dtype in DTYPES.values() for name in dtype.accepted}
_NUMPY = {np.dtype(dtype.stored): dtype.stored for dtype in DTYPES.values()}
"""The names of NumPy's own types, which are slow to ask a type for."""


class View(NamedTuple):
    """Memory of an array; `strides` are in bytes. The memory is there as long as `owner` is."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    owner: object


_new = tuple.__new__


def view_of(name: str, value: object) -> View:
    """The memory of the argument `name`. Raises ArgumentError where `value` is no array that the CPU can use."""
    if isinstance(value, np.ndarray):  # written out, as most of a call with new shapes goes by here
        address = (_pointer_at(id(value) + POINTER).value or 0) if DIRECT else address_of(value)
        dtype = _NUMPY.get(value.dtype) or _dtype_name(name, value)
        return _new(View, (address, dtype, value.shape, value.strides, value.flags.writeable, value))
    torch = torch_now()
    if torch is not None and isinstance(value, torch.tensor):
        seen = _tensor_view(name, value, torch)
        if seen is not None:
            return seen
    if has_dlpack(value):
        tensor = borrow(name, value)
        item = _ITEM_BYTES.get(tensor.dtype, 1)
        strides = tuple(stride * item for stride in tensor.strides)
        return View(tensor.address, tensor.dtype, tensor.shape, strides, tensor.writable, (value, tensor.owner))
    raise ArgumentError(
        f"argument {name} must be a NumPy array or anything with __dlpack__, not {type(value).__name__}",
        "not-an-array",
    )


def _tensor_view(name: str, value: Any, torch: Torch) -> View | None:
    """The memory of a tensor of PyTorch, or None where DLPack has to say what is wrong with it."""
    if value.is_neg():
        raise ArgumentError(
            f"argument {name} is a view that PyTorch negates when it reads it: pass {name}.resolve_neg()",
            "lazy-negation",
        )
    if value.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            f"argument {name} requires a gradient, which a kernel does not give: pass {name}.detach(), call it "
            f"under torch.no_grad(), or make an operator of the kernel with dojoir.torch.op(…, backward=…)",
            "no-dlpack",
        )
    if type(value) not in torch.types or not value.is_cpu or value.layout is not torch.strided:
        return None
    try:
        address = value.data_ptr()
    except RuntimeError:  # it has no memory of its own
        return None
    dtype = element_type(value.dtype)
    item = _ITEM_BYTES.get(dtype, 1)
    strides = tuple([stride * item for stride in value.stride()])
    return View(address, dtype, tuple(value.shape), strides, True, value)


def address_of(array: np.ndarray) -> int:
    """Where the first element of an array lies."""
    if DIRECT:
        return _pointer_at(id(array) + POINTER).value or 0
    address: int = array.__array_interface__["data"][0]
    return address


POINTER = 16
"""Where PyArrayObject keeps its pointer (NumPy's ndarraytypes.h), behind CPython's head of an object."""

_pointer_at = ctypes.c_void_p.from_address


def _laid_out_as_known() -> bool:
    probe = np.zeros(3, np.int16)[1:]
    head = object.__basicsize__ == POINTER and sys.implementation.name == "cpython"
    return head and _pointer_at(id(probe) + POINTER).value == probe.__array_interface__["data"][0]


DIRECT = _laid_out_as_known()
"""Whether the pointer is read from there: asking NumPy takes a microsecond."""


def split_views(kernel: Kernel, views: dict[str, View], sizes: Mapping[str, object]) -> dict[str, View]:
    """The views of arrays, by buffer, with all dimensions of the kernel: those of flat arguments have fewer.

    Raises ArgumentError where one cannot be split so, or has gaps."""
    shapes = split_shapes(kernel, {name: view.shape for name, view in views.items()}, sizes)
    return {
        name: view if view.shape == shapes[name] else _split(kernel.buffer(name), view, shapes[name])
        for name, view in views.items()
    }


def _split(buffer: Buffer, view: View, shape: tuple[int, ...]) -> View:
    item = _ITEM_BYTES.get(view.dtype, buffer.dtype.itemsize)
    dense = tuple(step * item for step in contiguous(view.shape))
    wrong = any(a != b and n > 1 for a, b, n in zip(view.strides, dense, view.shape, strict=True))
    if wrong and 0 not in view.shape:
        message = f"argument {buffer.name} has gaps, and is flat: pass np.ascontiguousarray({buffer.name})"
        raise ArgumentError(message, "bad-stride")
    return view._replace(shape=shape, strides=tuple(step * item for step in contiguous(shape)))


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
    known = _NUMPY.get(dtype)  # in this machine's byte order
    if known is not None:
        return known
    if not dtype.isnative:
        raise ArgumentError(
            f"argument {name} is not in this machine's byte order: pass "
            f"{name}.astype({name}.dtype.newbyteorder('='))",
            "byte-order",
        )
    return dtype.name
