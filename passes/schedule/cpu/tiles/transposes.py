"""Squares: what is read along one dimension and written along another, a vector high and wide at a time."""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Vectorize
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.strides import sites_in, step_of
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.storage.layout import PlaceBuffer
from dojoir.passes.storage.staging import Stage


def transpose_squares(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles two scopes, of which reads go along the inner one and writes along the outer one, in squares of one
    vector, which is one line of a cache. What a square reads is copied as it lies in memory, and the result is
    written so. Where writes go along the inner one the two change places first. Raises IllegalMove where a move of
    it is refused."""
    depth = trace.kernel.depth_of(path)
    targets = [site.statement.target for site in sites_in(trace.kernel, path)]
    if all(step_of(trace.kernel, target, depth + 1) == 1 for target in targets):
        act(trace, SwapScopes, spot(trace, path))
    kernel = trace.kernel
    found = [access for site in sites_in(kernel, path) for access in site.statement.accesses]
    size = max(kernel.buffer(access.buffer).dtype.itemsize for access in found)
    side = max(machine.vector_bytes // size, 1)
    outer = spot(trace, path)
    act(trace, Tile, (outer, outer.child(0)), (side, side))
    across = [a.buffer for a in found if step_of(kernel, a, depth + 1) == 1 and step_of(kernel, a, depth) is None]
    nest = outer.child(0, 0)
    for name in dict.fromkeys(across):
        square = fresh_name(trace.kernel, f"{name}_tile")
        act(trace, Stage, nest, name, square, "in")
        act(trace, PlaceBuffer, square, "stack")
    act(trace, SwapScopes, nest)
    act(trace, Vectorize, nest)
