"""Rows side by side, where one row after another leaves a core waiting.

A sum over a row whose other factor all rows share, as of a matrix times a vector, reads that factor again for each
row. With eight rows at once it is read an eighth as often, and memory is read from eight places. A running sum over
a row waits for the addition before each, and so does all that takes from the element before, as a running maximum.
Those of four rows do not wait for each other.

So it is with sums that all rows share, as of a vector times a matrix: they are read and written an eighth as often.
Where rows go as far as a diagonal, as where a triangle is solved, those of eight rows go together as far as the
first of them does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.rows.streams import stream_if_large
from dojoir.passes.schedule.facts.narrow import are_short_rows
from dojoir.passes.schedule.facts.strides import (
    Sizes,
    depends,
    follows,
    is_short,
    plain_scopes,
    scattered,
    scope_at,
    sites_in,
    strided,
)
from dojoir.passes.schedule.forms.running_values import carry, recurs
from dojoir.passes.schedule.steps.combinators import Fit, tried
from dojoir.passes.schedule.steps.spots import Array, Spot, mark_all, move, spot
from dojoir.passes.schedule.steps.versions import own_temporaries
from dojoir.passes.storage.layout import ReuseDims
from dojoir.support.frozen import dataclass

CHAINS = 4
"""How many running sums go on side by side: as many as an addition takes cycles."""

TOGETHER = 8
"""How many elements of a running sum are put together before they are written."""

VECTOR = 4
"""How many of them are written at once: they are put together in registers, one by one."""


@dataclass(frozen=True)
class RowsAbreast:
    """A scope over rows that goes along each by the scope that is its child `number`; `written` is what running
    sums are written to. Where each is taken from what was `written` before it, it `recurs`."""

    path: Path
    number: int
    written: str
    recurs: bool = False


def rows_abreast(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Brings several rows of running sums side by side, but where these are known to be few for the cores."""
    for rows in _found(kernel):
        scope = scope_at(kernel, rows.path)
        few = is_short(scope.extent, sizes, CHAINS * max(machine.cores, 1))
        if not few and not are_short_rows(kernel, rows.path, machine, sizes):
            yield Fit(rows.path, partial(_bring, rows=rows, machine=machine, sizes=sizes))


def _found(kernel: Kernel) -> Iterator[RowsAbreast]:
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
                yield RowsAbreast(path, inner[0], result.target.buffer)
            case (Statement() as step,) if recurs(kernel, path, inner[0], step):
                yield RowsAbreast(path, inner[0], step.target.buffer, recurs=True)


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


def _bring(trace: Trace, rows: RowsAbreast, machine: Machine, sizes: Sizes) -> None:
    """Raises IllegalMove where a move of it is refused."""
    if rows.recurs:
        carry(trace, rows.path, rows.written)
        rows = RowsAbreast(rows.path, rows.number + 1, rows.written)
    nest = block_of_rows(trace, rows.path, CHAINS)
    if len(nest.child(0).body) > rows.number + 1:
        nest.child(0).part(rows.number + 1)
    nest.child(0).part(rows.number)
    nest.child(1).swap()
    _running(trace, nest, rows.written)
    stream_if_large(trace, trace.kernel.buffer(rows.written), machine, sizes)


def _running(trace: Trace, nest: Spot, result: str) -> None:
    """Puts blocks of running sums together in registers. Raises IllegalMove where a move of it is refused."""
    path = nest.child(1).path
    cut = cut_rows(trace, path, TOGETHER)
    along = spot(trace, path)
    along.split(TOGETHER).stage(result, "block", "out", "reg")
    made, written = along.child(0), along.child(1)
    vector = written.child(0).split(VECTOR)
    once = (written.child(0), written, made.child(0), made, nest.child(0))
    mark_all([(vector, "v"), *((scope, "u") for scope in once)])
    if cut:
        along.beside(1).child(0).mark("u")


def block_of_rows(trace: Trace, path: Path, count: int) -> Spot:
    """Brings so many rows at a time into a scope inside of the one at a path, what is left behind it. What they
    keep has as many elements. Returns the scope over blocks. Raises IllegalMove where a move of it is refused."""
    cut_rows(trace, path, count)
    nest = spot(trace, path)
    dims_of_rows(nest.split(count), count)
    return nest


def cut_rows(trace: Trace, path: Path, count: int) -> bool:
    """Makes the scope at `path` run a multiple of `count` times, and one behind it what is left, with temporaries
    of its own. Returns whether anything may be left."""
    (extent,) = scope_at(trace.kernel, path).extent.bounds
    if extent.is_constant and extent.offset % count == 0:
        return False
    _, left = spot(trace, path).cut(extent // count * count)
    own_temporaries(trace, path, left.path)
    return True


def dims_of_rows(rows: Spot, count: int) -> None:
    """Gives what a block of rows keeps one element of for each row, and nothing else uses, so many elements."""
    trace, kernel, depth = rows.trace, rows.trace.kernel, rows.depth
    for name in sorted(
        {name for site in sites_in(kernel, rows.path) for name in {a.buffer for a in site.statement.accesses}}
    ):
        accesses = [a for site in kernel.sites for a in site.statement.accesses if a.buffer == name]
        for dim in range(len(kernel.buffer(name).dims) if kernel.buffer(name).role == "tmp" else 0):
            if all(follows(access, dim, depth) for access in accesses):
                Array(trace, name).split(dim, count)
                tried(trace, move(ReuseDims, name, dim))


ROWS = 8
"""How many rows are summed at once: their accumulators fit any registers, with what they read."""


@dataclass(frozen=True)
class Sums:
    """A scope over rows that goes along each by the scopes that are its children `numbers`, one after the other."""

    path: Path
    numbers: tuple[int, ...]


def sums_abreast(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Brings the sums of several rows side by side, but where rows are known to be few for the cores."""
    for sums in _found_sums(kernel):
        scope = scope_at(kernel, sums.path)
        few = is_short(scope.extent, sizes, ROWS * max(machine.cores, 1))
        if not few and not are_short_rows(kernel, sums.path, machine, sizes):
            yield Fit(sums.path, partial(_bring_sums, sums=sums))


def _found_sums(kernel: Kernel) -> Iterator[Sums]:
    """In the order of the text."""
    for path, node in plain_scopes(kernel):
        numbers = tuple(n for n, child in enumerate(node.body) if not isinstance(child, Statement))
        if numbers and all(_shares(kernel, (*path, n)) for n in numbers):
            yield Sums(path, numbers)


def _shares(kernel: Kernel, path: Path) -> bool:
    """Whether a scope adds up what lies along a row, in statements of which each sums up for its row, times what
    all rows share, or for what all rows share. And lanes go along rows. For several sums it is one array that lies
    along rows: of two, memory would be read from twice as many places, which is slower. Sums under a
    condition on data may end with few rows."""
    along = kernel.at(path)
    if not isinstance(along, Scope) or along.marks or along.hints or len(along.extent.bounds) != 1:
        return False
    sums = [node for node in along.body if isinstance(node, Statement)]
    inner = kernel.depth_of(path)
    inside = [a for sum_ in sums for a in sum_.accesses if depends(a, inner)]
    shared = [access for access in inside if not depends(access, inner - 1)]
    return (
        len(sums) == len(along.body)
        and all(sum_.accumulation is not None and sum_.condition is None for sum_ in sums)
        and all(depends(sum_.target, inner) != depends(sum_.target, inner - 1) for sum_ in sums)
        and len(shared) > 0
        and len(inside) > len(shared)
        and (len(sums) == 1 or len(set(inside) - set(shared)) == 1)
        and scattered(kernel, path[:-1]) > 0
        and not strided(kernel, path)
    )


def _bring_sums(trace: Trace, sums: Sums) -> None:
    """Raises IllegalMove where a move of it is refused."""
    nest = block_of_rows(trace, sums.path, ROWS)
    for number in reversed(sums.numbers):
        along = nest.child(0, number)
        if any(nest.depth + 1 in bound.iterators for bound in along.scope.extent.bounds):
            along.cut(nest.iterator * ROWS)
        if len(nest.child(0).body) > number + 1:
            nest.child(0).part(number + 1)
        if number:
            nest.child(0).part(number)
    for n, rows in enumerate(nest.body):
        if isinstance(rows, Scope) and isinstance(rows.body[0], Scope) and len(rows.body) == 1:
            nest.child(n).swap()
            mark_all(((nest.child(n), "v"), (nest.child(n, 0), "u")))
