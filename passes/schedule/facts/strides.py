"""How the accesses below a scope step through memory as its iterator rises by one."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.expressions import affine_parts
from dojoir.ir.nodes import Access, Kernel, Node, Path, Scope, Site, Statement
from dojoir.ir.places import sites_inside


def sites_in(kernel: Kernel, path: Path) -> list[Site]:
    """The statements below a node, in the order of the text."""
    return sites_inside(kernel, path)


def widest(kernel: Kernel, path: Path) -> int:
    """The bytes of the widest element that is used below a node."""
    sites = sites_in(kernel, path)
    return max(kernel.buffer(a.buffer).dtype.itemsize for site in sites for a in site.statement.accesses)


def is_leaf(node: Node) -> bool:
    """Whether no scope is inside a node."""
    return isinstance(node, Statement) or all(not isinstance(n, Scope) and is_leaf(n) for n in node.body)


def strided(kernel: Kernel, path: Path) -> int:
    """How many accesses below the scope at `path` neither stay where they are nor go on to the next element."""
    return sum(step is None for step in _steps(kernel, path))


def scattered(kernel: Kernel, path: Path) -> int:
    """How many accesses below the scope at `path` go further than a few elements, or write to other than the next
    one, as its iterator rises by one: too far for lanes."""
    depth = kernel.depth_of(path)
    count = 0
    for site in sites_in(kernel, path):
        target, *reads = site.statement.accesses
        count += step_of(kernel, target, depth) is None
        count += sum(step_of(kernel, access, depth, NEAR) is None for access in reads)
    return count


def streamed(kernel: Kernel, path: Path) -> int:
    """How many accesses below the scope at `path` go on to the next element."""
    return sum(step == 1 for step in _steps(kernel, path))


NEAR = 4
"""How many elements apart the lanes of a vector may read."""


ONE = Affine.constant(1)


def step_of(kernel: Kernel, access: Access, depth: int, most: int = 1) -> int | None:
    """By how many elements an access moves when the iterator of `depth` rises by one, if that is `most` or less,
    forwards or backwards; else None. A collapsed dimension has no storage and one of extent 1 a
    single index, so that neither counts."""
    buffer = kernel.buffer(access.buffer)
    order = buffer.order or tuple(range(len(buffer.dims)))
    stored = [d for d in order if not buffer.dims[d].collapsed and buffer.dims[d].extent != ONE]
    total = 0
    for d in stored:
        index = access.indices[d]
        if isinstance(index, Access):
            if depends(index, depth) or _computed(kernel, index, depth):
                return None
        elif depth in index.iterators:
            coefficient = index.coefficient(Iter(depth))
            linear = depth not in (index - Affine.iterator(depth) * coefficient).iterators
            if not linear or not 0 < abs(coefficient) <= most or d != stored[-1]:
                return None
            total = coefficient
    return total


def depends(access: Access, depth: int) -> bool:
    """Whether the indices of an access use the iterator of `depth`."""
    return any(
        depends(index, depth) if isinstance(index, Access) else depth in index.iterators for index in access.indices
    )


def follows(access: Access, dim: int, depth: int) -> bool:
    """Whether the index of a dimension is an expression that changes with the iterator of `depth`."""
    index = access.indices[dim]
    return isinstance(index, Affine) and depth in index.iterators


def _computed(kernel: Kernel, index: Access, depth: int) -> bool:
    """Whether an index is a temporary that is computed from the iterator of `depth`."""
    return kernel.buffer(index.buffer).role == "tmp" and any(
        site.statement.target.buffer == index.buffer
        and (any(depends(a, depth) for a in site.statement.reads) or depth in _iterators(site))
        for site in kernel.sites
    )


def _iterators(site: Site) -> frozenset[int]:
    """The depths of the iterators in the value of a statement, as numbers."""
    return frozenset().union(*(affine.iterators for affine in affine_parts(site.statement.value)))


def _steps(kernel: Kernel, path: Path) -> Iterator[int | None]:
    depth = kernel.depth_of(path)
    for site in sites_in(kernel, path):
        for access in site.statement.accesses:
            yield step_of(kernel, access, depth)
