"""Running sums of rows on a GPU: a row a block, its elements in the registers of the threads.

By the rule `blocked_scan` the row becomes groups of a few neighbours, which are a thread's, and the sums of the
groups. These, in shared memory, are blocked again until a few are left, which every thread adds up by itself.
"""

from __future__ import annotations

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Extent, Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.forms.running import Blocks, keep_beside, make_blocks, running
from dojoir.passes.schedule.gpu.rows.rows import keep_row
from dojoir.passes.schedule.gpu.sharing.copies import remove_around
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PadDims, PlaceBuffer, ReuseDims
from dojoir.passes.storage.staging import Stage

GROUPS = (16, 8, 32)
"""How many sums a thread adds up of those in shared memory, the best first."""

FEW = 32
"""So many sums every thread adds up by itself."""

THREADS = (512, 256, 128, 64, 32)

LONGEST = 32
"""How many elements of a row a thread keeps at most."""


def scan_rows(trace: Trace, path: Path) -> None:
    """Makes each iteration of the scope at `path`, the running sum of a row of constant length, the work of a
    block. Raises DojoError where it is nothing such, or threads do not share a row equally."""
    row = spot(trace, path)
    for along in row.scopes():
        keep_beside(trace, along)
    scan_row(trace, row)
    act(trace, Bind, row, "gx")


def scan_row(trace: Trace, row: Spot) -> None:
    """Shares the running value of constant length that is all there is in a scope, after the statement that says
    what it begins with, out over the threads of a block. Raises DojoError where it is nothing such, or threads do
    not share it equally."""
    length, sources, result, total = _scan(row)
    width = ACCESS_BYTES // max(trace.kernel.buffer(name).dtype.itemsize for name in (*sources, result, total))
    groups, left = divmod(length, width)
    threads = next((t for t in THREADS if groups % t == 0 and LONGEST * t >= length), 0)
    if left or not threads:
        raise ArgumentError(f"threads do not share rows of {length} elements equally", "bad-arguments")
    in_a_register(trace, total)
    levels = [make_blocks(trace, row.child(1), width)]
    _in_registers(trace, row, levels[0].inside, sources, result, width, threads)
    share_blocks(trace, levels[0], groups, threads)


def share_blocks(trace: Trace, first: Blocks, count: int, threads: int) -> None:
    """Shares `count` blocks of a running value out over threads, and puts together what they make in shared memory,
    in blocks again until there are few. Raises DojoError where there are no blocks of equal size, or a move of it
    is refused."""
    levels, counts = [first], [count]
    while counts[-1] > FEW:
        size = next((g for g in GROUPS if counts[-1] % g == 0), 0)
        if not size:
            raise ArgumentError(f"{counts[-1]} sums of groups are no groups of equal size", "bad-arguments")
        levels.append(make_blocks(trace, levels[-1].sums, size))
        for name in levels[-2].names[:-1]:
            act(trace, SplitDim, name, 0, size)
            act(trace, PadDims, name, 1, 1)
        counts.append(counts[-1] // size)
    for name in (name for level in levels for name in level.names[:-1]):
        act(trace, PlaceBuffer, name, "shared")
    for level, number in zip(levels, counts, strict=True):
        _on_threads(trace, level.totals, number, threads)
        _on_threads(trace, level.inside, number, threads)
    act(trace, Unroll, levels[-1].sums)


def in_a_register(trace: Trace, name: str) -> None:
    """Keeps what a running value is in, if that is a temporary, in a register of each thread."""
    buffer = trace.kernel.buffer(name)
    if buffer.role == "tmp":
        for d, dim in enumerate(buffer.dims):
            if not dim.collapsed:
                act(trace, ReuseDims, name, d)
        if buffer.storage != "reg":
            act(trace, PlaceBuffer, name, "reg")


def _scan(row: Spot) -> tuple[int, list[str], str, str]:
    """The length of a row, what its terms read of it, where the results go, and what holds the value."""
    kernel = row.trace.kernel
    match row.node:
        case Scope(body=(Statement(first, "="), Scope(Extent((length,)), (_, _)))) if length.is_constant:
            found, along = running(kernel, row.child(1).path), row.depth + 1
        case _:
            found = None
    if found is None:
        raise ArgumentError(f"the scope at {row} has no running value of constant length", "bad-arguments")
    steps = [row.child(1, n).node for n in (found.step, 1 - found.step)]
    step, last = (node for node in steps if isinstance(node, Statement))
    sources = {a.buffer for a in step.reads if depends(a, along)}
    if kernel.buffer(step.target.buffer).order or step.target != first or step.target.buffer in sources:
        raise ArgumentError(f"what runs along {row} does not begin before it", "bad-arguments")
    return length.offset, sorted(sources), last.target.buffer, step.target.buffer


def _in_registers(
    trace: Trace, row: Spot, inside: Spot, sources: list[str], result: str, width: int, threads: int
) -> None:
    """The row is read once, into registers, and what is made of it `inside` blocks written by wide accesses; groups
    of `width` are shared out over the threads, so that neighbours have neighbours."""
    out = fresh_name(trace.kernel, f"{result}_out")
    act(trace, Stage, inside.child(1), result, out, "out")
    written = remove_around(trace, inside.child(2))
    act(trace, ReuseDims, out, 0)
    for source in sources:
        kept = keep_row(trace, row, source)
        last = len(trace.kernel.buffer(kept).dims) - 1
        for d in range(last):
            act(trace, ReuseDims, kept, d)
        copied = row.child(0)
        act(trace, Split, copied, width * threads)
        shared = copied.child(0)
        act(trace, Split, shared, width)
        neighbours = shared.child(0)
        act(trace, SwapScopes, copied)
        act(trace, SplitDim, kept, last, width * threads)
        act(trace, SplitDim, kept, last + 1, width)
        act(trace, PlaceBuffer, kept, "reg")
        act(trace, Bind, shared, "bx")
        act(trace, Unroll, copied)
        act(trace, Vectorize, neighbours)
    act(trace, PlaceBuffer, out, "reg")
    act(trace, Vectorize, written)


def _on_threads(trace: Trace, scope: Spot, count: int, threads: int) -> None:
    """A scope of `count` iterations on threads; loops inside are written out."""
    shared = scope
    if count > threads:
        act(trace, Split, scope, threads)
        shared = scope.child(0)
        act(trace, SwapScopes, scope)
        act(trace, Unroll, scope)
    act(trace, Bind, shared, "bx")
    for nest in scope.scopes():
        if not nest.scope.marks and nest.scope.constant_bound == nest.scope.extent.constant:
            act(trace, Unroll, nest)
