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
from dojoir.passes.schedule.combinators import make, tried
from dojoir.passes.schedule.strides import depends, sites_in

BLOCKS = 2
"""How many blocks a multiprocessor should have at least."""


def channels_apart(trace: Trace, path: Path, machine: Machine) -> list[Path]:
    """Makes nests of their own of what the scope at `path` over channels does one after the other, each over images
    and then channels where it goes through all images. Returns their places. Raises DojoError where the sums of a
    block are not large or there are enough of them, or a move is refused."""
    scope = _scope(trace, path)
    nests = [node for node in scope.body if isinstance(node, Scope)]
    few = scope.extent.constant is not None and scope.extent.constant < BLOCKS * machine.multiprocessors
    if len(path) != 1 or not few or not nests or not all(map(_is_large, nests)) or not _adds_up(trace, path):
        raise ArgumentError("no large sums by channel", "bad-arguments")
    first, rest = path[-1], len(trace.kernel.body) - path[-1] - 1
    for n in reversed(range(1, len(scope.body))):
        if isinstance(scope.body[n], Scope) or isinstance(scope.body[n - 1], Scope):
            make(trace, f"split_scopes({first}, {n})")
    for at in reversed(range(first, len(trace.kernel.body) - rest)):
        if isinstance(_scope(trace, (at,)).body[0], Scope):
            _images(trace, at)
    if _is_small(trace, first):
        _ = tried(trace, f"swap_siblings({first})")
    at = first
    while at + 1 < len(trace.kernel.body) - rest:  # few elements each: one launch
        small = _is_small(trace, at) and _is_small(trace, at + 1)
        at += not (small and tried(trace, f"join_scopes({at}, {at + 1})"))
    return [(n,) for n in range(first, len(trace.kernel.body) - rest)]


def _images(trace: Trace, at: int) -> None:
    """Brings images to the outside of a nest over channels, whose sums get partial results, one for each image."""
    images = _scope(trace, (at, 0))
    make(trace, f"swap_scopes({at})")
    (site,) = sites_in(trace.kernel, (at,))
    if site.statement.accumulation is not None:
        target = site.statement.target.buffer
        part = fresh_name(trace.kernel, f"{target}_part")
        make(trace, f"split_reduction({at}, {target}, {part}, {images.extent.constant})")
        make(trace, f"join_scopes({at}, {at + 1})")
        make(trace, f"join_scopes({at}.0, {at}.1)")
        make(trace, f"swap_scopes({at + 1})")


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


def _is_small(trace: Trace, at: int) -> bool:
    """Whether the nest number `at` has a few statements or additions for each channel."""
    return all(len(site.scopes) <= 2 for site in sites_in(trace.kernel, (at,)))


def _scope(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    return scope
