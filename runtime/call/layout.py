"""The memory of an argument: its strides by `order` and `pad`, and arrays in that layout."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Buffer
from dojoir.runtime.call.dlpack import contiguous

ALIGNMENT = 64
"""Bytes: what new arrays are aligned to at least. A cache line, and the widest vector register."""


def array_shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of the array that stands for a buffer."""
    return tuple(1 if dim.collapsed else max(0, dim.extent.evaluate(sizes)) for dim in buffer.dims)


def storage_shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The same with the padding that its memory has."""
    shape = array_shape(buffer, sizes)
    return tuple(extent + more for extent, more in zip(shape, buffer.pad or (0,) * len(shape), strict=True))


def storage_bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """How much memory the array takes, padding included."""
    return prod(storage_shape(buffer, sizes)) * buffer.dtype.itemsize


def strides_of(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The strides, in elements, one for each dimension as declared."""
    stored = storage_shape(buffer, sizes)
    order = buffer.order or tuple(range(len(stored)))
    strides = [0] * len(stored)
    for d, step in zip(order, contiguous(tuple(stored[d] for d in order)), strict=True):
        strides[d] = step
    return tuple(strides)


def place(memory: np.ndarray, buffer: Buffer, sizes: Mapping[str, int]) -> np.ndarray:
    """The array of a buffer on `memory`: at least `storage_bytes` of type uint8."""
    dtype = np.dtype(buffer.dtype.stored)
    strides = tuple(stride * dtype.itemsize for stride in strides_of(buffer, sizes))
    return np.ndarray(array_shape(buffer, sizes), dtype, memory.data, 0, strides)


def allocate(buffer: Buffer, sizes: Mapping[str, int]) -> np.ndarray:
    """A new array for a buffer, aligned as it asks, its contents arbitrary."""
    align = max(ALIGNMENT, buffer.align)
    needed = storage_bytes(buffer, sizes)
    try:
        memory = np.empty(needed + align, np.uint8)
    except (ValueError, MemoryError):
        raise ArgumentError(
            f"{buffer.name} would take {needed} bytes: pass smaller sizes", "size-too-large"
        ) from None
    start = -int(memory.__array_interface__["data"][0]) % align
    return place(memory[start:], buffer, sizes)
