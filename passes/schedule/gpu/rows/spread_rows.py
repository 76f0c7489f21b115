"""Rows on a GPU: what goes along them several times keeps them in registers, spread over a block or over a warp."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Path, Scope, accesses_in
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unmark
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.gpu.rows.open_rows import shared_out
from dojoir.passes.schedule.gpu.rows.rows import (
    extent_along,
    keep_in_registers,
    keep_row,
    on_threads,
    own_scalars_of,
    read_again,
    temporaries_of,
)
from dojoir.passes.schedule.steps.spots import Spot, act, spot

MOST_EACH = 56
"""How many elements of a row a thread may keep, of 64 registers."""

BLOCK = 256


def rows_in_warps(trace: Trace, path: Path, machine: Machine) -> None:
    """A row a warp, whose lanes put together what they have without shared memory: several rows a block."""
    row = spot(trace, path)
    _rows(trace, row, machine.warp)
    for shared in row.scopes():
        act(trace, Unmark, shared, "bx")
        act(trace, Bind, shared, "lane")
    act(trace, Split, row, BLOCK // machine.warp)
    act(trace, Bind, row.child(0), "bx")
    act(trace, Bind, row, "gx")


def rows_in_blocks(trace: Trace, path: Path, machine: Machine) -> None:
    """A row a block."""
    row = spot(trace, path)
    length = extent_along(row).constant or 0
    _rows(trace, row, next((t for t in (128, 256, 512) if length <= 16 * t), 1024))
    act(trace, Bind, row, "gx")


def rows_as_one(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Collapses two scopes over rows, as of a batch of planes, into one, so that structures for rows apply."""
    rows = spot(trace, path)
    inner = rows.child(0)
    known(len(rows.body) == 1 and isinstance(inner.node, Scope) and len(inner.body) > 1, "scopes over rows")
    known(all(scope.scopes() == [] for scope in inner.scopes()) and bool(inner.scopes()), "rows by themselves")
    act(trace, Collapse, rows)
    return [rows]


def _rows(trace: Trace, row: Spot, threads: int) -> None:
    """A row on `threads` threads, the last time under a guard where they do not share it equally."""
    known(not row.path[:-1], "a nest by itself")
    sums = [site.statement for site in sites_in(trace.kernel, row.path) if site.statement.accumulation is not None]
    own = {*own_scalars_of(trace.kernel, row.path)}
    shared = [s for s in sums if s.target.buffer not in own and not depends(s.target, row.depth)]
    known(not shared, "rows that share no sum")
    length = extent_along(row).constant
    known(length is not None and length >= threads, "rows of one constant length")
    assert length is not None
    width = _width(trace, row, length)
    times = -(-length // (threads * width))
    known(times * width <= MOST_EACH, "rows for registers")
    for name in list(read_again(trace.kernel, row.path)):
        keep_row(trace, row, name)
    kept = temporaries_of(trace, row)
    for scope in row.scopes():
        shared_out(trace, scope, Affine.constant(length), threads, times, width)
    for name in kept:
        keep_in_registers(trace, name, threads, {length: width})
    on_threads(trace, row)


def _width(trace: Trace, row: Spot, length: int) -> int:
    """How many neighbours of a row one access moves, where each row begins where that may be."""
    depth = row.depth + 1
    sizes: Sequence[int] = [
        trace.kernel.buffer(a.buffer).dtype.itemsize for a in accesses_in((row.node,)) if depends(a, depth)
    ]
    width = ACCESS_BYTES // max(sizes, default=ACCESS_BYTES)
    while length % width:
        width //= 2
    return max(1, width)
