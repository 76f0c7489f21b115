"""Whether what is read of one buffer was written: the core's answer about one buffer, kept, and what a copy reads.

In a kernel that is well-formed, what a node reads of an array, or adds to, was assigned before. If the node assigns
nothing of the array itself, that was so when the node began, in that iteration of the scopes around it. So whatever
stands in its place may begin by reading, in the same iteration, any of the elements that it reads there.
"""

from __future__ import annotations

from dojoir.ir.nodes import Access, Buffer, Kernel
from dojoir.proof.core.written import find_unwritten, is_seen_written
from dojoir.proof.difference import Change
from dojoir.proof.refute.small_run import reads_unwritten
from dojoir.sets.kernel_sets import iterators, sets_of
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


def reads_no_more(before: Kernel, after: Kernel, change: Change, buffer: str) -> bool:
    """Whether statements of the new kernel read elements of a buffer within the change that were surely read there
    before, of the kernel before which is well-formed, and not first assigned there.

    Raises isl.Error where the step limit of the context is reached.
    """
    plain = (before.sites[k].statement for k in change.were)
    if any(s.target.buffer == buffer and s.accumulation is None for s in plain):
        return False
    old, new = (_reads(*given, change.depth, buffer) for given in ((before, change.were), (after, change.are)))
    if old is None or new is None:
        return False
    if set(new) <= set(old):
        return True
    sets = sets_of(before)
    key = (sets.sizes, old, new)
    found = _found.get(key)
    if found is None:
        found = _found.put(key, sets.map(*new).range().is_subset(sets.map(*old).range()))
    return found


_found: Memo[tuple[str, tuple[str, ...], tuple[str, ...]], bool] = Memo(2048)


def _reads(kernel: Kernel, numbers: range, depth: int, buffer: str) -> tuple[str, ...] | None:
    """The elements of a buffer that some statements read or add to in each iteration of the scopes around them,
    as the ranges of maps. None where an index comes from data."""
    sets, found = sets_of(kernel), []
    for k in numbers:
        site = kernel.sites[k]
        statement = site.statement
        mine = [read.access for read in sets.reads[k] if read.access.buffer == buffer]
        if statement.accumulation is not None and statement.target.buffer == buffer:
            mine.append(statement.target)
        for access in mine:
            if any(isinstance(index, Access) for index in access.indices):
                return None
            element, where = sets.element(access, {}, storage=False), sets.constraints(site.ancestors)
            found.append(f"[{iterators(len(site.scopes))}] -> [[{iterators(depth)}] -> {element}] : {where}")
    return tuple(dict.fromkeys(found))
