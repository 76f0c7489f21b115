"""Arrays of elements of four bits: two codes in each byte of a packed one, as one code a byte, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dojoir.ir.nodes import Buffer
from dojoir.ir.packing import packed_dim

Array = npt.NDArray[np.generic]


def unpacked_shape(buffer: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the elements of a buffer whose array has this shape."""
    if not buffer.packed or len(shape) != len(buffer.dims):
        return shape
    dim = packed_dim(buffer)
    return (*shape[:dim], 2 * shape[dim], *shape[dim + 1 :])


def unpacked(buffer: Buffer, array: Array) -> Array:
    """The elements of a buffer, a byte each, of an array as a call takes it; itself, where they have 8 bits.
    Of an i4 or u4 that is not packed, the low half of a byte counts."""
    if not buffer.packed:
        return _signed(buffer, array.view(np.uint8)) if buffer.dtype.is_nibble else array
    dim, codes = packed_dim(buffer), array.view(np.uint8)
    halves = np.stack([codes & 0xF, codes >> 4], axis=dim + 1)
    return _signed(buffer, halves.reshape(unpacked_shape(buffer, array.shape)))


def stored_box(buffer: Buffer, box: tuple[slice, ...]) -> tuple[slice, ...]:
    """The part of the array of a call which holds a box of elements: one that begins and ends between bytes, where
    they are packed."""
    if not buffer.packed:
        return box
    dim = packed_dim(buffer)
    return (*box[:dim], slice(box[dim].start // 2, box[dim].stop // 2), *box[dim + 1 :])


def _signed(buffer: Buffer, codes: npt.NDArray[np.uint8]) -> Array:
    """The numbers, or the codes of floats, of the low halves of bytes."""
    low = codes & 0xF
    return ((low ^ 8) - 8 if buffer.dtype.kind == "i" else low).astype(np.uint8).view(buffer.dtype.stored)


def packed(buffer: Buffer, array: Array) -> Array:
    """The array of bytes that holds these elements; itself, where the buffer is not packed."""
    if not buffer.packed:
        return array
    rest = (slice(None),) * packed_dim(buffer)
    low, high = (array[(*rest, slice(half, None, 2))].view(np.uint8) for half in (0, 1))
    return (low & 0xF) | (high << 4)
