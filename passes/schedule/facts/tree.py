"""The inside of a node: its children, marks and innermost scopes."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, Statement
from dojoir.passes.schedule.facts.strides import is_leaf


def children(node: Scope | Guard, path: Path) -> list[Path]:
    """The paths of what is right inside of a node."""
    return [(*path, i) for i in range(len(node.body))]


def plain_scopes(kernel: Kernel) -> Iterator[tuple[Path, Scope]]:
    """The scopes with one bound, without marks and hints, in the order of the text."""
    for path, node in kernel.walk():
        if isinstance(node, Scope) and not node.marks and not node.hints and len(node.extent.bounds) == 1:
            yield path, node


def is_marked(node: Node) -> bool:
    """Whether a scope inside a node, or itself, has a mark."""
    if isinstance(node, Statement):
        return False
    return bool(isinstance(node, Scope) and node.marks) or any(is_marked(child) for child in node.body)


def innermost(node: Node, path: Path) -> Iterator[Path]:
    """The paths of the scopes in a node, itself among them, that have no other inside."""
    if isinstance(node, Scope) and is_leaf(node):
        yield path
    elif not isinstance(node, Statement):
        for i, child in enumerate(node.body):
            yield from innermost(child, (*path, i))
