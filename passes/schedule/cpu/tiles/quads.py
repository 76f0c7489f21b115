"""Products of bytes, summed four at a time: what processors have an instruction for.

The sum of a tile goes in blocks of four, innermost, and the packed panel has the four elements of a block side by
side, a column next to a column. The lowering makes one operation of that (`codegen.lower.vectors.dots`).
"""

from __future__ import annotations

from functools import partial

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Scope
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import ReorderDims
from dojoir.types.quads import QUAD


def sum_in_quads(trace: Trace, nest: Spot, machine: Machine) -> bool:
    """Makes of a nest `rows > columns > sum` the nests `sum > rows > columns > four` and, for what is left,
    `sum > rows > columns`, if the machine adds four products at a time and the panel of the columns is packed.
    Returns whether it did."""
    return machine.dots and tried(trace, partial(_sum_in_quads, nest=nest))


def _sum_in_quads(trace: Trace, nest: Spot) -> None:
    """Raises DojoError where a move is refused, or the sum is short."""
    kernel, summed = trace.kernel, nest.child(0, 0)
    scope, depth = summed.node, kernel.depth_of(summed.path)
    assert isinstance(scope, Scope)
    (site,) = sites_in(kernel, summed.path)
    panel = next(a for a in site.statement.reads if depends(a, depth - 1))
    along = [d for d, index in enumerate(panel.indices) if _follows(index, depth)]
    if len(scope.extent.bounds) != 1 or len(along) != 1 or kernel.buffer(panel.buffer).role != "tmp":
        raise ArgumentError("the panel is not packed", "bad-arguments")
    (extent,) = scope.extent.bounds
    if extent.is_constant and extent.offset < QUAD:
        raise ArgumentError("a sum of few", "bad-arguments")
    parts = [nest]
    if not (extent.is_constant and extent.offset % QUAD == 0):
        act(trace, Cut, summed, extent // QUAD * QUAD)
        act(trace, SplitScopes, nest.child(0), 1)
        path = nest.path
        act(trace, SplitScopes, nest, 1)
        nest = spot(trace, path)
        parts = [nest, nest.beside(1)]
    act(trace, Split, nest.child(0, 0), QUAD)
    _side_by_side(trace, panel.buffer, along[0])
    for part in parts:
        act(trace, SwapScopes, part.child(0))
        act(trace, SwapScopes, part)
    columns = nest.child(0)
    act(trace, Vectorize, columns)
    act(trace, Unroll, columns.child(0))


def _follows(index: Affine | Access, depth: int) -> bool:
    """Whether an index of an access changes with the iterator of `depth`."""
    return isinstance(index, Access) or depth in index.iterators


def _side_by_side(trace: Trace, name: str, dim: int) -> None:
    """Lays the elements of a block of four along a dimension side by side."""
    act(trace, SplitDim, name, dim, QUAD)
    buffer = trace.kernel.buffer(name)
    order = buffer.order or tuple(range(len(buffer.dims)))
    act(trace, ReorderDims, name, (*(d for d in order if d != dim + 1), dim + 1))
