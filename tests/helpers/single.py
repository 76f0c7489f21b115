"""Marked scopes with more bounds than iterations: what is in them runs once, and any mark is legal around it."""

from __future__ import annotations

from random import Random

import dojoir
from dojoir.ir.nodes import Guard, Kernel, Path, Scope, Statement, format_path

CPU_MARKS = ("v", "v", "p")
GPU_MARKS = ("bx", "bx", "lane", "by")
COUNTS = {"v": (4, 8, 16), "p": (2, 3, 64), "lane": (32, 64)}
"""How many iterations the bounds of a scope with a mark leave open."""


def run_once(kernel: Kernel, random: Random, marks: tuple[str, ...]) -> Kernel:
    """The kernel with some neighbours in a scope of extent 1 that is split, `1` around `min(256, 1 - 256*{0})`, and
    marked: as a schedule leaves a step that all threads but one stay out of. Each move is checked; the kernel as it
    is where none is legal."""
    places = [(path, len(body) - path[-1]) for path, body in _places(kernel) if not _has_marks(kernel, path)]
    random.shuffle(places)
    for path, room in places[:6]:
        mark = random.choice(marks)
        outer = random.choice(("gx", "gx", "")) if mark in GPU_MARKS else random.choice(("", "", "p"))
        trace = dojoir.Trace(kernel)
        count = random.choice(COUNTS.get(mark, (32, 64, 256)))
        place = format_path(path)
        moves = [f"add_scope({place}, {random.randint(1, room)})", f"split({place}, {count})"]
        moves += [_marking(f"{place}.0", mark)] if outer != mark else []
        moves += [_marking(place, outer)] if outer else []
        try:
            for move in moves:
                trace.apply(move)
        except dojoir.IllegalMove:
            continue
        return trace.kernel
    return kernel


def _marking(place: str, mark: str) -> str:
    names = {"v": "vectorize", "p": "parallelize"}
    return f"{names[mark]}({place})" if mark in names else f"bind({place}, {mark})"


def _places(kernel: Kernel) -> list[tuple[Path, tuple[Scope | Guard | Statement, ...]]]:
    """Each node with all its siblings."""
    found = [((n,), kernel.body) for n in range(len(kernel.body))]
    for path, node in kernel.walk():
        if not isinstance(node, Statement):
            found += [((*path, n), node.body) for n in range(len(node.body))]
    return found


def _has_marks(kernel: Kernel, path: Path) -> bool:
    """Whether a scope around a node or in it has a mark."""
    around = [kernel.at(path[:n]) for n in range(1, len(path))]
    inside = [node for at, node in kernel.walk() if at[: len(path)] == path]
    return any(isinstance(node, Scope) and node.marks for node in (*around, *inside))
