"""Rows side by side, where one row after another leaves a core waiting.

A sum over a row whose other factor all rows share, as of a matrix times a vector, reads that factor again for each
row. With eight rows at once it is read an eighth as often, and memory is read from eight places. A running sum over
a row waits for the addition before each, and so does all that takes from the element before, as a running maximum.
Those of four rows do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.passes.base.move import BufferName, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.rows.streams import stream_if_large
from dojoir.passes.schedule.facts.short_rows import are_short_rows
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import depends, follows, sites_in
from dojoir.passes.schedule.facts.tree import plain_scopes
from dojoir.passes.schedule.forms.carried import carry, recurs
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.schedule.steps.versions import own_temporaries
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.storage.staging import Stage
from dojoir.support.frozen import dataclass

CHAINS = 4
"""How many running sums go on side by side: as many as an addition takes cycles."""

TOGETHER = 8
"""How many elements of a running sum are put together before they are written."""

VECTOR = 4
"""How many of them are written at once: they are put together in registers, one by one."""


@dataclass(frozen=True)
class Rows:
    """A scope over rows that goes along each by the scope that is its child `number`; `written` is what running
    sums are written to. Where each is taken from what was `written` before it, it `recurs`."""

    path: Path
    number: int
    written: str
    recurs: bool = False


def rows_abreast(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Brings several rows of running sums side by side, but where these are known to be few for the cores."""
    for rows in _found(kernel):
        scope = kernel.at(rows.path)
        assert isinstance(scope, Scope)
        few = is_short(scope.extent, sizes, CHAINS * max(machine.cores, 1))
        if not few and not are_short_rows(kernel, rows.path, machine, sizes):
            yield Fit(rows.path, partial(_bring, rows=rows, machine=machine, sizes=sizes))


def _found(kernel: Kernel) -> Iterator[Rows]:
    """In the order of the text."""
    for path, node in plain_scopes(kernel):
        inner = [n for n, child in enumerate(node.body) if not isinstance(child, Statement)]
        if len(inner) != 1 or not inner[0]:
            continue
        along = node.body[inner[0]]
        if not isinstance(along, Scope) or along.marks or along.hints or len(along.extent.bounds) != 1:
            continue
        match along.body:
            case (Statement() as total, Statement() as result) if _runs(kernel, path, total, result):
                yield Rows(path, inner[0], result.target.buffer)
            case (Statement() as step,) if recurs(kernel, path, inner[0], step):
                yield Rows(path, inner[0], step.target.buffer, recurs=True)


def _runs(kernel: Kernel, path: Path, total: Statement, result: Statement) -> bool:
    """Whether two statements keep a running sum of a row, and write it along the row."""
    depth = kernel.depth_of(path)
    return (
        total.accumulation is not None
        and kernel.buffer(total.target.buffer).role == "tmp"
        and depends(total.target, depth)
        and not depends(total.target, depth + 1)
        and result.accumulation is None
        and result.target.buffer != total.target.buffer
        and kernel.buffer(result.target.buffer).role != "tmp"
        and total.target in result.reads
        and depends(result.target, depth)
        and depends(result.target, depth + 1)
    )


def _bring(trace: Trace, rows: Rows, machine: Machine, sizes: Sizes) -> None:
    """Raises IllegalMove where a move of it is refused."""
    if rows.recurs:
        carry(trace, rows.path, rows.written)
        rows = Rows(rows.path, rows.number + 1, rows.written)
    cut_rows(trace, rows.path, CHAINS)
    nest = spot(trace, rows.path)
    act(trace, Split, nest, CHAINS)
    dims_of_rows(trace, nest.child(0), CHAINS)
    scope = nest.child(0).node
    assert isinstance(scope, Scope)
    if len(scope.body) > rows.number + 1:
        act(trace, SplitScopes, nest.child(0), rows.number + 1)
    act(trace, SplitScopes, nest.child(0), rows.number)
    act(trace, SwapScopes, nest.child(1))
    _running(trace, nest, rows.written)
    stream_if_large(trace, trace.kernel.buffer(rows.written), machine, sizes)


def _running(trace: Trace, nest: Spot, result: str) -> None:
    """Puts blocks of running sums together in registers. Raises IllegalMove where a move of it is refused."""
    path = nest.child(1).path
    copy = fresh_name(trace.kernel, f"{result}_block")
    cut = cut_rows(trace, path, TOGETHER)
    along = spot(trace, path)
    act(trace, Split, along, TOGETHER)
    act(trace, Stage, along.child(0), result, copy, "out")
    act(trace, PlaceBuffer, copy, "reg")
    act(trace, Split, along.child(1, 0), VECTOR)
    act(trace, Vectorize, along.child(1, 0, 0))
    for scope in (along.child(1, 0), along.child(1), along.child(0, 0), along.child(0), nest.child(0)):
        act(trace, Unroll, scope)
    if cut:
        act(trace, Unroll, along.beside(1).child(0))


def cut_rows(trace: Trace, path: Path, count: int) -> bool:
    """Makes the scope at `path` run a multiple of `count` times, and one behind it what is left, with temporaries
    of its own. Returns whether anything may be left."""
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    (extent,) = scope.extent.bounds
    if extent.is_constant and extent.offset % count == 0:
        return False
    act(trace, Cut, spot(trace, path), extent // count * count)
    own_temporaries(trace, path, (*path[:-1], path[-1] + 1))
    return True


def dims_of_rows(trace: Trace, rows: Spot, count: int) -> None:
    """Gives what a block of rows keeps one element of for each row, and nothing else uses, so many elements."""
    kernel, depth = trace.kernel, trace.kernel.depth_of(rows.path)
    inside = {access.buffer for site in sites_in(kernel, rows.path) for access in site.statement.accesses}
    for name in sorted(inside):
        buffer = kernel.buffer(name)
        if buffer.role != "tmp":
            continue
        accesses = [a for site in kernel.sites for a in site.statement.accesses if a.buffer == name]
        for dim in range(len(buffer.dims)):
            if all(follows(access, dim, depth) for access in accesses):
                act(trace, SplitDim, name, dim, count)
                tried(trace, ReuseDims(BufferName(name), dim))
