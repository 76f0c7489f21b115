"""Contractions whose filters do not lie as their tiles are read: a copy of all of these, made once, does.

A tile of a convolution has many channels at one place of the window, which lie a whole window apart: each element
comes with a sector of memory of its own, in every block anew. A copy with the places of the window outermost is
made by a launch before, in a time that such a contraction takes no notice of.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Kernel, Path, Scope, Site
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.parting import is_contraction
from dojoir.passes.schedule.spots import act, spot
from dojoir.passes.schedule.strides import depends
from dojoir.passes.storage.reorder_dims import ReorderDims
from dojoir.passes.storage.staging import Stage
from dojoir.support.frozen import dataclass

WINDOW = 16
"""How many places of a window there are at most along a dimension."""

AGAIN = 1 << 18
"""How many results there are at least for each place of a window: so often a filter is read again."""


@dataclass(frozen=True)
class Filters:
    """The filters of the contraction in a nest, and the dimensions of them that go along its window."""

    nest: Path
    array: str
    window: tuple[int, ...]


def pack_filters(trace: Trace) -> None:
    """Has each convolution of a kernel read a copy of its filters, with the dimensions of the window outermost.
    Raises ArgumentError where there is none that reads them otherwise."""
    found = list(dict.fromkeys(_filters(trace.kernel)))
    if not found:
        raise ArgumentError("no contraction with a window along what lies side by side", "bad-arguments")
    for filters in reversed(found):
        packed = fresh_name(trace.kernel, f"{filters.array}_packed")
        act(trace, Stage, spot(trace, filters.nest), filters.array, packed, "in")
        others = [d for d in range(len(trace.kernel.buffer(packed).dims)) if d not in filters.window]
        act(trace, ReorderDims, packed, (*filters.window, *others))


def _filters(kernel: Kernel) -> Iterator[Filters]:
    for site in kernel.sites:
        if not is_contraction(site) or any(scope.marks for scope in site.scopes):
            continue
        if _trips(site, [d for d in range(len(site.scopes)) if depends(site.statement.target, d)]) < AGAIN:
            continue
        for access in dict.fromkeys(site.statement.reads):
            window = _window(kernel, site, access)
            if window:
                yield Filters(site.path[:1], access.buffer, window)


def _window(kernel: Kernel, site: Site, access: Access) -> tuple[int, ...]:
    """The dimensions of an argument that go along short sums alone, where the last of them lies side by side and
    others go along more; none where it is not so."""
    buffer = kernel.buffer(access.buffer)
    if buffer.role != "in" or buffer.order or sum(a.buffer == access.buffer for a in site.statement.reads) > 1:
        return ()
    short = {
        d for d, scope in enumerate(site.scopes)
        if not depends(site.statement.target, d) and (scope.extent.constant or WINDOW + 1) <= WINDOW
    }  # fmt: skip
    along = [index.iterators if isinstance(index, Affine) else frozenset({-1}) for index in access.indices]
    window = tuple(d for d, depths in enumerate(along) if depths and depths <= short)
    rest = [depths for d, depths in enumerate(along) if d not in window]
    plain = all(isinstance(i, Affine) and len(i.terms) <= 1 and not _bound(i) for i in access.indices)
    return window if window and window[-1] == len(along) - 1 and len(rest) >= 2 and all(rest) and plain else ()


def _bound(index: Affine) -> bool:
    """Whether an index has a part that is no iterator."""
    return any(not isinstance(atom, Iter) for atom, _ in index.terms)


def _trips(site: Site, depths: list[int]) -> int:
    """How often some scopes run together, as far as that is a constant."""
    scopes: list[Scope] = [site.scopes[d] for d in depths]
    return prod(scope.constant_bound or 1024 for scope in scopes)
