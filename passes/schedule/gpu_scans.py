"""Running sums of rows on a GPU: a row a block, its elements in the registers of the threads.

By the rule `blocked_scan` the row becomes groups of a few neighbours, which are a thread's, and the sums of the
groups; these, in shared memory, are blocked again until a few are left, which every thread adds up by itself.
"""

from __future__ import annotations

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Access, Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.gpu_copies import remove_around
from dojoir.passes.schedule.gpu_rows import keep_row
from dojoir.passes.schedule.spots import Spot, act, spot
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.pad_dims import PadDims
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.storage.reuse import ReuseDims
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.rule import UseRule
from dojoir.support.frozen import dataclass

GROUPS = (16, 8, 32)
"""How many sums a thread adds up of those in shared memory, the best first."""

FEW = 32
"""So many sums every thread adds up by itself."""

THREADS = (512, 256, 128, 64, 32)

LONGEST = 32
"""How many elements of a row a thread keeps at most."""


@dataclass(frozen=True)
class _Level:
    """What a rule makes of a running sum: the arrays with the sums of blocks and with those before each, the scope
    that adds up blocks, the one that runs over their sums, and the one that goes on from these inside of blocks."""

    shared: tuple[str, str]
    blocks: Spot
    sums: Spot
    inside: Spot


def scan_rows(trace: Trace, path: Path) -> None:
    """Makes each iteration of the scope at `path`, the running sum of a row of constant length, the work of a
    block. Raises DojoError where it is nothing such, or threads do not share a row equally."""
    row = spot(trace, path)
    length, source, result, total = _scan(row)
    width = ACCESS_BYTES // max(trace.kernel.buffer(name).dtype.itemsize for name in (source, result, total))
    groups, left = divmod(length, width)
    threads = next((t for t in THREADS if groups % t == 0 and LONGEST * t >= length), 0)
    if left or not threads:
        raise ArgumentError(f"threads do not share rows of {length} elements equally", "bad-arguments")
    if trace.kernel.buffer(total).role == "tmp":
        for d, dim in enumerate(trace.kernel.buffer(total).dims):
            if not dim.collapsed:
                act(trace, ReuseDims, total, d)
        act(trace, PlaceBuffer, total, "reg")
    act(trace, Split, row.child(1), width)
    levels = [_blocked(trace, row.child(0), "blocked_scan")]
    _in_registers(trace, row, levels[0].inside, (source, result), width, threads)
    counts = [groups]
    while counts[-1] > FEW:
        size = next((g for g in GROUPS if counts[-1] % g == 0), 0)
        if not size:
            raise ArgumentError(f"{counts[-1]} sums of groups are no groups of equal size", "bad-arguments")
        sums = levels[-1].sums
        act(trace, Split, sums, size)
        levels.append(_blocked(trace, sums.beside(-1), "blocked_scan_before"))
        for name in levels[-2].shared:
            act(trace, SplitDim, name, 0, size)
            act(trace, PadDims, name, 1, 1)
        counts.append(counts[-1] // size)
    for name in (name for level in levels for name in level.shared):
        act(trace, PlaceBuffer, name, "shared")
    for level, count in zip(levels, counts, strict=True):
        _on_threads(trace, level.blocks, count, threads)
        _on_threads(trace, level.inside, count, threads)
    act(trace, Unroll, levels[-1].sums)
    act(trace, Bind, row, "gx")


def _scan(row: Spot) -> tuple[int, str, str, str]:
    """The length of the rows, what is added up, where the sums go, and what they are added up in."""
    kernel = row.trace.kernel
    match row.node:
        case Scope(body=(Statement(first, "="), Scope(extent, (Statement(sum_, "+=", Access(source)), last)))):
            plain = extent.constant is not None and not kernel.buffer(sum_.buffer).order and sum_ == first
            if plain and isinstance(last, Statement) and last.op == "=" and last.value == sum_:
                return extent.constant or 0, source, last.target.buffer, sum_.buffer
    raise ArgumentError(f"the scope at {row} has no running sum of constant length", "bad-arguments")


def _blocked(trace: Trace, start: Spot, rule: str) -> _Level:
    """Uses a rule where a running sum starts. The sum inside a block is in a register."""
    path = start.path
    names = [fresh_name(trace.kernel, wanted) for wanted in ("block", "before", "within")]
    act(trace, UseRule, start, rule, names)
    act(trace, PlaceBuffer, names[2], "reg")
    blocks = spot(trace, path)  # and what the sum of them starts with is behind it
    return _Level((names[0], names[1]), blocks, blocks.beside(2), blocks.beside(3))


def _in_registers(trace: Trace, row: Spot, inside: Spot, arrays: tuple[str, str], width: int, threads: int) -> None:
    """The row is read once, into registers, and what is made of it `inside` blocks written by wide accesses; groups
    of `width` are shared out over the threads, so that neighbours have neighbours."""
    source, result = arrays
    out = fresh_name(trace.kernel, f"{result}_out")
    act(trace, Stage, inside.child(1), result, out, "out")
    written = remove_around(trace, inside.child(2))
    act(trace, ReuseDims, out, 0)
    kept = keep_row(trace, row, source)
    act(trace, ReuseDims, kept, 0)
    copied = row.child(0)
    act(trace, Split, copied, width * threads)
    shared = copied.child(0)
    act(trace, Split, shared, width)
    neighbours = shared.child(0)
    act(trace, SwapScopes, copied)
    act(trace, SplitDim, kept, 1, width * threads)
    act(trace, SplitDim, kept, 2, width)
    for name in (kept, out):
        act(trace, PlaceBuffer, name, "reg")
    act(trace, Bind, shared, "bx")
    act(trace, Unroll, copied)
    act(trace, Vectorize, neighbours)
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
        if not nest.scope.marks:
            act(trace, Unroll, nest)
