"""Sums at indices from data into narrow floats, carried in f32 and rounded once.

A sum into f16, bf16 or a narrower float is carried in f32 where its order is free. Of one into elements that data
choose, no variable can carry it: an array of f32 does, for all elements that it may go into, through the outermost
scope that does nothing else with them. For `N | y[at[{0}]] += x[{0}]`, that is

    S
    | y_added[{0}] = False
    N
    | y_sum[at[{0}]] = y[at[{0}]] if not y_added[at[{0}]]
    | y_added[at[{0}]] = True
    | y_sum[at[{0}]] += x[{0}]
    S
    | y[{0}] = y_sum[{0}] if y_added[{0}]

so that what nothing is added to is neither read nor written. Of iterations on several threads, each has arrays of
its own. Elements that get one number at most, at `distinct` indices, need none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, F32
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Const,
    Expr,
    Extent,
    Guard,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    is_inside,
)
from dojoir.types.in_bytes import in_bytes
from dojoir.types.rounding import FORMATS


def as_lowered(kernel: Kernel) -> Kernel:
    """The kernel as it is lowered: on bytes (`in_bytes`), and with arrays of f32 for sums at indices from data into
    narrower floats; the kernel itself where it has neither."""
    kernel = in_bytes(kernel)
    while (found := next(_narrow(kernel), None)) is not None:
        kernel = _carried(kernel, *found)
    return kernel


def _narrow(kernel: Kernel) -> Iterator[tuple[Path, str]]:
    """The scopes that sum into a narrow buffer at indices from data, and the buffer."""
    for site in kernel.sites if kernel.fp != "strict" else ():
        dtype = kernel.buffer(site.statement.target.buffer).dtype
        if not (site.statement.op == "+=" and site.statement.scatters and dtype.is_float and dtype.bits < 32):
            continue
        path = _region(kernel, site) if not (FORMATS[dtype.name].is_scale or _is_distinct(kernel, site)) else None
        if path is not None:
            yield path, site.statement.target.buffer


def _is_distinct(kernel: Kernel, site: Site) -> bool:
    """Whether a statement writes at distinct indices, the only one that adds to the buffer, each by itself."""
    alone = len([s for s in kernel.sites if s.statement.target.buffer == site.statement.target.buffer]) == 1
    own = set[int]()
    distinct = False
    for index in site.statement.target.indices:
        match index:
            case Access(name, at) if kernel.buffer(name).distinct:
                own |= {d for i in at if isinstance(i, Affine) and _is_iterator(i) for d in i.iterators}
                distinct = True
            case Affine() if _is_iterator(index):
                own |= index.iterators
    return alone and distinct and own == set(range(len(site.scopes)))


def _is_iterator(index: Affine) -> bool:
    return any(index == Affine.iterator(depth) for depth in index.iterators)


def _region(kernel: Kernel, site: Site) -> Path | None:
    """The outermost scope around a statement that runs on one thread, and does nothing but add to its target."""
    name, found = site.statement.target.buffer, None
    for length in range(len(site.path) - 1, 0, -1):
        node = kernel.at(site.path[:length])
        inside = [s.statement for s in kernel.sites if is_inside(s.path, site.path[:length])]
        if any(name in s.buffers_read or (s.target.buffer == name and s.op != "+=") for s in inside):
            break
        if isinstance(node, Scope) and not {*node.marks} - {"u"}:
            found = site.path[:length]
    return found


def _carried(kernel: Kernel, path: Path, name: str) -> Kernel:
    """The kernel whose scope at `path` adds to an array of f32 in the place of a buffer."""
    buffer, depth = kernel.buffer(name), kernel.depth_of(path)
    inside = [site for site in kernel.sites if is_inside(site.path, path)]
    targets = [site.statement.target for site in inside if site.statement.target.buffer == name]
    moving = [d for d in range(len(buffer.dims)) if not _stays(targets, d, depth)]
    dims = tuple(buffer.dims[d] for d in moving)
    sums, flags = _fresh(kernel, f"{name}_sum"), _fresh(kernel, f"{name}_added")

    def to(carrier: str, access: Access) -> Access:
        return Access(carrier, tuple(access.indices[d] for d in moving), access.loc)

    def added(node: Node) -> tuple[Node, ...]:
        match node:
            case Statement(target, value=value) if target.buffer == name:
                first: Expr = Op("not", (to(flags, target),))
                known: Expr = Cast(BOOL, Const(1))
                match value:
                    case Op("when", (condition, _)):
                        first, known = Op("and", (condition, first)), Op("when", (condition, known))
                return (
                    Statement(to(sums, target), "=", Op("when", (first, target)), node.loc),
                    Statement(to(flags, target), "=", known, node.loc),
                    replace(node, target=to(sums, target)),
                )
            case Statement():
                return (node,)
            case Scope() | Guard():
                return (replace(node, body=tuple(new for child in node.body for new in added(child))),)

    indices = list(targets[0].indices)
    for number, d in enumerate(moving):
        indices[d] = Affine.iterator(depth + number)
    element = Access(name, tuple(indices))
    before: Node = Statement(to(flags, element), "=", Cast(BOOL, Const(0)))
    after: Node = Statement(element, "=", Op("when", (to(flags, element), to(sums, element))))
    for dim in reversed(dims):
        before, after = (Scope(Extent((dim.extent,)), (node,)) for node in (before, after))
    made = kernel.replace_node(path, before, *added(kernel.at(path)), after)
    new = (Buffer("tmp", sums, F32, dims), Buffer("tmp", flags, BOOL, dims))
    return replace(made.evolve(buffers=(*made.buffers, *new)), source=kernel.source)


def _fresh(kernel: Kernel, name: str) -> str:
    """A name that nothing in a kernel has."""
    taken = {*(buffer.name for buffer in kernel.buffers), *(size.name for size in kernel.sizes), kernel.name}
    return next(made for number in range(len(taken) + 1) if (made := f"{name}{number or ''}") not in taken)


def _stays(targets: list[Access], dim: int, depth: int) -> bool:
    """Whether all have one index in a dimension, which is the same throughout a scope at `depth`."""
    first = targets[0].indices[dim]
    same = all(target.indices[dim] == first for target in targets)
    return same and isinstance(first, Affine) and all(outer < depth for outer in first.iterators)
