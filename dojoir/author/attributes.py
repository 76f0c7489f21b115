"""The attributes that a program may give a buffer: how it lies in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from dojoir.author.expressions import Number


class Attributes(TypedDict, total=False):
    """How a buffer lies in memory: its dimensions from outermost to innermost, the elements added to each, and the
    bytes that its start is a multiple of; in shared memory, the bytes of rows in which chunks are exchanged. It
    also says whether stores bypass the caches (a number: where it has so many bytes or more), and whether a call
    gives the strides of all dimensions but the innermost. It says how many of the dimensions, one after another,
    are one of the array that it gives, whether elements share bytes, and what each call checks of the data of an
    input. That is: no two elements are equal, the largest that its lengths may be, and the largest step from one
    offset to the next (the name of a size, or an affine value)."""

    order: Sequence[int] | None
    pad: Sequence[int] | None
    swizzle: int
    align: int
    stream: bool | int
    strided: bool
    flat: Sequence[int] | None
    packed: bool
    distinct: bool
    lengths: str | Number | None
    offsets: str | Number | None
