"""The requirements of the marks and hints of a scope on the tree around and inside it, whatever the data."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, Statement, format_path
from dojoir.ir.places import ancestors
from dojoir.ir.where import diagnostic_at
from dojoir.ir.words import BLOCK, LEVELS, MAX_BLOCK, MAX_WAVE
from dojoir.proof.core.hint_rules import hint_error

MAX_UNROLL = 256
"""The largest extent of a scope that may be unrolled."""

_LEVEL_NAMES = ("of the grid", "of a block", "in lanes")


def mark_error(kernel: Kernel) -> Diagnostic | None:
    """The error in the marks and hints of a kernel, or None. Independence of iterations is another question."""
    for path, node in marked(kernel):
        found = scope_error(kernel, path, node) if node.marks else None
        if found is not None:
            return diagnostic_at(kernel, path, *found)
        wrong = hint_error(kernel, path, node) if node.hints else None
        if wrong is not None:
            return wrong
    return None


def marked(kernel: Kernel) -> Iterator[tuple[Path, Scope]]:
    """The scopes that have marks or hints, in the order of the text."""

    def visit(nodes: tuple[Node, ...], prefix: Path) -> Iterator[tuple[Path, Scope]]:
        for i, node in enumerate(nodes):
            if isinstance(node, Statement) or not node.marked:
                continue
            if isinstance(node, Scope) and (node.marks or node.hints):
                yield (*prefix, i), node
            yield from visit(node.body, (*prefix, i))

    return visit(kernel.body, ())


def scope_error(kernel: Kernel, path: Path, scope: Scope) -> tuple[str, str] | None:
    """The error in the marks of the scope at `path`, or None. The child of the kernel that contains the scope
    reports it."""
    name = f"the scope at {format_path(path)}"
    outer = [node for node in ancestors(kernel, path) if isinstance(node, Scope)]
    around = {mark for above in outer for mark in above.marks}
    for mark in scope.marks:
        if (
            mark != "u"
            and mark != "p"
            and mark in around
            and not (mark == "lane" and _continues_lanes(kernel, path))
        ):
            return "nested-mark", f"{name} is marked `{mark}` inside another scope marked `{mark}`"
    if "v" in scope.marks and len(scope.marks) > 1:
        return (
            "mark-clash",
            f"{name} is marked `v` and `{next(m for m in scope.marks if m != 'v')}`; split it first",
        )
    if "p" in scope.marks and around & {"v", *LEVELS}:
        other = next(m for m in ("v", *LEVELS) if m in around)
        return "nested-mark", f"{name} is marked `p` inside a scope marked `{other}`"
    if "u" in scope.marks:
        bound = scope.constant_bound
        if bound is None:
            return "open-extent", f"{name} is marked `u`, which needs a constant extent; split it first"
        if bound > MAX_UNROLL:
            return (
                "large-extent",
                f"{name} is marked `u`, and {bound} copies are more than {MAX_UNROLL}; split it first",
            )
    if "v" in scope.marks:
        return _lane_error(scope, kernel.depth_of(path), name)
    if any(mark in LEVELS for mark in scope.marks):
        return _device_error(scope, outer, name)
    return None


def _continues_lanes(kernel: Kernel, path: Path) -> bool:
    """Whether a scope is all that a scope of lanes has: the two count the lanes of a warp, as two digits do."""
    around = kernel.at(path[:-1])
    return isinstance(around, Scope) and "lane" in around.marks and len(around.body) == 1


def _device_error(scope: Scope, outer: list[Scope], name: str) -> tuple[str, str] | None:
    """A launch is a box of blocks, each a box of threads. The marks nest in that order, their extents do not
    depend on one another, and those of threads have a constant bound; fewer of them may run in some blocks."""
    mark = next(m for m in scope.marks if m in LEVELS)
    if len(scope.marks) > 1:
        other = next(m for m in scope.marks if m != mark)
        return "mark-clash", f"{name} is marked `{mark}` and `{other}`; split it first"
    level, threads, lanes = LEVELS[mark], 1, 1
    for depth, above in enumerate(outer):
        for other in above.marks:
            if other in ("p", "v"):
                return "nested-mark", f"{name} is marked `{mark}` inside a scope marked `{other}`"
            if LEVELS.get(other, level) > level:
                where = f"{_LEVEL_NAMES[level]} (`{mark}`) inside one {_LEVEL_NAMES[LEVELS[other]]} (`{other}`)"
                return "nested-mark", f"{name} is {where}; swap_scopes brings it outside"
            if other in LEVELS and _depends(scope, depth, level, LEVELS[other]):
                return (
                    "dependent-extent",
                    f"the extent of {name}, marked `{mark}`, depends on {{{depth}}} of `{other}`",
                )
            if other in BLOCK:
                threads *= above.constant_bound or 1
            elif other == "lane":
                lanes *= above.constant_bound or 1
    bound = scope.constant_bound
    if level == 0:
        return None
    if bound is None:
        return "open-extent", f"{name} is marked `{mark}`, which needs a constant extent; split it first"
    most = MAX_WAVE // lanes if level == 2 else MAX_BLOCK // threads
    if bound > most:
        limit = "a warp or wavefront has" if level == 2 else "the scopes of a block have room for"
        return "large-extent", f"{name} is marked `{mark}`, and {limit} {most} at most; split it first"
    return None


def _depends(scope: Scope, depth: int, level: int, other: int) -> bool:
    """Whether an extent depends on the iterator at `depth`, of a scope of level `other`, as that of a launch may
    not. Threads may be fewer in some blocks, where a constant says how many there are at most."""
    if not any(depth in bound.iterators for bound in scope.extent.bounds):
        return False
    return not (other == 0 and level > 0 and scope.constant_bound is not None)


def _lane_error(scope: Scope, lane: int, name: str) -> tuple[str, str] | None:
    """A scope inside lanes must run equally often in each of them. A guard may differ: it is a mask."""

    def uses(bounds: tuple[Affine, ...]) -> bool:
        return any(lane in bound.iterators for bound in bounds)

    def visit(nodes: tuple[Node, ...]) -> tuple[str, str] | None:
        for node in nodes:
            if isinstance(node, Scope) and uses(node.extent.bounds):
                return (
                    "lane-extent",
                    f"an extent inside {name}, which is marked `v`, depends on its iterator {{{lane}}}",
                )
            if isinstance(node, Scope | Guard):
                found = visit(node.body)
                if found is not None:
                    return found
        return None

    return visit(scope.body)
