"""A kernel as it is before it was scheduled: no marks, and an element for each value of a temporary."""

from __future__ import annotations

from dataclasses import replace

from dojoir.gradient.bounds import dim_for
from dojoir.gradient.order import Order
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Dim, Guard, Kernel, Node, Op, Scope, Site, Statement
from dojoir.ir.rewriting.rewrite import map_accesses


def plain(kernel: Kernel) -> Kernel:
    """The kernel without marks, labels, hints, `~` and places of temporaries, where fused accumulations are sums.
    The statements keep their places in its source."""
    buffers = tuple(
        replace(
            b,
            dims=tuple(Dim(d.extent) for d in b.dims),
            storage="heap",
            order=None,
            pad=None,
            swizzle=0,
            stream=0,
            align=0,
        )
        if b.role == "tmp"
        else b
        for b in kernel.buffers
    )
    bare = kernel.evolve(buffers=buffers, body=tuple(map(_plain, kernel.body)))
    return replace(bare, source=kernel.source)


def _plain(node: Node) -> Node:
    match node:
        case Scope(extent, body):
            return Scope(extent, tuple(map(_plain, body)), loc=node.loc)
        case Guard(conditions, body):
            return Guard(conditions, tuple(map(_plain, body)), node.loc)
        case Statement(target, _, value, loc) if node.fused and isinstance(value, Op):
            return Statement(target, "+=", node.term, loc)
    return node


def expanded(kernel: Kernel) -> Kernel:
    """The kernel with a dimension more of a temporary for each scope around all of its uses each iteration of
    which has a value of its own, where no index of it is that of the scope."""
    for buffer in kernel.buffers:
        if buffer.role == "tmp":
            kernel = _expanded(kernel, buffer.name)
    return kernel


def _expanded(kernel: Kernel, name: str) -> Kernel:
    sites = [site for site in kernel.sites if name in site.statement.buffers]
    if not sites:
        return kernel
    around = common(sites)
    accesses = [a for site in sites for a in site.statement.accesses if a.buffer == name]
    order = Order(kernel)
    missing: list[int] = []
    for depth in range(len(around)):
        if has_index(accesses, depth) is not None:
            continue
        if order.is_carried(name, depth):
            break
        missing.append(depth)
    if not missing:
        return kernel
    buffer = kernel.buffer(name)
    dims = tuple(dim_for(kernel, around, depth) for depth in missing)
    own = tuple(Affine.iterator(depth) for depth in missing)

    def more(access: Access) -> Access:
        return Access(name, (*own, *access.indices), access.loc) if access.buffer == name else access

    body = tuple(map_accesses(node, more) for node in kernel.body)
    wider = kernel.replace_buffer(replace(buffer, dims=(*dims, *buffer.dims))).evolve(body=body)
    return replace(wider, source=kernel.source)


def common(sites: list[Site]) -> tuple[Scope, ...]:
    """The scopes that are around all of some statements."""
    shared = min(sites[0].shared_ancestors(site.path) for site in sites)
    return tuple(node for node in sites[0].ancestors[:shared] if isinstance(node, Scope))


def has_index(accesses: list[Access], depth: int) -> int | None:
    """The dimension in which every access has the iterator of that depth as its index."""
    own = Affine.iterator(depth)
    per_access = [{d for d, index in enumerate(a.indices) if index == own} for a in accesses]
    both = set.intersection(*per_access) if per_access else set()
    return min(both, default=None)
