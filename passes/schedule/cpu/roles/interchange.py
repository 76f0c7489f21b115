"""Loop interchange: the innermost scope steps through memory by one element.

What reads along one dimension and writes along another goes through small squares, a vector high and wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Guard, Kernel, Path, Scope
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.cpu.tiles.transposes import transpose_squares
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import is_leaf, sites_in, streamed, strided
from dojoir.passes.schedule.facts.tree import children, is_marked
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit

TRANSPOSED = 32
"""The side of the blocks in which what is read along one dimension is written along another."""

FEW_ROWS = 4
"""How many rows are too few for squares."""


def interchange(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Exchanges two scopes of each nest where that makes the innermost one step through memory by one element, and
    tiles those that read along one dimension and write along another."""
    for n in range(len(kernel.body)):
        yield Fit((n,), partial(_order, path=(n,), machine=machine, sizes=sizes))


def _order(trace: Trace, path: Path, machine: Machine, sizes: Sizes) -> None:
    """Below a node, and at it."""
    node = trace.kernel.at(path)
    if not isinstance(node, Scope | Guard) or is_marked(node):
        return
    for inner in children(node, path):
        _order(trace, inner, machine, sizes)
    if (
        isinstance(node, Scope)
        and len(node.body) == 1
        and isinstance(node.body[0], Scope)
        and is_leaf(node.body[0])
    ):
        kernel, inner = trace.kernel, (*path, 0)
        if any(site.statement.accumulation for site in sites_in(kernel, path)):
            return
        here, there = strided(kernel, path), strided(kernel, inner)
        across = here and there and streamed(kernel, path) and streamed(kernel, inner)
        outside = is_short(node.extent, sizes, FEW_ROWS)
        if across and (outside or is_short(node.body[0].extent, sizes, FEW_ROWS)):  # a few rows: no squares
            if not outside:
                tried(trace, SwapScopes(place_of(path)))
        elif there > here:
            tried(trace, SwapScopes(place_of(path)))
        elif across and not tried(trace, partial(transpose_squares, path=path, machine=machine)):
            tried(trace, Tile((place_of(path), place_of(inner)), (TRANSPOSED, TRANSPOSED)))
