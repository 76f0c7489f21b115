"""Iterations of scopes on the threads and blocks of a GPU."""

from __future__ import annotations

from collections.abc import Iterable

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body

THREADS = 256
"""How many threads a block has, where nothing else is known."""


def along(trace: Trace, scope: Spot, levels: int, threads: int = THREADS, mark: str = "bx") -> Spot:
    """A scope, which `levels` others are around, on threads: each has every so many-th element. Returns the scope
    over the threads, which is around all of them. Raises IllegalMove where a move is refused."""
    extent = scope.scope.extent.constant
    shared = scope if extent is not None and extent <= threads else shared_among(trace, scope, threads)
    for _ in range(levels):
        act(trace, SwapScopes, shared.around())
    act(trace, Bind, shared, mark)
    return shared


def shared_among(trace: Trace, scope: Spot, threads: int) -> Spot:
    """Shares a scope out: each of so many threads has every so many-th iteration, the last time under a guard where
    that is not known to be one. Returns the scope over the threads, which is around the other. Raises IllegalMove
    where a move is refused."""
    act(trace, Split, scope, threads)
    inner = scope.child(0)
    full_extent(trace, inner, threads)
    act(trace, SwapScopes, scope)
    return inner


def full_extent(trace: Trace, scope: Spot, extent: int) -> None:
    """Makes the extent of a scope, which is at most `extent`, so much: what is past its end is under a guard.
    Raises IllegalMove where a move is refused."""
    ends = [Condition(scope.iterator, "<", bound) for bound in scope.scope.extent.bounds if not bound.is_constant]
    if ends:
        guard_body(trace, scope, ends)
        act(trace, SetExtent, scope, Affine.constant(extent))


def known_extent(trace: Trace, scope: Spot, extent: int) -> None:
    """Writes the extent of a scope, which the facts about open sizes make so much, as a constant. Raises
    IllegalMove where they do not."""
    if scope.scope.extent.constant != extent:
        act(trace, SetExtent, scope, Affine.constant(extent))


def every_so_many_rows(trace: Trace, rows: Spot, threads: Spot, columns: Spot) -> None:
    """A nest `rows > threads > columns`, the first two of which a split made of one, on as many rows of threads as
    the second has iterations, neighbours along the columns: each has every so many-th row. Raises IllegalMove where
    a move is refused."""
    act(trace, SwapScopes, rows)
    act(trace, SwapScopes, rows)
    act(trace, Bind, threads, "by")
    act(trace, Bind, columns, "bx")


def grid(trace: Trace, chain: Iterable[Spot]) -> None:
    """The first scopes of a chain as a grid: the outermost has the most blocks. Raises IllegalMove where a mark is
    refused."""
    for scope, mark in zip(chain, GRID, strict=False):
        act(trace, Bind, scope, mark)
