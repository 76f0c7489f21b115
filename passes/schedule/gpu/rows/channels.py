"""Large sums of which there are too few for a GPU, as those of a batch of images by channel.

What is done with a channel becomes launches of its own: the sums of each image, those of a channel from these, and
what is made of them. Each sum is of partial results in a fixed order, so that it is the same every time.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import JoinScopes, SplitScopes
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, move, spot
from dojoir.passes.values.reductions import SplitReduction

BLOCKS = 2
"""How many blocks a multiprocessor should have at least."""


def channels_apart(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Makes nests of their own of what the scope at `path` over channels does one after the other, each over images
    and then channels where it goes through all images. Returns them, in the order of the text. Raises DojoError
    where the sums of a block are not large or there are enough of them, or a move is refused."""
    scope = spot(trace, path).scope
    inside = [node for node in scope.body if isinstance(node, Scope)]
    few = scope.extent.constant is not None and scope.extent.constant < BLOCKS * machine.multiprocessors
    if len(path) != 1 or not few or not inside or not all(map(_is_large, inside)) or not _adds_up(trace, path):
        raise ArgumentError("no large sums by channel", "bad-arguments")
    parts = []
    for n in reversed(range(1, len(scope.body))):
        if isinstance(scope.body[n], Scope) or isinstance(scope.body[n - 1], Scope):
            act(trace, SplitScopes, spot(trace, path), n)
            parts.append(spot(trace, path).beside(1))
    parts.append(spot(trace, path))
    nests: list[Spot] = []
    for part in parts:
        nests[:0] = _images(trace, part) if isinstance(part.scope.body[0], Scope) else [part]
    if _is_small(nests[0]) and tried(trace, move(SwapSiblings, nests[0])):
        nests[:2] = reversed(nests[:2])
    launches = nests[:1]
    for nest in nests[1:]:  # few elements each: one launch
        small = _is_small(launches[-1]) and _is_small(nest)
        if not (small and tried(trace, move(JoinScopes, launches[-1], nest))):
            launches.append(nest)
    return launches


def _images(trace: Trace, channels: Spot) -> list[Spot]:
    """Brings images to the outside of a nest over channels, whose sums get partial results, one for each image.
    Returns that nest, and the one that adds those up."""
    images = channels.child(0)
    act(trace, SwapScopes, channels)
    (site,) = sites_in(trace.kernel, images.path)
    if site.statement.accumulation is None:
        return [images]
    target = site.statement.target.buffer
    act(trace, SplitReduction, images, target, fresh_name(trace.kernel, f"{target}_part"), images.scope.extent)
    act(trace, JoinScopes, images.beside(-1), images)
    act(trace, JoinScopes, images.child(0), images.child(1))
    added = images.beside(1)
    act(trace, SwapScopes, added)
    return [images, added.around()]


def _is_large(node: Scope) -> bool:
    """Whether a node is a perfect nest over images and what is in them, of constant extents."""
    depth, extents = 0, 1
    inner: Scope = node
    while inner.extent.constant is not None:
        depth, extents = depth + 1, extents * inner.extent.constant
        if len(inner.body) != 1 or not isinstance(inner.body[0], Scope):
            break
        inner = inner.body[0]
    return depth > 1 and extents >= 4096 and all(isinstance(child, Statement) for child in inner.body)


def _adds_up(trace: Trace, path: Path) -> bool:
    """Whether a nest inside has a sum for each iteration of the scope at `path`, and each one statement."""
    depth = trace.kernel.depth_of(path)
    sites = [site for site in sites_in(trace.kernel, path) if len(site.scopes) > depth + 1]
    sums = [site for site in sites if site.statement.accumulation is not None]
    alone = all(len(site.scopes[-1].body) == 1 for site in sites)
    return (
        bool(sums)
        and alone
        and not any(depends(site.statement.target, d) for site in sums for d in range(depth + 1, len(site.scopes)))
    )


def _is_small(nest: Spot) -> bool:
    """Whether a nest has a few statements or additions for each channel."""
    return all(len(site.scopes) <= 2 for site in sites_in(nest.trace.kernel, nest.path))
