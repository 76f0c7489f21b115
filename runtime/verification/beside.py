"""The names of the auxiliary buffers of a kernel with error bounds, each by the buffer that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dojoir.ir.nodes import Kernel
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class BoundBuffers:
    """The buffers with bounds (`errors`), with sums of magnitudes, with how many terms count, and with how far
    another order of the sum may bring it off (`orders`). Of buffers into which values are scattered to places that
    rounding decides, a number of how far off that brings any element (`strays`)."""

    kernel: Kernel
    errors: Mapping[str, str]
    sums: Mapping[str, str]
    counts: Mapping[str, str]
    orders: Mapping[str, str]
    strays: Mapping[str, str]

    @property
    def taken(self) -> set[str]:
        others = (self.errors, self.sums, self.counts, self.orders, self.strays)
        return _taken(self.kernel) | {name for each in others for name in each.values()}


def _taken(kernel: Kernel) -> set[str]:
    return {kernel.name, *(b.name for b in kernel.buffers), *(size.name for size in kernel.sizes)}


def beside(kernel: Kernel, buffers: Iterable[str], suffix: str) -> dict[str, str]:
    """A new name for each of the buffers."""
    taken = _taken(kernel)
    return {name: free_name(f"{name}_{suffix}", taken) for name in sorted(buffers)}


def free_name(name: str, taken: set[str]) -> str:
    """A name that is not taken, as near to one as may be."""
    while name in taken:
        name += "_"
    return name
