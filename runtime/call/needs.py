"""The memory of a call, added up before any of it is requested."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dojoir.errors import RunError
from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.layout import storage_bytes
from dojoir.runtime.call.scalars import takes_value

MEMORY_INFO = Path("/proc/meminfo")


def check_memory(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    """Raises RunError where the arguments and temporaries of a call take more than this machine has free: there,
    the system would end the process without a word."""
    arguments = sum(storage_bytes(b, sizes) for b in kernel.arguments if not takes_value(b))
    temporaries = sum(storage_bytes(b, sizes) for b in kernel.buffers if b.role == "tmp")
    free = free_memory()
    if free is not None and arguments + temporaries > free:
        chosen = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise RunError(
            f"kernel {kernel.name} at {chosen or 'its sizes'} takes {_spelled(arguments + temporaries)} of memory "
            f"({_spelled(arguments)} of arguments, {_spelled(temporaries)} of temporaries), and this machine has "
            f"{_spelled(free)} free: choose smaller sizes, or give temporaries fewer dimensions (reuse_dims)",
            "out-of-memory",
        )


def free_memory() -> int | None:
    """The bytes that this machine can give, as far as the system says."""
    try:
        lines = dict(line.split(":", 1) for line in MEMORY_INFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _spelled(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} PiB"
