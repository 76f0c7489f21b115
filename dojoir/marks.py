"""What the marks of a scope ask of the tree around and inside it, whatever the data."""

from __future__ import annotations

from dojoir.affine import Affine
from dojoir.errors import Diagnostic
from dojoir.ir import Guard, Kernel, Node, Path, Scope, Statement, format_path
from dojoir.locate import place

MAX_UNROLL = 256
"""The largest extent of a scope that may be unrolled."""


def mark_error(kernel: Kernel) -> Diagnostic | None:
    """What is wrong with the marks of a kernel, or None. Independence of iterations is another question."""
    for path, node in kernel.walk():
        if isinstance(node, Scope) and node.marks:
            found = _scope_error(kernel, path, node)
            if found is not None:
                code, message = found
                source, span = place(kernel, path)
                return Diagnostic(code, message, span, source)
    return None


def constant_bound(scope: Scope) -> int | None:
    """The smallest constant among the bounds of an extent: it never runs more often."""
    constants = [bound.offset for bound in scope.extent.bounds if bound.is_constant]
    return min(constants) if constants else None


def _scope_error(kernel: Kernel, path: Path, scope: Scope) -> tuple[str, str] | None:
    name = f"the scope at {format_path(path)}"
    around: set[str] = set()
    node: Kernel | Node = kernel
    for child in path[:-1]:
        assert not isinstance(node, Statement)
        node = node.body[child]
        if isinstance(node, Scope):
            around.update(node.marks)
    for mark in scope.marks:
        if mark != "u" and mark != "p" and mark in around:
            return "nested-mark", f"{name} is marked `{mark}` inside another scope marked `{mark}`"
    if "v" in scope.marks and len(scope.marks) > 1:
        return (
            "mark-clash",
            f"{name} is marked `v` and `{next(m for m in scope.marks if m != 'v')}`; split it first",
        )
    if "v" in around and "p" in scope.marks:
        return "nested-mark", f"{name} is marked `p` inside a scope marked `v`"
    if "u" in scope.marks:
        bound = constant_bound(scope)
        if bound is None:
            return "open-extent", f"{name} is marked `u`, which needs a constant extent; split it first"
        if bound > MAX_UNROLL:
            return (
                "large-extent",
                f"{name} is marked `u`, and {bound} copies are more than {MAX_UNROLL}; split it first",
            )
    if "v" in scope.marks:
        return _lane_error(scope, kernel.depth_of(path), name)
    return None


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
