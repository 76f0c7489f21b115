"""Where the gradient of each buffer begins: by its first statement where that is the only one of its element,
else by zeros, as near to what adds to them as can be."""

from __future__ import annotations

from dojoir.gradient.order import Order
from dojoir.gradient.temporaries import has_index
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Access, Const
from dojoir.ir.nodes import Buffer, Extent, Guard, Kernel, Node, Path, Scope, Site, Statement


def started(kernel: Kernel, name: str, start: int = 0) -> Kernel:
    """The kernel with a beginning for the buffer `name`, which so far is only accumulated into, at the number
    `start`."""
    sites = [(k, site) for k, site in enumerate(kernel.sites) if name in site.statement.buffers]
    buffer = kernel.buffer(name)
    whole = buffer.role == "out"
    if not sites:
        return kernel.evolve(body=(*kernel.body, _starts(buffer, 0, {}, start)))
    number, first = sites[0]
    statement = first.statement
    if statement.target.buffer == name and statement.op == "+=" and Order(kernel).is_first(number, whole):
        return kernel.replace_node(first.path, Statement(statement.target, "=", statement.value, statement.loc))
    path, fixed = _inside(kernel, buffer, [site for _, site in sites], whole)
    return _before(
        kernel, (*path, first.path[len(path)]), _starts(buffer, kernel.depth_of((*path, 0)), fixed, start)
    )


def _inside(kernel: Kernel, buffer: Buffer, sites: list[Site], whole: bool) -> tuple[Path, dict[int, int]]:
    """The innermost scope around all uses of a buffer each iteration of which uses elements of its own, by its
    path, and which dimensions have the iterators of which depths."""
    accesses = [a for site in sites for a in site.statement.accesses if a.buffer == buffer.name]
    first = sites[0]
    shared = min(first.shared_ancestors(site.path) for site in sites)
    fixed: dict[int, int] = {}
    level = depth = 0
    for node in first.ancestors[:shared]:
        if isinstance(node, Guard):
            if whole:
                break
            level += 1
            continue
        dim = has_index(accesses, depth)
        if dim is None or dim in fixed:
            break
        if whole and node.extent.bounds != (buffer.dims[dim].extent,):
            break
        fixed[dim] = depth
        level, depth = level + 1, depth + 1
    return first.path[:level], fixed


def _starts(buffer: Buffer, depth: int, fixed: dict[int, int], start: int) -> Node:
    """A nest at a depth that sets the elements with some indices to a number."""
    free = [d for d in range(len(buffer.dims)) if d not in fixed]
    where = {d: depth + n for n, d in enumerate(free)} | fixed
    indices = tuple(Affine.iterator(where[d]) for d in range(len(buffer.dims)))
    node: Node = Statement(Access(buffer.name, indices), "=", Const(start))
    for d in reversed(free):
        node = Scope(Extent((buffer.dims[d].extent,)), (node,))
    return node


def _before(kernel: Kernel, path: Path, node: Node) -> Kernel:
    """The kernel with a node more, before the one at a path."""
    return kernel.replace_node(path, node, kernel.at(path))


def copies(target: Buffer, source: Buffer) -> Node:
    """A nest that copies one buffer to another of the same extents."""
    indices = tuple(map(Affine.iterator, range(len(target.dims))))
    node: Node = Statement(Access(target.name, indices), "=", Access(source.name, indices))
    for dim in reversed(target.dims):
        node = Scope(Extent((dim.extent,)), (node,))
    return node
