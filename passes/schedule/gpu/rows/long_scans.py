"""Running values of rows of any length on a GPU.

A row that is short enough is the work of a block, whose threads have a few groups of neighbours each. It is read
again, out of a cache, once it is known what comes before each group. A longer one is cut into chunks: what each
makes is found by one launch, what comes before each by another, and from there a block goes on in each chunk.
"""

from __future__ import annotations

from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Path, Statement
from dojoir.ir.text import format_condition
from dojoir.passes.base.move import Quoted, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.guards import AddGuard
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.once import AddScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.forms.running import keep_beside, make_blocks, normal_step, running
from dojoir.passes.schedule.gpu.rows.scans import FEW, in_a_register, share_blocks
from dojoir.passes.schedule.gpu.sharing.copies import remove_around
from dojoir.passes.schedule.gpu.sharing.threads import along
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.dims import add_dim
from dojoir.passes.schedule.steps.spots import Spot, act, in_two, spot
from dojoir.passes.schedule.steps.versions import AtMost, Multiple, split_versions
from dojoir.passes.storage.layout import PlaceBuffer
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.rule import UseRule
from dojoir.rules.operators import OPERATORS, SUM
from dojoir.sets.kernel_sets import sets_of

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
    if len(path) != 1 or len(row.body) != 2 or len(row.scopes()) != 1:
        raise ArgumentError(f"the scope at {row} has more than one running value", "bad-arguments")
    keep_beside(trace, row.scopes()[0])
    if row.scopes()[0].path[-1] == 2:  # the first element of the row, which is given away by itself
        first, row = in_two(trace, SplitScopes, row, 1)
        _a_thread_each(trace, first)
    _versions(trace, row)


def long_vector(trace: Trace, path: Path) -> None:
    """The same of a running value that is all there is of one row, along the scope at `path`."""
    along = spot(trace, path)
    if len(path) != 1 or not path[0] or not isinstance(along.beside(-1).node, Statement):
        raise ArgumentError(f"{along} is no row by itself", "bad-arguments")
    keep_beside(trace, along)
    act(trace, AddScope, along.beside(-1), 2)
    _versions(trace, along.around())


def _versions(trace: Trace, row: Spot) -> None:
    """A version for rows that accesses of several elements go along, in one block where they are short and in
    chunks where they are long, and one for all others."""
    length = row.child(1).scope.extent.bounds[0]
    if length.iterators:
        raise ArgumentError(f"the extent {length} is not that of all rows", "bad-arguments")
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
    act(trace, Bind, row, "gx")


def _in_chunks(trace: Trace, row: Spot, is_wide: bool) -> None:
    """A row in chunks: a nest for what each makes, one for what comes before each, and one that goes on in each.
    Raises DojoError where a move is refused."""
    found = running(trace.kernel, row.child(1).path)
    if found is None:
        raise ArgumentError(f"no value goes on along {row}", "bad-arguments")
    normal_step(trace, row.child(1, found.step))
    step, extent, depth = row.child(1, found.step).node, row.scope.extent.bounds[0], row.depth
    assert isinstance(step, Statement)
    alone = step.accumulation is None or step.condition is not None  # threads do not put such together
    blocks = make_blocks(trace, row.child(1), OWN if alone else CHUNK)
    for name in blocks.names[:-1]:
        add_dim(trace, name, depth, extent)
    totals, rest = in_two(trace, SplitScopes, row, 1)
    sums, inside = in_two(trace, SplitScopes, rest, 2)
    if alone:
        for nest in (totals, inside):
            act(trace, Split, nest.child(0), THREADS)
            act(trace, Bind, nest.child(0, 0), "bx")
    else:
        act(trace, UseRule, inside.child(0, 0), _begin_with(trace, inside.child(0), found.before), ())
        in_a_block(trace, inside.child(0), is_wide)
        along(trace, totals.child(0, 1), 0, THREADS)
    for nest in (totals, inside):
        act(trace, Bind, nest.child(0), "gx")
        act(trace, Bind, nest, "gy")
    if not (is_wide and tried(trace, partial(_sums_by_count, path=sums.path))):
        _a_thread_each(trace, sums)


def _sums_by_count(trace: Trace, path: Path) -> None:
    """The prefix before each chunk: by a block where there are not too many, else in chunks again. Raises DojoError
    where a move is refused."""
    sums = spot(trace, path)
    count = sums.child(1).scope.extent.bounds[0]
    if count.is_constant:
        if count.offset <= FEW:
            raise ArgumentError(f"{count} chunks are too few for a block", "bad-arguments")
        _versions(trace, sums)
        return
    longer, shorter = split_versions(trace, path, AtMost(str(count), CHUNK))
    short, long = spot(trace, shorter), spot(trace, longer)
    _as_block(trace, short, is_wide=False)
    if not tried(trace, partial(_in_chunks, row=long, is_wide=False)):
        _a_thread_each(trace, long)


def _a_thread_each(trace: Trace, rows: Spot) -> None:
    act(trace, Split, rows, THREADS)
    act(trace, Bind, rows.child(0), "bx")
    act(trace, Bind, rows, "gx")


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
    found = running(trace.kernel, row.child(1).path)
    if found is None:
        raise ArgumentError(f"no value goes on along {row}", "bad-arguments")
    nodes = [row.child(1, n).node for n in (found.step, 1 - found.step)]
    step, last = (node for node in nodes if isinstance(node, Statement))
    sources = sorted({a.buffer for a in step.reads if depends(a, row.depth + 1)})
    bounds = [bound for bound in row.child(1).scope.extent.bounds if not bound.is_constant]
    in_a_register(trace, step.target.buffer)
    blocks = make_blocks(trace, row.child(1), WIDTH, CHUNK // WIDTH)
    if is_wide:
        tried(trace, partial(_wide, groups=blocks.totals, bounds=bounds, sources=sources, result=None))
        result = last.target.buffer
        tried(trace, partial(_wide, groups=blocks.inside, bounds=bounds, sources=sources, result=result))
    share_blocks(trace, blocks, CHUNK // WIDTH, THREADS)


def _wide(trace: Trace, groups: Spot, bounds: list[Affine], sources: list[str], result: str | None) -> None:
    """Has each group of neighbours read, and written, by one access. Raises IllegalMove where a move is refused."""
    loop = groups.scopes()[0]
    ends = [Condition(groups.iterator * WIDTH, "<", bound) for bound in bounds]
    act(trace, AddGuard, loop, 1, Quoted(" and ".join(map(format_condition, ends))))
    act(trace, SetExtent, loop, Affine.constant(WIDTH))
    copies = []
    for name, way in (*((source, "in") for source in sources), *([(result, "out")] if result else [])):
        kept = fresh_name(trace.kernel, f"{name}_group")
        act(trace, Stage, loop, name, kept, way)
        copies.append(remove_around(trace, loop.beside(-1 if way == "in" else 1)))
        act(trace, PlaceBuffer, kept, "reg")
    act(trace, Unroll, loop)
    for copy in copies:
        act(trace, Vectorize, copy)
