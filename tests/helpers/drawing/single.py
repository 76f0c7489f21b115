"""Marked scopes with more bounds than iterations: what is in them runs once, and any mark is legal around it."""

from __future__ import annotations

from random import Random

import dojoir
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, format_path
from dojoir.ir.words import GRID

CPU_MARKS = ("v", "v", "p", "u")
GPU_MARKS = ("bx", "bx", "lane", "by")
COUNTS = {"v": (4, 8, 16), "u": (2, 4), "p": (2, 3, 64), "lane": (32, 64)}
"""How many iterations the bounds of a scope with a mark leave open."""

MARKINGS = {"v": "vectorize({0})", "p": "parallelize({0})", "u": "unroll({0})"}


def run_once(kernel: Kernel, random: Random, marks: tuple[str, ...]) -> Kernel:
    """The kernel with some neighbours in a scope of extent 1 that is split, `1` around `min(256, 1 - 256*{0})`, the
    inner one with one of the marks: as a schedule leaves a step of which all threads but one stay out. Each move is
    checked; the kernel as it is where none is legal."""
    places = [place for place in _places(kernel) if not _has_marks(kernel, place[0])]
    random.shuffle(places)
    for path, room in places[:6]:
        mark, place = random.choice(marks), format_path(path)
        moves = [
            f"add_scope({place}, {random.randint(1, room)})",
            f"split({place}, {random.choice(COUNTS.get(mark, (32, 64, 256)))})",
        ]
        if mark != "none":
            moves.append(MARKINGS.get(mark, f"bind({{0}}, {mark})").format(f"{place}.0"))
        if mark not in MARKINGS and mark not in ("none", *GRID) and random.random() < 0.7:
            moves.append(f"bind({place}, gx)")
        trace = dojoir.Trace(kernel)
        try:
            for move in moves:
                trace.apply(move)
        except dojoir.IllegalMove:
            continue
        return trace.kernel
    return kernel


def _places(kernel: Kernel) -> list[tuple[Path, int]]:
    """The path of each node, and how many siblings there are from it on."""
    bodies: list[tuple[Path, tuple[Node, ...]]] = [((), kernel.body)]
    bodies += [(path, node.body) for path, node in kernel.walk() if isinstance(node, Scope | Guard)]
    return [((*path, n), len(body) - n) for path, body in bodies for n in range(len(body))]


def _has_marks(kernel: Kernel, path: Path) -> bool:
    """Whether a scope around a node or in it has a mark."""
    around = [kernel.at(path[:n]) for n in range(1, len(path))]
    inside = [node for at, node in kernel.walk() if at[: len(path)] == path]
    return any(isinstance(node, Scope) and node.marks for node in (*around, *inside))
