"""What the quick answers say of a slice of a kernel."""

from __future__ import annotations

from dojoir.ir.nodes import Kernel
from dojoir.proof.check import InstanceMap, _is_seen_to_differ, _meaning_of
from dojoir.proof.difference import change_of
from dojoir.proof.patterns.written_before import is_written, reads_no_more
from dojoir.proof.slice import slice_of


def said_of_a_slice(before: Kernel, after: Kernel, instances: InstanceMap) -> bool | None:
    """What a slice says of two kernels, or None where it says nothing."""
    change = change_of(before, after, instances)
    part = slice_of(before, after, instances, change) if change is not None else None
    if change is None or part is None:
        return None
    meant = not _is_seen_to_differ(part) and _meaning_of(part)
    if not meant:
        return meant
    return all(
        reads_no_more(before, after, change, name) or is_written(after, after.buffer(name)) for name in part.filled
    )
