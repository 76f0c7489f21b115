"""Buffers in which iterations of a scope surely do not conflict: all that may touch one element agree in its
iterator, and each private value is written and read in one iteration. No isl."""

from __future__ import annotations

from dojoir.ir.nodes import Kernel, Path
from dojoir.ir.paths import is_inside
from dojoir.proof.core.independence import may_share, private_buffers
from dojoir.proof.core.written import comes_and_goes
from dojoir.proof.facts.aliasing import agreement, conflicts, never_meet
from dojoir.sets.kernel_sets import sets_of


def seen_apart(kernel: Kernel, path: Path, mark: str) -> frozenset[str]:
    """The buffers through which no two iterations of the scope at `path` conflict under `mark`, as far as the
    text shows. Nothing is said of the other buffers."""
    sets, depth, private = sets_of(kernel), kernel.depth_of(path), private_buffers(kernel, path, mark)
    numbers = [k for k in sets.numbers if is_inside(kernel.sites[k].path, path)]

    def share(one: int, other: int) -> bool:
        return sets.commute(one, other) and all(may_share(sets, number, depth, mark) for number in (one, other))

    unseen = {name for name in private if not comes_and_goes(kernel, kernel.buffer(name))}
    unseen |= {buffer.name for buffer in kernel.buffers if buffer.packed and buffer.name not in private}
    for k, a, n, b in conflicts(sets, numbers, share, private):
        if a.buffer not in unseen:
            left, right = (kernel.sites[k], a), (kernel.sites[n], b)
            if depth not in agreement(kernel, left, right, depth) and not never_meet(kernel, left, right, depth):
                unseen.add(a.buffer)
    touched = {name for k in numbers for name in kernel.sites[k].statement.buffers}
    return frozenset(touched - unseen)
