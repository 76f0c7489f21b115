"""Footprints: how much of an array a part of a nest touches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Kernel
from dojoir.passes.schedule.facts.sizes import Sizes, value_of


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
