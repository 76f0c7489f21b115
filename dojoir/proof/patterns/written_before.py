"""Whether what is read of one buffer was written: the core's answer about one buffer, kept."""

from __future__ import annotations

from dojoir.ir.nodes import Buffer, Kernel
from dojoir.proof.core.written import find_unwritten, is_seen_written
from dojoir.proof.refute.small_run import reads_unwritten
from dojoir.support.memo import Memo


def is_written(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether every read of a buffer is of an element that the caller gave, or that was assigned before. Every
    index must be in bounds."""
    if buffer.role in {"in", "inout"}:
        return True
    key = (kernel, buffer.name)
    found = _known.get(key)
    return found if found is not None else _known.put(key, _is_written(kernel, buffer))


def _is_written(kernel: Kernel, buffer: Buffer) -> bool:
    if is_seen_written(kernel, buffer):
        return True
    return not reads_unwritten(kernel) and find_unwritten(kernel, buffer) is None


_known: Memo[tuple[Kernel, str], bool] = Memo(512)
