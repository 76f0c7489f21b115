"""Memory with guard pages: an access just outside of an array stops the process at once.

An array lies flush against the guard page after it, or the one before it; what its alignment leaves free
between the two is filled with a known pattern, which a wrong write changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from functools import cache

import numpy as np

from dojoir.support.frozen import dataclass

HUGE_PAGE = 2 << 20
LOOKED_AT = 256 << 10
"""How many bytes behind an array on huge pages hold the pattern."""

STAGGER = 320
"""By how many bytes more than the one before a small array begins behind the start of a page, where it is timed."""

PATTERN = 0xA5
"""Every byte of the slack, and of an output before the kernel writes it where NaN is not used."""


@dataclass(frozen=True)
class Guarded:
    """`memory` is what was asked for; `slack` is what lies between it and the guards, filled with PATTERN."""

    memory: np.ndarray
    slack: tuple[np.ndarray, ...]

    @property
    def is_intact(self) -> bool:
        """Whether nothing has written to the slack."""
        return all(bool((part == PATTERN).all()) for part in self.slack)


def guarded(size: int, align: int, at_end: bool) -> Guarded:
    """`size` bytes aligned to `align`, as near as that allows to the guard page behind them, or to the one in
    front of them. The memory lives as long as a view of it does."""
    page = mmap.PAGESIZE
    spare = align if align > page else 0
    inside = -(-max(size + spare, 1) // page) * page
    region = mmap.mmap(-1, inside + 2 * page)
    whole = np.frombuffer(region, np.uint8)
    base = int(whole.__array_interface__["data"][0])
    _forbid(base, page)
    _forbid(base + page + inside, page)
    usable = whole[page : page + inside]
    usable[:] = PATTERN
    first = base + page
    start = inside - size - (first + inside - size) % align if at_end else -first % align
    return Guarded(usable[start : start + size], (usable[:start], usable[start + size :]))


def fenced(size: int, shift: int = 0) -> Guarded:
    """`size` bytes to time on, all zero: on huge pages where they fill one, with PATTERN and a guard page on both
    sides. `shift` bytes, a multiple of 64, are before smaller ones, so that not all begin at the same place of a
    page. What is a multiple of huge pages ends at one; else the guard is at the end of the last."""
    unit = HUGE_PAGE if size >= HUGE_PAGE else mmap.PAGESIZE
    shift = 0 if size >= HUGE_PAGE else shift
    inside = -(-(shift + size) // unit) * unit or unit
    private = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    length = inside + 2 * mmap.PAGESIZE + unit
    region = mmap.mmap(-1, length, private) if private else mmap.mmap(-1, length)
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            region.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(region, np.uint8)
    base = int(whole.__array_interface__["data"][0])
    start = mmap.PAGESIZE + -(base + mmap.PAGESIZE) % unit
    _forbid(base + start - mmap.PAGESIZE, mmap.PAGESIZE)
    _forbid(base + start + inside, mmap.PAGESIZE)
    first, end = start + shift, start + shift + size
    memory, before = whole[first:end], whole[start:first]
    behind = whole[end : min(end + LOOKED_AT, start + inside)]
    memory[:], before[:], behind[:] = 0, PATTERN, PATTERN
    return Guarded(memory, (before, behind))


def _forbid(address: int, size: int) -> None:
    """Takes every right to pages away, where the system can: mprotect with PROT_NONE."""
    protect = _mprotect()
    if protect is not None and protect(address, size, 0):
        raise OSError(ctypes.get_errno(), "mprotect failed")


@cache
def _mprotect() -> ctypes._NamedFuncPointer | None:
    try:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
    except (AttributeError, OSError, TypeError):  # a system without it: the pattern still tells
        return None
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    protect.restype = ctypes.c_int
    return protect
