"""The memory of an argument: its strides by `order` and `pad`, and arrays in that layout; what strides an argument
may have whose strides a call gives. Where one is made here, its rows are `gap` elements further apart than they
are long."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Buffer
from dojoir.runtime.call.dlpack import contiguous
from dojoir.types.in_bytes import byte_buffer

ALIGNMENT = 64
"""Bytes: what new arrays are aligned to at least. A cache line, and the widest vector register."""


def array_shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of the array that stands for a buffer: of bytes, for one that is packed."""
    buffer = byte_buffer(buffer)
    return tuple(1 if dim.collapsed else max(0, dim.extent.evaluate(sizes)) for dim in buffer.dims)


def storage_shape(buffer: Buffer, sizes: Mapping[str, int], gap: int = 0) -> tuple[int, ...]:
    """The same with the padding that its memory has."""
    buffer = byte_buffer(buffer)
    shape = array_shape(buffer, sizes)
    pad = buffer.pad or (0,) * len(shape)
    if buffer.steps:
        pad = tuple(0 if d == buffer.steps[0] else gap for d in range(len(shape)))
    return tuple(extent + more for extent, more in zip(shape, pad, strict=True))


def storage_bytes(buffer: Buffer, sizes: Mapping[str, int], gap: int = 0) -> int:
    """How much memory the array takes, padding included."""
    return prod(storage_shape(buffer, sizes, gap)) * buffer.dtype.itemsize


def strides_of(buffer: Buffer, sizes: Mapping[str, int], gap: int = 0) -> tuple[int, ...]:
    """The strides, in elements, one for each dimension as declared."""
    stored = storage_shape(buffer, sizes, gap)
    order = buffer.order or tuple(range(len(stored)))
    strides = [0] * len(stored)
    for d, step in zip(order, contiguous(tuple(stored[d] for d in order)), strict=True):
        strides[d] = step
    return tuple(strides)


def steps_of(buffer: Buffer, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The values of `buffer.steps` in a call, in elements, of an array of such a shape and such strides in bytes:
    1 or more each, and what is inside ends before the next begins. None where rows overlap or are not in the
    declared order, or the innermost dimension has gaps. What is never stepped along counts as dense."""
    item = buffer.dtype.itemsize
    steps = buffer.steps
    empty = 0 in shape
    inner = next(d for d in range(len(shape)) if d not in steps)
    if not empty and shape[inner] > 1 and strides[inner] != item:
        return None
    found: list[int] = []
    end = item * max(1, shape[inner])
    for d in reversed(steps):
        step = strides[d] if shape[d] > 1 and not empty else end
        if step < end or step % item:
            return None
        found.append(step // item)
        end = step * max(1, shape[d])
    return tuple(reversed(found))


def dense_steps(buffers: Iterable[Buffer], sizes: Mapping[str, int], gap: int = 0) -> tuple[int, ...]:
    """The values of `steps` for the arrays that are made here, one after another."""
    found: list[int] = []
    for buffer in buffers:
        if buffer.steps:
            item = buffer.dtype.itemsize
            strides = tuple(stride * item for stride in strides_of(buffer, sizes, gap))
            steps = steps_of(buffer, array_shape(buffer, sizes), strides)
            assert steps is not None
            found += steps
    return tuple(found)


def passed_strides(buffer: Buffer, sizes: Mapping[str, int], steps: Iterator[int]) -> tuple[int, ...]:
    """The strides of an array in elements, where those that a call passes come one after another from `steps`."""
    given = {d: next(steps) for d in buffer.steps}
    return tuple(given.get(d, 1 if given else stride) for d, stride in enumerate(strides_of(buffer, sizes)))


def array_at(address: int, buffer: Buffer, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The array of a buffer that lies at an address. Strides are in elements. It does not own its memory."""
    dtype = np.dtype(byte_buffer(buffer).dtype.stored)
    within = tuple(stride * dtype.itemsize for stride in strides)
    span = 0 if 0 in shape else dtype.itemsize + sum((n - 1) * step for n, step in zip(shape, within, strict=True))
    if not span:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * span).from_address(address)
    return np.ndarray(shape, dtype, memoryview(memory).cast("B"), 0, within)


def span_of(array: np.ndarray) -> int:
    """How many bytes an array without negative strides spans."""
    if not array.size:
        return 0
    return int(array.itemsize + sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)))


def place(memory: np.ndarray, buffer: Buffer, sizes: Mapping[str, int], gap: int = 0) -> np.ndarray:
    """The array of a buffer on `memory`: at least `storage_bytes` of type uint8."""
    dtype = np.dtype(byte_buffer(buffer).dtype.stored)
    strides = tuple(stride * dtype.itemsize for stride in strides_of(buffer, sizes, gap))
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
