"""Temporaries that are worth it: what is read once is written into its reader, and what two loops of a row compute,
a function at some cost, is kept in a row between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations

from dojoir.costs.features import SLOW
from dojoir.ir.expressions import expr_accesses, parts
from dojoir.ir.nodes import Access, Expr, Kernel, Op, Site
from dojoir.ir.text import format_access
from dojoir.passes.base.move import BufferName, Formula, Move, fresh_name, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import depends, step_of
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.steps.combinators import first, repeat, tried
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.values.inlining import Extract, Inline
from dojoir.passes.values.subexpressions import ExtractSubexpression

DEAR = 16
"""The operations from which a value is worth an element of a row that is in a cache."""


# -- read once ----------------------------------------------------------------------------------------------------
def inline_once(trace: Trace) -> None:
    """Writes into its reader each value of a temporary that one statement writes and one reads, both along memory,
    and an element at most once. All that it is for is a pass over it. A copy of an argument that only contractions
    read, as one that is turned, goes too: a tile packs what it reads by itself."""
    repeat(first(_read_once))(trace)
    delete_dead(trace)


def _read_once(kernel: Kernel) -> Iterator[Move]:
    for buffer in kernel.buffers:
        if buffer.role != "tmp" or not buffer.dims:
            continue
        writers = [site for site in kernel.sites if site.statement.target.buffer == buffer.name]
        reads = [(site, a) for site in kernel.sites for a in _read_by(site) if a.buffer == buffer.name]
        if len(writers) != 1 or not reads or writers[0].statement.accumulation is not None:
            continue
        (writer,), ((reader, read), *others) = writers, reads
        copied = writer.statement.value
        argument = isinstance(copied, Access) and kernel.buffer(copied.buffer).role == "in"
        if argument and all(is_contraction(site) for site, _ in reads):
            yield Inline(place_of(reader.path), BufferName(buffer.name))
            continue
        if others:
            continue
        inner, own = len(reader.scopes) - 1, len(writer.scopes) - 1
        each = all(depends(read, depth) for depth in range(len(reader.scopes)))
        if each and step_of(kernel, read, inner) == 1 == step_of(kernel, writer.statement.target, own):
            yield Inline(place_of(reader.path), BufferName(buffer.name))


def _read_by(site: Site) -> list[Access]:
    return list(expr_accesses(site.statement.value))


# -- computed twice -----------------------------------------------------------------------------------------------
def keep_repeated(trace: Trace) -> None:
    """Keeps a value at some cost that two loops of one row compute, for the second one to read it."""
    for _ in range(len(trace.kernel.sites)):
        if not any(tried(trace, partial(_kept, pair=pair)) for pair in list(_pairs(trace.kernel))):
            return


Pair = tuple[Site, Site, Expr]


def _pairs(kernel: Kernel) -> Iterator[Pair]:
    """Two statements in different scopes of one, of the same extents, and a value that both compute."""
    for one, other in combinations(kernel.sites, 2):
        extents = [[scope.extent for scope in site.scopes] for site in (one, other)]
        if len(one.scopes) < 2 or extents[0] != extents[1] or one.scope_paths[-2] != other.scope_paths[-2]:
            continue
        if one.scope_paths[-1] == other.scope_paths[-1] or any(s.marks for s in (*one.scopes, *other.scopes)):
            continue
        values = [part for part in parts(one.statement.value) if _cost(part) >= DEAR]
        for part in parts(other.statement.value):
            if part in values and any(depends(a, len(one.scopes) - 1) for a in expr_accesses(part)):
                yield one, other, part
                break


def _cost(value: Expr) -> int:
    return sum(SLOW.get(part.name, 1) for part in parts(value) if isinstance(part, Op))


def _kept(trace: Trace, pair: Pair) -> None:
    one, other, value = pair
    reader = spot(trace, other.path)
    whole = one.statement.target if one.statement.value == value and one.statement.accumulation is None else None
    if whole is not None and trace.kernel.buffer(whole.buffer).role == "tmp":
        read = whole
    else:
        name = fresh_name(trace.kernel, "kept")
        number = list(parts(one.statement.value)).index(value)
        act(trace, ExtractSubexpression, spot(trace, one.path), number, name)
        read = next(s.statement.target for s in trace.kernel.sites if s.statement.target.buffer == name)
    number = list(parts(other.statement.value)).index(value)
    act(trace, Extract, reader, (number,), (Formula(format_access(read)),))
