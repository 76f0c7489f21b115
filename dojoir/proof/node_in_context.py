"""A node and what is around it: the cache key of answers about its iterations, and about a local change of it.

Two kernels that agree in this may differ anywhere else. Equal ones may have other labels.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import ClassVar

from dojoir.ir.nodes import Buffer, Condition, Extent, Guard, Kernel, Node, Path, Size
from dojoir.ir.places import ancestors, siblings
from dojoir.support.frozen import dataclass, hash_once
from dojoir.support.memo import Memo


@hash_once
@dataclass(frozen=True)
class NodeInContext:
    """A node; the sizes, facts and fp mode of its kernel; the extents and conditions around it; and of the buffers
    that it uses their declarations, and whether they are used elsewhere. Marks and hints around it are left out."""

    held_bytes: ClassVar[int] = 6000
    """Approximate size of one: a node is a part of one kernel, and seldom of the next."""

    header: tuple[tuple[Size, ...], tuple[Condition, ...], str]
    around: tuple[Extent | tuple[Condition, ...], ...]
    node: Node
    buffers: tuple[tuple[Buffer, bool], ...]


def node_in_context(kernel: Kernel, path: Path) -> NodeInContext:
    """The node at a path, and the nodes around it."""
    node = siblings(kernel, path)[path[-1]]
    made = NodeInContext(
        (kernel.sizes, kernel.facts, kernel.fp),
        _around(kernel, path),
        node,
        tuple((kernel.buffer(name), others) for name, others in _used(kernel, path, node)),
    )
    known = _known.get(made)
    return known if known is not None else _known.put(made, made)


def same_context(kernel: Kernel, path: Path, other: Kernel, place: Path) -> bool:
    """Whether the node at a path of one kernel and at a place of another, which is the same object, has the same
    `NodeInContext` in both."""
    header = kernel.sizes, kernel.facts, kernel.fp
    if header != (other.sizes, other.facts, other.fp) or _around(kernel, path) != _around(other, place):
        return False
    node = siblings(kernel, path)[path[-1]]
    used, others = _used(kernel, path, node), _used(other, place, node)
    return used == others and all(kernel.buffer(name) == other.buffer(name) for name, _ in used)


def _around(kernel: Kernel, path: Path) -> tuple[Extent | tuple[Condition, ...], ...]:
    return tuple(
        outer.conditions if isinstance(outer, Guard) else outer.extent for outer in ancestors(kernel, path)
    )


_known: Memo[NodeInContext, NodeInContext] = Memo(4096, of_key=True)
"""Equal values share one object, so that they are compared once."""


def _used(kernel: Kernel, path: Path, node: Node) -> list[tuple[str, bool]]:
    """The buffers that the node at a path uses, by name, and whether statements outside of it use them. (The
    statements of a node have numbers that follow each other, as sites come in the order of their paths.)"""
    first, end = (
        bisect_left(kernel.sites, place, key=attrgetter("path")) for place in (path, (*path[:-1], path[-1] + 1))
    )
    return [(name, _outside(kernel.users[name], first, end)) for name in sorted(node.buffers)]


def _outside(users: tuple[int, ...], first: int, end: int) -> bool:
    """Whether some numbers, in order, are not all of one range; those in it are one after another among them."""
    return users[0] < first or users[-1] >= end
