"""Scopes that gain nothing in lanes of their own.

Those over the colours of a pixel or the coordinates of a point fill few lanes of a vector. As they stand, a
compiler writes them out and puts iterations of the scopes around them side by side: on what lies as pixels do, that
was 2 to 5 times as fast. Integers of 64 bits are divided one by one, in lanes too.

Rows that are shorter than a vector: lanes go over many of them, not along each.

Along a row of three, thirteen of sixteen lanes are off, and what they have summed is added up across lanes for
each row. Sixteen rows at once have no lane off and nothing to add up, but read what lies apart. That pays for sums
of few elements, and of more where each costs an `exp` or its like.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.costs.features import SLOW
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Const, Expr, Index, Kernel, Op, Path, Scope, Site, Statement
from dojoir.passes.schedule.facts.strides import NEAR, Sizes, depends, is_short, sites_in, widest
from dojoir.types.elaborate import natural_type

PART = 2
"""A scope is narrow that fills less than one of so many parts of a vector."""

DIVISIONS = frozenset({"floordiv", "mod"})


def is_narrow(kernel: Kernel, path: Path, machine: Machine) -> bool:
    """Whether the scope at `path`, in a scope, runs a constant number of times that fills no half of a vector, nor
    a smaller vector: a power of two from 4 on does. Not of functions as `exp`, which compilers leave scalar."""
    scope = kernel.at(path)
    count = scope.extent.constant if isinstance(scope, Scope) else None
    sites = sites_in(kernel, path)
    if count is None or len(path) < 2 or _fills(count) or any(is_costly(site.statement) for site in sites):
        return False
    sizes = [kernel.buffer(a.buffer).dtype.itemsize for site in sites for a in site.statement.accesses]
    return PART * count * max(sizes, default=1) <= machine.vector_bytes


def divides_long(kernel: Kernel, path: Path) -> bool:
    """Whether a statement below the scope at `path` divides integers of 64 bits by what is no constant. No vector
    unit does. In scalar code a compiler asks first whether both are short, and divides these in a third of the
    time."""
    buffers = {buffer.name: buffer for buffer in kernel.buffers}

    def is_long(part: Expr) -> bool:
        dtype = natural_type(part, buffers)
        return dtype is not None and dtype.is_integer and dtype.bits == 64

    return any(
        isinstance(part, Op) and part.name in DIVISIONS and not _is_number(part.args[1]) and is_long(part)
        for site in sites_in(kernel, path)
        for part in parts(site.statement.value)
    )


def is_tiny(site: Site, machine: Machine) -> bool:
    """Whether a product has so few columns, and a sum as short."""
    column, inner = site.scopes[-2].extent.constant, site.scopes[-1].extent.constant
    short = [n for n in (column, inner) if n is not None and not _fills(n) and PART * 4 * n <= machine.vector_bytes]
    return len(short) == 2 and depends(site.statement.target, len(site.scopes) - 2)


def is_interleaved(kernel: Kernel, path: Path, leaf: Path) -> bool:
    """Whether a scope inside the one at `path` reads the few elements by which that one goes on. Compilers read
    those of many iterations side by side; lanes read them one by one."""
    scope, outer, inner = kernel.at(leaf), kernel.depth_of(path), kernel.depth_of(leaf)
    few = scope.extent.constant if isinstance(scope, Scope) else None
    reads = [read for site in sites_in(kernel, leaf) for read in site.statement.reads]
    return few is not None and 1 < few <= NEAR and any(
        (_elements(kernel, read, outer), _elements(kernel, read, inner)) == (few, 1) for read in reads
    )  # fmt: skip


def _elements(kernel: Kernel, access: Access, depth: int) -> int | None:
    """By how many elements an access moves with an iterator; None where that is no constant."""
    buffer, stride, total = kernel.buffer(access.buffer), 1, 0
    for d in reversed(buffer.order or range(len(buffer.dims))):
        index, dim = access.indices[d], buffer.dims[d]
        if isinstance(index, Access):
            if depends(index, depth):
                return None
        elif depth in index.iterators:
            coefficient = index.coefficient(Iter(depth))
            if stride == 0 or depth in (index - Affine.iterator(depth) * coefficient).iterators:
                return None
            total += stride * coefficient
        stride *= 1 if dim.collapsed else dim.extent.offset if dim.extent.is_constant else 0
    return total


def _is_number(expr: Expr) -> bool:
    return isinstance(expr, Const) or (isinstance(expr, Index) and expr.affine.is_constant)


def _fills(count: int) -> bool:
    return count >= 4 and count & (count - 1) == 0


PLAIN, COSTLY = 4, 2
"""The largest part of a vector that a row may fill for lanes to go over rows: a fourth, or a half where it is
costly."""

COSTS = 16
"""The cycles that a costly operation takes at least."""


def are_short_rows(kernel: Kernel, path: Path, machine: Machine, sizes: Sizes) -> bool:
    """Whether lanes should go over the iterations of the scope at `path`: each sums in scopes that are all known to
    be short, and there are enough of them to fill a vector."""
    scope, sites = kernel.at(path), sites_in(kernel, path)
    if not isinstance(scope, Scope) or not sizes:
        return False
    lanes, depth = machine.vector_bytes // widest(kernel, path), kernel.depth_of(path)
    costly = any(is_costly(site.statement) for site in sites)
    most = lanes // COSTLY if costly else lanes // PLAIN - 1
    inside = [inner for site in sites for inner in site.scopes[depth + 1 :]]
    sums = [site for site in sites if site.statement.accumulation and len(site.scopes) > depth + 1]
    return (
        any(not depends(site.statement.target, len(site.scopes) - 1) for site in sums)
        and all(is_short(inner.extent, sizes, most + 1) for inner in inside)
        and not is_short(scope.extent, sizes, lanes)
    )


def is_costly(statement: Statement) -> bool:
    """Whether a statement has an operation that takes so long."""
    return any(isinstance(part, Op) and SLOW.get(part.name, 0) >= COSTS for part in parts(statement.value))
