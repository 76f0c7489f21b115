"""The values of the forward pass that the backward pass needs, computed again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Access, Const, Op
from dojoir.ir.nodes import Buffer, Guard, Kernel, Node, Path, Scope, Statement


def needed(kernel: Kernel, first: Collection[str], given: Collection[str]) -> frozenset[str]:
    """The buffers of a kernel that some of them are computed from, themselves included; what is given is not
    computed."""
    found = set(first)
    while True:
        before = len(found)
        for site in kernel.sites:
            if site.statement.target.buffer in found - set(given):
                found |= site.statement.buffers
        if len(found) == before:
            return frozenset(found)


def recomputed(
    kernel: Kernel, buffers: Collection[str], kept: Mapping[tuple[int, Access], Buffer]
) -> tuple[Node, ...]:
    """The statements that write some buffers, with their scopes; before the statement of that number, each value
    that is kept is written to its array."""
    numbers = {site.path: k for k, site in enumerate(kernel.sites)}

    def visit(nodes: tuple[Node, ...], path: Path) -> tuple[Node, ...]:
        found: list[Node] = []
        for i, node in enumerate(nodes):
            here = (*path, i)
            if isinstance(node, Statement):
                found += _keeping(numbers[here], node, kept)
                if node.target.buffer in buffers:
                    found.append(node)
                continue
            inner = visit(node.body, here)
            if inner:
                found.append(
                    Scope(node.extent, inner) if isinstance(node, Scope) else Guard(node.conditions, inner)
                )
        return tuple(found)

    return visit(kernel.body, ())


def _keeping(number: int, node: Statement, kept: Mapping[tuple[int, Access], Buffer]) -> list[Node]:
    found: list[Node] = []
    for (statement, access), buffer in kept.items():
        if statement == number:
            target = Access(buffer.name, tuple(map(Affine.iterator, range(len(buffer.dims)))))
            if node.condition is None:
                found.append(Statement(target, "=", access))
            else:
                zero = Const(0) if not buffer.dtype.is_float else Const(0.0)
                found.append(Statement(target, "=", zero))
                found.append(Statement(target, "=", Op("when", (node.condition, access))))
    return found
