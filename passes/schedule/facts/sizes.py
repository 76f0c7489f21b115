"""The estimated iteration count of a scope: from its text, and from the sizes that a kernel will mostly run at.

A rule that asks for a size must be right without it: sizes that are not known are large.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Buffer, Extent, Kernel, Path, Scope
from dojoir.ir.places import sites_inside

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
