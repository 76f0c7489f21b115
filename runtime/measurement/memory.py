"""Memory to time kernels on: on huge pages where the system has them, and touched before it is used."""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path

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
