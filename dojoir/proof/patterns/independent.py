"""Buffers in which iterations of a scope surely do not conflict: all that may touch one element agree in its
iterator, and each private value is written and read in one iteration."""

from __future__ import annotations

import islpy as isl

from dojoir.ir.nodes import Kernel, Path
from dojoir.ir.paths import is_inside
from dojoir.proof.core.independence import may_share, private_buffers
from dojoir.proof.core.written import assigning, comes_and_goes
from dojoir.proof.facts.aliasing import agreement, conflicts, never_meet
from dojoir.sets.kernel_sets import iterators, sets_of


def seen_apart(kernel: Kernel, path: Path, mark: str) -> frozenset[str]:
    """The buffers through which no two iterations of the scope at `path` conflict under `mark`, as far as the
    text shows. Nothing is said of the other buffers."""
    sets, depth, private = sets_of(kernel), kernel.depth_of(path), private_buffers(kernel, path, mark)
    numbers = [k for k in sets.numbers if is_inside(kernel.sites[k].path, path)]

    def share(one: int, other: int) -> bool:
        return sets.commute(one, other) and all(may_share(sets, number, depth, mark) for number in (one, other))

    unseen = {
        name
        for name in private
        if not (comes_and_goes(kernel, kernel.buffer(name)) or begins_anew(kernel, path, name))
    }
    unseen |= {buffer.name for buffer in kernel.buffers if buffer.packed and buffer.name not in private}
    for k, a, n, b in conflicts(sets, numbers, share, private):
        if a.buffer not in unseen:
            left, right = (kernel.sites[k], a), (kernel.sites[n], b)
            if depth not in agreement(kernel, left, right, depth) and not never_meet(kernel, left, right, depth):
                unseen.add(a.buffer)
    touched = {name for k in numbers for name in kernel.sites[k].statement.buffers}
    return frozenset(touched - unseen)


def begins_anew(kernel: Kernel, path: Path, name: str) -> bool:
    """Whether each read of a buffer that only the scope at `path` uses comes after an assignment to its element in
    the same iteration of the scope. Then no value crosses: that hides what earlier iterations wrote. The flow tells
    as much of more buffers, and takes up to thirty times as long."""
    sets, outer = sets_of(kernel), iterators(kernel.depth_of(path) + 1)
    reads = [read for k in kernel.users[name] for read in sets.reads[k] if read.access.buffer == name]
    writers = assigning(kernel, kernel.buffer(name))
    times = [sets.schedule_text(read.site, read) for read in reads], [sets.schedule_text(k) for k in writers]
    before = isl.UnionMap.lex_gt_union_map(*(sets.map(*texts) for texts in times))
    turns = (sets.map(*(f"{text.partition(' -> ')[0]} -> [{outer}]" for text in texts)) for texts in times)
    one, other = turns
    read = sets.map(*map(sets.read_text, reads))
    given = read.apply_range(sets.map(*map(sets.write_text, writers)).reverse())
    hidden = given.intersect(before).intersect(one.apply_range(other.reverse()))
    return bool(read.domain().is_subset(hidden.domain()))
