"""Transposed accesses on a GPU: arrays read along one dimension and written along another go through square tiles
in shared memory."""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Kernel
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.once import RemoveScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.strides import sites_in, step_of
from dojoir.passes.schedule.gpu.sharing.threads import every_so_many_rows
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body, nested
from dojoir.passes.storage.layout import PadDims, PlaceBuffer
from dojoir.passes.storage.staging import Stage

SIDE, AT_ONCE = 64, 8
"""The side of a square that is turned in shared memory, and how many rows of it the threads of a block are."""


def turn_squares(trace: Trace, rows: Spot, columns: Spot) -> None:
    """Gives two scopes, the second all that is in the first and around one statement, to threads by squares. Raises
    DojoError where the statement turns nothing, or a move is refused."""
    name = _turned(trace.kernel, rows, columns)
    if name is None and _turned(trace.kernel, columns, rows) is not None:
        name = _turned(trace.kernel, columns, rows)
        act(trace, SwapScopes, rows)
        rows, columns = columns, rows
    if name is None:
        raise ArgumentError("nothing is read along one dimension and written along another", "bad-arguments")
    act(trace, Tile, (rows, columns), (SIDE, SIDE))
    down = columns.child(0)
    across = down.child(0)
    square = fresh_name(trace.kernel, f"{name}_tile")
    act(trace, Stage, down, name, square, "in")
    copied = _square(trace, down.beside(-1))
    act(trace, PlaceBuffer, square, "shared")
    act(trace, PadDims, square, len(trace.kernel.buffer(name).dims) - 1, 1)
    act(trace, SwapScopes, down)
    _few_rows(trace, *copied)
    _few_rows(trace, across, down)


def _turned(kernel: Kernel, rows: Spot, columns: Spot) -> str | None:
    """The array that the statement in two scopes reads along the columns and writes along the rows, if it does."""
    (site,) = sites_in(kernel, max(rows.path, columns.path))
    target, *reads = site.statement.accesses
    read = {
        a.buffer for a in reads if step_of(kernel, a, columns.depth) == 1 and step_of(kernel, a, rows.depth) is None
    }
    turned = step_of(kernel, target, rows.depth) == 1 and step_of(kernel, target, columns.depth) is None
    return read.pop() if turned and len(read) == 1 else None


def _square(trace: Trace, copied: Spot) -> tuple[Spot, Spot]:
    """Removes the scopes of extent 1 of a copied square, one for each dimension but its two. Returns what is left:
    the scopes over its rows and columns. Raises DojoError where it is no square."""
    nest = nested(copied)
    once = [scope for scope in nest if scope.scope.extent.constant == 1][: len(nest) - 2]
    for scope in once:
        act(trace, RemoveScope, scope)
    left = [scope for scope in nest if scope not in once]
    if len(left) != 2:
        raise ArgumentError("what is read is no square", "bad-arguments")
    return left[0], left[1]


def _few_rows(trace: Trace, rows: Spot, columns: Spot) -> None:
    """Shares a square out over `AT_ONCE` rows of threads, each with every so many-th row: all that a thread reads
    is under way at once."""
    bounds = [bound for bound in rows.scope.extent.bounds if not bound.is_constant]
    act(trace, Split, rows, AT_ONCE)
    threads = rows.child(0)
    if bounds:
        row = rows.iterator * AT_ONCE + threads.iterator
        guard_body(trace, columns, [Condition(row, "<", bound) for bound in bounds])
        act(trace, SetExtent, threads, Affine.constant(AT_ONCE))
        act(trace, SetExtent, rows, Affine.constant(SIDE // AT_ONCE))
    every_so_many_rows(trace, rows, threads, columns)
    act(trace, Unroll, rows)
