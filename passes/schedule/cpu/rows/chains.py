"""Rows of which each element waits for the one before and for the row before: several of them in flight.

`a[i, j] = f(a[i, j - 1], a[i - 1, j + 1], …)` is a chain along the row, and rows wait for each other as well.
Blocks of a row go on as soon as the row before is two blocks further, so that the chains of several rows overlap.
What each element takes from elsewhere is added up before the chain, in lanes.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Expr, Kernel, Op, Path, Scope, Statement
from dojoir.passes.base.move import BufferName, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Vectorize
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.skewing import Skew
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.values.rule import UseRule
from dojoir.passes.values.subexpressions import ExtractSubexpression, InlineSubexpression

ROWS = 4
"""How many rows are in flight: as many as the processor sees at once."""

APART = 2
"""How many blocks a row is behind the one before: what it reads is written by then, and on its way to the cache."""

BLOCK = 8
"""The least elements of a block."""


def chain_of(kernel: Kernel, path: Path) -> Access | None:
    """The read of the element before in a scope over rows, with nothing in it but a scope along the row with one
    statement that takes its element from that one."""
    rows = kernel.at(path)
    if not isinstance(rows, Scope) or rows.marks or rows.hints:
        return None
    match rows.body:
        case (Scope(body=(Statement() as step,)) as along,) if not along.marks and not along.hints:
            pass
        case _:
            return None
    depth, target = kernel.depth_of(path) + 1, step.target
    if step.accumulation is not None or not target.indices:
        return None
    for read in step.reads:
        if read.buffer == target.buffer and read.indices[:-1] == target.indices[:-1]:
            last, own = read.indices[-1], target.indices[-1]
            if isinstance(last, Affine) and isinstance(own, Affine) and depth in own.iterators and own == last + 1:
                return read
    return None


def put_last(trace: Trace, path: Path) -> None:
    """Makes the term of a sum that has the element before its last one, as far as it is a sum and algebra is
    allowed, in rows at `path` which have a chain. Raises IllegalMove where a move is refused."""
    chain = chain_of(trace.kernel, path)
    assert chain is not None
    place = (*path, 0, 0)
    while trace.kernel.fp == "fast":
        statement = trace.kernel.at(place)
        assert isinstance(statement, Statement)
        found = _early(statement.value, chain)
        if found is None:
            return
        part, rule = found
        name = fresh_name(trace.kernel, "sum")
        act(trace, ExtractSubexpression, spot(trace, place), part, name)
        act(trace, UseRule, spot(trace, place), rule)
        act(trace, InlineSubexpression, spot(trace, (*path, 0, 1)), name)


def rows_in_flight(trace: Trace, path: Path, machine: Machine) -> None:
    """Runs blocks of the rows at `path`, which have a chain, two blocks behind each other, with what the chain
    takes from elsewhere added up before, in lanes. Raises IllegalMove where a move is refused."""
    chain = chain_of(trace.kernel, path)
    assert chain is not None
    statement = trace.kernel.at((*path, 0, 0))
    assert isinstance(statement, Statement)
    size = max(BLOCK, machine.vector_bytes // trace.kernel.buffer(chain.buffer).dtype.itemsize)
    name = fresh_name(trace.kernel, f"{chain.buffer}_around")
    part = _around(statement.value, chain)
    if part is not None:
        act(trace, ExtractSubexpression, spot(trace, (*path, 0, 0)), part, name)
    act(trace, Split, spot(trace, (*path, 0)), size)
    if part is not None:
        act(trace, SplitScopes, spot(trace, (*path, 0, 0)), 1)
        last = len(trace.kernel.buffer(name).dims) - 1
        for dim in range(last):
            tried(trace, ReuseDims(BufferName(name), dim))
        act(trace, SplitDim, name, last, size)
    act(trace, Skew, spot(trace, path), APART)
    act(trace, SwapScopes, spot(trace, path))
    if part is not None:
        act(trace, ReuseDims, name, last)
        act(trace, PlaceBuffer, name, "stack")
        act(trace, Vectorize, spot(trace, (*path, 0, 0, 0)))


def _early(value: Expr, chain: Access) -> tuple[int, str] | None:
    """A part of an expression in which the term with a read is not the last, and the rule that brings it on."""
    for number, part in enumerate(parts(value)):
        match part:
            case Op("add", (Op("add", (_, term)), _)) if _has(term, chain):
                return number, "exchange_terms"
            case Op("add", (term, _)) if _has(term, chain) and not (isinstance(term, Op) and term.name == "add"):
                return number, "turn_sum"
    return None


def _around(value: Expr, chain: Access) -> int | None:
    """The number of the part that is added to the term with a read, if there is something to compute in it."""
    for number, part in enumerate(parts(value)):
        match part:
            case Op("add", (Op(), term)) if _has(term, chain) and not _has(part.args[0], chain):
                return number + 1
    return None


def _has(expr: Expr, read: Access) -> bool:
    return any(part == read for part in parts(expr))
