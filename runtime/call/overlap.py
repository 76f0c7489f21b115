"""Whether two arrays of a call share an element: their hulls may overlap where neither has one of the other's, as
two blocks of columns of one matrix do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dojoir.runtime.call.views import View, as_numpy

HARDEST = 100_000
"""How many cases the exact answer may look at: past that two arrays are taken to share."""


class ByteRuns(NamedTuple):
    """Bytes that an array is within: runs of `run` bytes, a multiple of `pitch` bytes apart (0: there is one)."""

    run: int
    pitch: int


def rows_of(shape: Sequence[int], strides: Sequence[int], item: int, steps: Sequence[int]) -> ByteRuns:
    """The rows of an array without negative strides, where those of the dimensions `steps` may leave gaps. Strides
    are in bytes."""
    if 0 in shape:
        return ByteRuns(0, 0)
    within = [(n - 1) * strides[d] for d, n in enumerate(shape) if d not in steps and n > 1]
    return ByteRuns(item + sum(within), math.gcd(*(strides[d] for d in steps if shape[d] > 1)))


def are_beside(first: int, one: ByteRuns, second: int, other: ByteRuns) -> bool:
    """Whether the rows of two arrays, which start at `first` and `second`, are seen to be beside each other. With
    g the greatest common divisor of their pitches, all bytes of the first are within [0, run) mod g, and those of
    the second within [d, d + run), where d = (second - first) mod g."""
    common = math.gcd(one.pitch, other.pitch)
    if not common:
        return False
    apart = (second - first) % common
    return one.run <= apart and apart + other.run <= common


def share_elements(one: View, other: View, dtype: str, its: str) -> bool:
    """Whether two arrays have a byte in common: exactly, but for strides that make the question a hard one.
    `dtype` and `its` are types with as many bytes as those of their elements."""
    shares_memory: Any = np.shares_memory  # its stub knows two limits only
    try:
        return bool(shares_memory(as_numpy(one, dtype), as_numpy(other, its), max_work=HARDEST))
    except np.exceptions.TooHardError:
        return True
