"""Convolutions: sums of products over windows, found by their accesses."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Kernel, Path, Scope, Site
from dojoir.passes.schedule.facts.strides import NEAR, depends, step_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Convolution:
    """A nest `o > … > w > (…, nest of y[o, w] += x[w] * f[o], …)`: the paths of the scopes over channels and over
    columns, the array `filters` that does not depend on the column, and the dimension of it that goes with the
    channels. It is `strided` where neighbouring columns do not read neighbours of the image."""

    channels: Path
    columns: Path
    site: Site
    filters: str
    channel_dim: int
    strided: bool = False


def convolutions(kernel: Kernel) -> Iterator[Convolution]:
    """The sums of products in which one factor does not depend on the columns and the other not on the channels, in
    the order of the text."""
    for site in kernel.sites:
        found = _convolution(kernel, site)
        if found is not None:
            yield found


def _convolution(kernel: Kernel, site: Site) -> Convolution | None:
    target, *reads = site.statement.accesses
    if site.statement.accumulation != "+=" or any(scope.marks for scope in site.scopes):
        return None
    kept = [d for d in range(len(site.scopes)) if depends(target, d)]
    if len(kept) < 2 or len(kept) == len(site.scopes):
        return None
    column = kept[-1]
    inner = range(column + 1, len(site.scopes))
    alone = len(inner) > 1 or (inner and len(site.scopes[-1].body) == 1)
    if (step_of(kernel, target, column, NEAR) or 0) < 1 or not alone:
        return None
    for channel in reversed(kept[:-1]):
        filters = [a for a in reads if depends(a, channel) and not depends(a, column)]
        images = [a for a in reads if depends(a, column) and not depends(a, channel) and a.buffer != target.buffer]
        if len(filters) == 1 and images:
            strided = any(step_of(kernel, a, column) != 1 for a in images)
            dims = [d for d, i in enumerate(filters[0].indices) if isinstance(i, Access) or channel in i.iterators]
            paths = [site.scope_paths[depth] for depth in (channel, column)]
            plain = len(dims) == 1 and filters[0].indices[dims[0]] == Affine.iterator(channel)
            if plain and is_box(site, channel) and _is_perfect(kernel, *paths):
                return Convolution(paths[0], paths[1], site, filters[0].buffer, dims[0], strided)
    return None


def is_box(site: Site, depth: int) -> bool:
    """Whether no extent around a statement depends on the iterator of `depth` or on one inside it."""
    return not any(d >= depth for s in site.scopes for bound in s.extent.bounds for d in bound.iterators)


def _is_perfect(kernel: Kernel, outer: Path, inner: Path) -> bool:
    """Whether each scope from one to the other is the only child of the one before."""
    nodes = [kernel.at(inner[:length]) for length in range(len(outer), len(inner))]
    return all(isinstance(node, Scope) and len(node.body) == 1 for node in nodes)
