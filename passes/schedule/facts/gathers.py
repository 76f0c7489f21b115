"""Sums of elements that lie where data say, as of a row of a sparse matrix times a vector."""

from __future__ import annotations

from dojoir.ir.nodes import Access, Kernel, Path
from dojoir.passes.schedule.facts.strides import sites_in, step_of


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
