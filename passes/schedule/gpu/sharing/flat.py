"""Scopes over what lies side by side in memory, as one: so that it is moved 16 bytes at a time."""

from __future__ import annotations

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Kernel, Path, Scope
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.steps.spots import Spot, act, nested


def flattened(trace: Trace, outermost: Spot) -> tuple[list[Spot], int]:
    """Makes one scope of the innermost scopes of a perfect nest along which all that the nest touches lies side by
    side, or stays where it is. Returns the scopes of the nest then, outermost first, and how many neighbours one
    access may move along the innermost: 1 where nothing was to be done. Raises DojoError where a move is
    refused."""
    nest = nested(outermost)
    width = 1
    while len(nest) > 1 and side_by_side(trace.kernel, nest[-2].path):
        nest.pop()
        act(trace, Collapse, nest[-1])
        width = _width(trace.kernel, nest[-1].path)
    return nest, width


def _width(kernel: Kernel, path: Path) -> int:
    """How many neighbours one access moves along a scope over whole rows, side by side: 1 where nothing does."""
    depth, extent = kernel.depth_of(path), _scope(kernel, path).extent.constant
    accesses = [a for site in sites_in(kernel, path) for a in site.statement.accesses if depends(a, depth)]
    if extent is None or not accesses:
        return 1
    width = ACCESS_BYTES // max(kernel.buffer(a.buffer).dtype.itemsize for a in accesses)
    while extent % width:
        width //= 2
    return width


def side_by_side(kernel: Kernel, path: Path) -> bool:
    """Whether all that the scope at `path` touches lies in memory as its iterations and those of the scope inside
    follow each other, or stays where it is."""
    outer, inner = _scope(kernel, path), _scope(kernel, (*path, 0))
    depth = kernel.depth_of(path)
    if outer.marks or inner.marks or inner.extent.constant is None or len(outer.extent.bounds) > 1:
        return False
    accesses = [a for site in sites_in(kernel, path) for a in site.statement.accesses]
    return all(_along(kernel, a, depth, inner.extent.constant) for a in accesses)


def _along(kernel: Kernel, access: Access, depth: int, extent: int) -> bool:
    """Whether the last dimensions of what is accessed are those of the scopes at `depth` and inside it."""
    if not depends(access, depth) and not depends(access, depth + 1):
        return True
    buffer = kernel.buffer(access.buffer)
    last = (Affine.iterator(depth), Affine.iterator(depth + 1))
    if buffer.order or buffer.pad or len(buffer.dims) < 2 or access.indices[-2:] != last:
        return False
    rest = Access(buffer.name, access.indices[:-2])
    alone = not depends(rest, depth) and not depends(rest, depth + 1)
    stored = not any(dim.collapsed for dim in buffer.dims[-2:])
    return alone and stored and buffer.dims[-1].extent == Affine.constant(extent)


def _scope(kernel: Kernel, path: Path) -> Scope:
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    return scope
