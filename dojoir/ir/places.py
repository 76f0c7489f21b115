"""The scopes around a place of a kernel, the nodes beside it and inside it, and what is one element for all
iterations of a scope. A path is one that the kernel has."""

from __future__ import annotations

from dojoir.ir.expressions import Access
from dojoir.ir.kernel import Kernel
from dojoir.ir.paths import Path, is_inside
from dojoir.ir.tree import Guard, Node, Scope, Site, Statement


def ancestors(kernel: Kernel, path: Path) -> tuple[Scope | Guard, ...]:
    """The scopes and guards around the place at `path`, outermost first. There need not be a node at its end."""
    found: list[Scope | Guard] = []
    nodes = kernel.body
    for child in path[:-1]:
        node = nodes[child]
        assert not isinstance(node, Statement)
        found.append(node)
        nodes = node.body
    return tuple(found)


def scopes_around(kernel: Kernel, path: Path) -> tuple[Scope, ...]:
    """The scopes around the place at `path`, outermost first."""
    return tuple(node for node in ancestors(kernel, path) if isinstance(node, Scope))


def siblings(kernel: Kernel, path: Path) -> tuple[Node, ...]:
    """The children of what is right around the node at `path`, itself among them."""
    around = ancestors(kernel, path)
    return around[-1].body if around else kernel.body


def numbers_inside(kernel: Kernel, path: Path) -> list[int]:
    """The numbers of the statements at `path` or inside, in the order of the text."""
    return [k for k, site in enumerate(kernel.sites) if is_inside(site.path, path)]


def sites_inside(kernel: Kernel, path: Path) -> list[Site]:
    """The statements at `path` or inside, in the order of the text."""
    return [site for site in kernel.sites if is_inside(site.path, path)]


def is_uniform(kernel: Kernel, access: Access, depth: int) -> bool:
    """Whether an access surely touches the same storage at every value of the iterator at `depth`. An index that is
    read from a buffer that the kernel writes may be another one in each iteration, at the same element."""
    dims = kernel.buffer(access.buffer).dims
    return not any(
        depth in index.iterators
        if not isinstance(index, Access)
        else kernel.buffer(index.buffer).role != "in" or not is_uniform(kernel, index, depth)
        for index, dim in zip(access.indices, dims, strict=True)
        if not dim.collapsed
    )
