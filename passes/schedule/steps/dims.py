"""Dimensions of temporaries."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Extent
from dojoir.passes.base.move import Formula
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.steps.spots import act
from dojoir.passes.storage.dims import AddDim, uses_of
from dojoir.passes.storage.layout import MaterializeDims


def add_dim(trace: Trace, name: str, depth: int, extent: Affine | Extent, at: int = 0) -> None:
    """Scalar expansion: gives a temporary a dimension `at` a place, an element for each iteration of the scopes of
    `depth` around its uses. Raises IllegalMove where an iteration needs what the one before left."""
    uses = sum(1 for _ in uses_of(trace.kernel, name))
    act(trace, AddDim, name, at, extent, [Formula(str(Affine.iterator(depth)))] * uses)
    act(trace, MaterializeDims, name, at)
