"""How the accesses below a scope step through memory as its iterator rises by one.

The inside of a node: its children, marks and innermost scopes.

Sums of elements that lie where data say, as of a row of a sparse matrix times a vector.

The estimated iteration count of a scope: from its text, and from the sizes that a kernel will mostly run at.

A rule that asks for a size must be right without it: sizes that are not known are large.

Footprints: how much of an array a part of a nest touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TypeVar

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.expressions import affine_parts
from dojoir.ir.nodes import Access, Buffer, Extent, Guard, Kernel, Node, Path, Scope, Site, Statement
from dojoir.ir.places import sites_inside

_T = TypeVar("_T")


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


def kept_by(site: Site) -> list[int]:
    """The depths of the scopes that the result of a statement goes along."""
    return [depth for depth in range(len(site.scopes)) if depends(site.statement.target, depth)]


def dims_along(access: Access, depth: int) -> list[int]:
    """The dimensions whose indices are expressions that change with the iterator of `depth`."""
    return [dim for dim in range(len(access.indices)) if follows(access, dim, depth)]


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


def require(found: bool, what: str) -> None:
    """Raises ArgumentError where a nest is not of the form that a structure is for."""
    if not found:
        raise ArgumentError(f"not {what}", "bad-arguments")


class OpenSize(ArgumentError):
    """A nest would be of the form of a structure if a size were a number: its `name`."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"not {what}: {name} is open", "bad-arguments")
        self.name = name


def constant_extent(extent: Extent, what: str) -> int:
    """The extent of a scope, which a structure needs as a number. Raises OpenSize where it is an open size, else
    ArgumentError where it is none."""
    match extent.bounds:
        case (Affine(terms=((SizeVar(name=name), 1),), offset=0),) if extent.constant is None:
            raise OpenSize(what, name)
    return given(extent.constant, what)


def given(found: _T | None, what: str) -> _T:
    """The thing that was found. Raises ArgumentError where nothing was."""
    require(found is not None, what)
    assert found is not None
    return found


def scope_at(kernel: Kernel, path: Path) -> Scope:
    """The scope at a path. Raises ArgumentError where another node is there."""
    node = kernel.at(path)
    if not isinstance(node, Scope):
        raise ArgumentError(f"a {type(node).__name__.lower()} is no scope", "bad-arguments")
    return node


def is_plain(node: Node) -> bool:
    """Whether a node is a scope with statements alone."""
    return isinstance(node, Scope) and all(isinstance(child, Statement) for child in node.body)


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


def sums_gathered(kernel: Kernel, path: Path) -> bool:
    """Whether the iterations of an innermost scope only add up, in elements that stay where they are, and all that
    they read apart from each other has an index that is data. In lanes an addition waits for one of another vector,
    not for each before it, and that gains more than gathers cost; what else they set is a variable of each."""
    depth = kernel.depth_of(path)
    sums = 0
    for site in sites_in(kernel, path):
        target, *reads = site.statement.accesses
        if site.statement.accumulation:
            sums += 1
        elif kernel.buffer(target.buffer).storage != "reg":
            return False
        if step_of(kernel, target, depth) != 0:
            return False
        apart = (access for access in reads if step_of(kernel, access, depth) is None)
        if not all(any(isinstance(index, Access) for index in access.indices) for access in apart):
            return False
    return sums > 0


Sizes = Mapping[str, int]
"""The sizes that are known, by name."""


def value_of(affine: Affine, sizes: Sizes) -> int | None:
    """The value of an expression in sizes, where all that are in it are known."""
    if affine.iterators or not affine.sizes <= sizes.keys():
        return None
    return affine.evaluate(sizes)


def count_of(extent: Extent, sizes: Sizes) -> int | None:
    """How often a scope runs at most, as far as its bounds are known."""
    values = [value_of(bound, sizes) for bound in extent.bounds]
    return min((value for value in values if value is not None), default=None)


def product_of(scopes: Iterable[Scope], sizes: Sizes) -> int | None:
    """How often what is in scopes inside of each other runs, where that is known."""
    counts = [count_of(scope.extent, sizes) for scope in scopes]
    return None if None in counts else prod(count for count in counts if count is not None)


def lanes_of(kernel: Kernel, name: str, machine: Machine) -> int:
    """How many elements of an array a vector has."""
    return max(machine.vector_bytes // kernel.buffer(name).dtype.itemsize, 1)


def is_short(extent: Extent, sizes: Sizes, least: int) -> bool:
    """Whether a scope is known to run less often than `least`."""
    count = count_of(extent, sizes)
    return count is not None and count < least


def bytes_of(buffer: Buffer, sizes: Sizes) -> int | None:
    """The bytes of an array, where its sizes are known."""
    total = buffer.dtype.itemsize
    for dim in buffer.dims:
        if not dim.collapsed:
            extent = value_of(dim.extent, sizes)
            if extent is None:
                return None
            total *= extent
    return total


LITTLE = 1 << 15
"""A node that runs fewer statements than these is done before another thread has begun."""


def is_little(kernel: Kernel, path: Path, sizes: Sizes) -> bool:
    """Whether it is known that there is too little to do in a node, each time it runs, for a second thread."""
    level, total = len(path), 0
    for site in sites_inside(kernel, path):
        inner = [node for node in site.ancestors[level - 1 :] if isinstance(node, Scope)]
        counts = [count_of(scope.extent, sizes) for scope in inner]
        if any(count is None for count in counts):
            return False
        total += prod(max(count or 0, 0) for count in counts)
    return total < LITTLE


def reach(index: Affine, extents: Mapping[int, int]) -> int:
    """Of how many elements those are the first and the last that some iterators lead to, each by its depth with how
    often it runs. The index is linear in them."""
    return 1 + sum(abs(index.coefficient(Iter(depth))) * (extent - 1) for depth, extent in extents.items())


def footprint(
    kernel: Kernel, accesses: Iterable[Access], extents: Mapping[int, int | None], sizes: Sizes
) -> int | None:
    """The bytes that accesses touch while the iterators of `extents` run, each by its depth with how often, if that
    is known, and all others stand still. None where too few sizes are known."""
    total = 0
    for access in accesses:
        buffer = kernel.buffer(access.buffer)
        part = buffer.dtype.itemsize
        for dim, index in zip(buffer.dims, access.indices, strict=True):
            if not dim.collapsed:
                found = _reached(index, extents), value_of(dim.extent, sizes)
                known = [elements for elements in found if elements is not None]
                if not known:
                    return None
                part *= min(known)
        total += part
    return total


def _reached(index: Affine | Access, extents: Mapping[int, int | None]) -> int | None:
    """The elements that an index leads to; None where they are not known, as of one that is not linear."""
    if isinstance(index, Access) or not index.divided.isdisjoint(extents):
        return None
    running = {depth: extents[depth] for depth in index.iterators if depth in extents}
    known = {depth: extent for depth, extent in running.items() if extent is not None}
    return reach(index, known) if len(known) == len(running) else None


def is_nest_of_one(kernel: Kernel, site: Site) -> bool:
    """Whether a statement stands in scopes inside of each other, and nothing else does."""
    node, count = kernel.at(site.path[:1]), 0
    while isinstance(node, Scope) and len(node.body) == 1:
        node, count = node.body[0], count + 1
    return node is site.statement and count == len(site.scopes)
