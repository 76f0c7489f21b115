"""Running sums of rows on a GPU: a row a block, its elements in the registers of the threads.

By the rule `blocked_scan` the row becomes groups of a few neighbours, which are a thread's, and the sums of the
groups. These, in shared memory, are blocked again until a few are left, which every thread adds up by itself.

Running values of rows of any length on a GPU.

A row that is short enough is the work of a block, whose threads have a few groups of neighbours each. It is read
again, out of a cache, once it is known what comes before each group. A longer one is cut into chunks: what each
makes is found by one launch, what comes before each by another, and from there a block goes on in each chunk.
"""

from __future__ import annotations

from functools import partial

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Condition, Extent, Path, Scope, Statement
from dojoir.passes.base.move import Quoted
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import AddGuard
from dojoir.passes.schedule.facts.strides import depends, require
from dojoir.passes.schedule.forms.running_values import Blocks, keep_beside, make_blocks, normal_step, running
from dojoir.passes.schedule.gpu.rows.rows import elements_of_one_row, keep_row
from dojoir.passes.schedule.gpu.sharing.threads import a_thread_each, along, grid, remove_around
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, act, add_dim, mark_all, spot
from dojoir.passes.schedule.steps.versions import AtMost, Multiple, split_versions
from dojoir.passes.values.rule import UseRule
from dojoir.rules.operators import OPERATORS, SUM
from dojoir.sets.kernel_sets import sets_of

GROUPS = (16, 8, 32)
"""How many sums a thread adds up of those in shared memory, the best first."""

FEW = 32
"""So many sums every thread adds up by itself."""

TEAMS = (512, 256, 128, 64, 32)

LONGEST = 32
"""How many elements of a row a thread keeps at most."""


def scan_rows(trace: Trace, path: Path) -> None:
    """Makes each iteration of the scope at `path`, the running sum of a row of constant length, the work of a
    block. Raises DojoError where it is nothing such, or threads do not share a row equally."""
    row = spot(trace, path)
    for scope in row.scopes():
        keep_beside(trace, scope)
    scan_row(trace, row)
    row.mark("gx")


def scan_row(trace: Trace, row: Spot) -> None:
    """Shares the running value of constant length that is all there is in a scope, after the statement that says
    what it begins with, out over the threads of a block. Raises DojoError where it is nothing such, or threads do
    not share it equally."""
    length, sources, result, total = _scan(row)
    width = ACCESS_BYTES // max(trace.kernel.buffer(name).dtype.itemsize for name in (*sources, result, total))
    groups, left = divmod(length, width)
    threads = next((t for t in TEAMS if groups % t == 0 and LONGEST * t >= length), 0)
    require(left == 0 < threads, "rows that threads share equally")
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
        require(size > 0, "sums in groups of equal size")
        levels.append(make_blocks(trace, levels[-1].sums, size))
        for name in levels[-2].names[:-1]:
            Array(trace, name).split(0, size).pad(1, 1)
        counts.append(counts[-1] // size)
    for name in (name for level in levels for name in level.names[:-1]):
        Array(trace, name).place("shared")
    for level, number in zip(levels, counts, strict=True):
        _on_threads(level.totals, number, threads)
        _on_threads(level.inside, number, threads)
    levels[-1].sums.mark("u")


def in_a_register(trace: Trace, name: str) -> None:
    """Keeps what a running value is in, if that is a temporary, in a register of each thread."""
    buffer = trace.kernel.buffer(name)
    if buffer.role == "tmp":
        one = Array(trace, name).single()
        _ = buffer.storage == "reg" or one.place("reg")


def _scan(row: Spot) -> tuple[int, list[str], str, str]:
    """The length of a row, what its terms read of it, where the results go, and what holds the value."""
    match row.node:
        case Scope(body=(Statement(first, "="), Scope(Extent((length,)), (_, _)))) if length.is_constant:
            found = running(row.child(1))
        case _:
            raise ArgumentError(f"the scope at {row} has no running value of constant length", "bad-arguments")
    total = found.step.target
    sources = {a.buffer for a in found.step.reads if depends(a, row.depth + 1)}
    begins = total == first and total.buffer not in sources and not row.trace.kernel.buffer(total.buffer).order
    require(begins, "begun before the row")
    return length.offset, sorted(sources), found.result.target.buffer, total.buffer


def _in_registers(
    trace: Trace, row: Spot, inside: Spot, sources: list[str], result: str, width: int, threads: int
) -> None:
    """The row is read once, into registers, and what is made of it `inside` blocks written by wide accesses; groups
    of `width` are shared out over the threads, so that neighbours have neighbours."""
    out = inside.child(1).stage(result, "out", "out")
    written = remove_around(inside.child(2))
    Array(trace, out).reuse(0)
    for source in sources:
        kept = keep_row(trace, row, source)
        own = elements_of_one_row(Array(trace, kept))
        copied, shared, neighbours = row.child(0).parts(width * threads, width)
        copied.swap()
        own.split(len(trace.kernel.buffer(kept).dims) - 1, width * threads)
        own.split(len(trace.kernel.buffer(kept).dims) - 1, width).place("reg")
        mark_all(((shared, "bx"), (copied, "u"), (neighbours, "v")))
    Array(trace, out).place("reg")
    written.mark("v")


def _on_threads(scope: Spot, count: int, threads: int) -> None:
    """A scope of `count` iterations on threads; loops inside are written out."""
    shared = scope
    if count > threads:
        shared = scope.split(threads)
        scope.swap()
        scope.mark("u")
    shared.mark("bx")
    for nest in scope.scopes():
        if not nest.scope.marks and nest.scope.constant_bound == nest.scope.extent.constant:
            nest.mark("u")


CHUNK = 4096
"""How many elements a block takes at a time at most."""

THREADS = 256

WIDTH = 4
"""How many neighbours a thread takes at a time: of f32, what an access of 16 bytes moves."""

OWN = 128
"""How many steps a thread takes at a time, where several blocks share a row and threads do not put together what a
step gives: of a linear recurrence, or under a condition."""


def long_rows(trace: Trace, path: Path) -> None:
    """Shares the running value of each iteration of the scope at `path`, a row of any length, out over blocks.
    Raises DojoError where it is no running value alone, or a move is refused."""
    row = spot(trace, path)
    require(len(path) == 1 and len(row.body) == 2 and len(row.scopes()) == 1, "a row of one running value")
    keep_beside(trace, row.scopes()[0])
    if row.scopes()[0].path[-1] == 2:  # the first element of the row, which is given away by itself
        first, row = row.part(1)
        _a_thread_each(first)
    _versions(trace, row)


def long_vector(trace: Trace, path: Path) -> None:
    """The same of a running value that is all there is of one row, along the scope at `path`."""
    along = spot(trace, path)
    require(len(path) == 1 and path[0] > 0 and isinstance(along.beside(-1).node, Statement), "a row by itself")
    keep_beside(trace, along)
    _versions(trace, along.beside(-1).wrap(2))


def _versions(trace: Trace, row: Spot) -> None:
    """A version for rows that accesses of several elements go along, in one block where they are short and in
    chunks where they are long, and one for all others."""
    length = row.child(1).scope.extent.bounds[0]
    require(not length.iterators, "an extent of all rows")
    if length.is_constant:
        wide = length.offset % WIDTH == 0
        _as_block(trace, row, wide) if length.offset <= CHUNK else _in_chunks(trace, row, wide)
        return
    others, here = split_versions(trace, row.path, Multiple(str(length), WIDTH))
    odd = spot(trace, others)
    runs = sets_of(trace.kernel).always(Condition(length, ">=", Affine.constant(1)))
    longer, shorter = split_versions(trace, here, AtMost(str(length if runs else length + 1), CHUNK))
    short, long = spot(trace, shorter), spot(trace, longer)
    _as_block(trace, short, is_wide=True)
    _in_chunks(trace, odd, is_wide=False)
    _in_chunks(trace, long, is_wide=True)


def _as_block(trace: Trace, row: Spot, is_wide: bool) -> None:
    in_a_block(trace, row, is_wide)
    row.mark("gx")


def _in_chunks(trace: Trace, row: Spot, is_wide: bool) -> None:
    """A row in chunks: a nest for what each makes, one for what comes before each, and one that goes on in each.
    Raises DojoError where a move is refused."""
    found = running(row.child(1))
    normal_step(row.child(1, found.number))
    step, extent, depth = running(row.child(1)).step, row.scope.extent.bounds[0], row.depth
    alone = step.accumulation is None or step.condition is not None  # threads do not put such together
    blocks = make_blocks(trace, row.child(1), OWN if alone else CHUNK)
    for name in blocks.names[:-1]:
        add_dim(trace, name, depth, extent)
    totals, rest = row.part(1)
    sums, inside = rest.part(2)
    if alone:
        for nest in (totals, inside):
            a_thread_each(nest.child(0))
    else:
        act(trace, UseRule, inside.child(0, 0), _begin_with(trace, inside.child(0), found.before), ())
        in_a_block(trace, inside.child(0), is_wide)
        along(totals.child(0, 1), 0, THREADS)
    for nest in (totals, inside):
        grid((nest.child(0), nest))
    if not (is_wide and tried(trace, partial(_sums_by_count, path=sums.path))):
        _a_thread_each(sums)


def _sums_by_count(trace: Trace, path: Path) -> None:
    """The prefix before each chunk: by a block where there are not too many, else in chunks again. Raises DojoError
    where a move is refused."""
    sums = spot(trace, path)
    count = sums.child(1).scope.extent.bounds[0]
    if count.is_constant:
        require(count.offset > FEW, "enough chunks for a block")
        _versions(trace, sums)
        return
    longer, shorter = split_versions(trace, path, AtMost(str(count), CHUNK))
    short, long = spot(trace, shorter), spot(trace, longer)
    _as_block(trace, short, is_wide=False)
    if not tried(trace, partial(_in_chunks, row=long, is_wide=False)):
        _a_thread_each(long)


def _a_thread_each(rows: Spot) -> None:
    a_thread_each(rows)
    rows.mark("gx")


def _begin_with(trace: Trace, chunk: Spot, before: bool) -> str:
    """The rule that has a chunk begin with what comes before it."""
    steps = [node for node in chunk.child(1).body if isinstance(node, Statement)]
    (kind,) = (o for o in OPERATORS.values() if o.accumulates in {step.op for step in steps})
    return f"begin_with{'_before' if before else ''}{'' if kind == SUM else f'_{kind.name}'}"


# -- a block -----------------------------------------------------------------------------------------------
def in_a_block(trace: Trace, row: Spot, is_wide: bool) -> None:
    """Shares a running value of at most CHUNK steps out over the threads of a block: all there is in the scope
    `row`, after what it begins with. With accesses of several elements if it `is_wide`. Raises DojoError where it
    is no running value, or a move is refused."""
    found = running(row.child(1))
    sources = sorted({a.buffer for a in found.step.reads if depends(a, row.depth + 1)})
    bounds = [bound for bound in row.child(1).scope.extent.bounds if not bound.is_constant]
    in_a_register(trace, found.step.target.buffer)
    blocks = make_blocks(trace, row.child(1), WIDTH, CHUNK // WIDTH)
    if is_wide:
        for groups, results in ((blocks.totals, []), (blocks.inside, [found.result.target.buffer])):
            _ = tried(trace, partial(_wide, groups=groups, bounds=bounds, sources=sources, results=results))
    share_blocks(trace, blocks, CHUNK // WIDTH, THREADS)


def _wide(trace: Trace, groups: Spot, bounds: list[Affine], sources: list[str], results: list[str]) -> None:
    """Has each group of neighbours read, and written, by one access. Raises IllegalMove where a move is refused."""
    loop = groups.scopes()[0]
    ends = [Condition(groups.iterator * WIDTH, "<", bound) for bound in bounds]
    act(trace, AddGuard, loop, 1, Quoted(" and ".join(map(format_condition, ends))))
    loop.bound(Affine.constant(WIDTH))
    copies = []
    for name, way in (*((source, "in") for source in sources), *((result, "out") for result in results)):
        kept = loop.stage(name, "group", way)
        copies.append(remove_around(loop.beside(-1 if way == "in" else 1)))
        Array(trace, kept).place("reg")
    mark_all([(loop, "u"), *((copy, "v") for copy in copies)])
