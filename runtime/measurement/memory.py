"""Memory to time kernels on: on huge pages where the system has them, touched before it is used, and compared."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import numpy as np

HUGE_PAGE = 2 << 20
DEFAULT_LAST_LEVEL = 32 << 20


def touched(size: int) -> np.ndarray:
    """`size` bytes, all zero, each page already there. Their address is a multiple of 2 MiB if they fill that."""
    if size < HUGE_PAGE:
        memory = np.zeros(size + 64, np.uint8)
        start = -int(memory.__array_interface__["data"][0]) % 64
        return memory[start : start + size]
    if hasattr(mmap, "MADV_HUGEPAGE"):
        region = mmap.mmap(-1, size + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has none
        with contextlib.suppress(OSError):
            region.madvise(mmap.MADV_HUGEPAGE)
    else:
        region = mmap.mmap(-1, size + HUGE_PAGE)
    whole = np.frombuffer(region, np.uint8)
    start = -int(whole.__array_interface__["data"][0]) % HUGE_PAGE
    memory = whole[start : start + size]
    memory[:] = 0
    return memory


def last_level_cache() -> int:
    """The size in bytes of the largest cache of the first core, or a guess."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = path.read_text().strip()
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
            sizes.append(int(text.rstrip("KMG")) * unit)
    return max(sizes, default=DEFAULT_LAST_LEVEL)


def physical_memory() -> int:
    """The memory of the machine in bytes, or a guess."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 4 << 30


def marked(arrays: Iterable[np.ndarray]) -> int:
    """A short digest of arrays: comparing them element by element takes as long as many calls."""
    found = 0
    for array in arrays:
        found = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, found)
    return found
