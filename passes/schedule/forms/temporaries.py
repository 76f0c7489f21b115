"""Temporaries that are worth it: what is read once is written into its reader, and what two loops of a row compute,
a function at some cost, is kept in a row between them.

Factors of contractions that take a division or more to compute, each computed once and not for each result that
it serves, as the weights of an attention:

    y[i, e] += s[i, r] / l[i] * v[r, e]

Along `e` the quotient is the same. It is computed before that scope, in a loop of its own, and where that can be in
the place of `s`.

Scalar renaming: each live range gets its own temporary, so that nests that use one scalar may run in any order.

A text that names one scalar for the sum of each of two nests makes the second wait for the first, and neither can
run in lanes. A temporary belongs to what encloses all its uses. And a scalar for what each row adds up makes a row
wait for the one before: *scalar expansion* (Padua and Wolfe, 1986) makes an array of it, an element a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from itertools import combinations

from dojoir.costs.features import SLOW
from dojoir.costs.launches import share_at, temporary_share
from dojoir.costs.thread_work import SLOW as SLOW_IN_THREADS
from dojoir.ir.expressions import Expr, affine_parts, expr_accesses, parts
from dojoir.ir.format import format_access
from dojoir.ir.nodes import Access, Buffer, Cast, Kernel, Op, Path, Site
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import BufferName, Formula, Move, fresh_name, place_of
from dojoir.passes.engine.trace import Trace, take_over
from dojoir.passes.schedule.facts.product_facts import MOST_SUMS, products
from dojoir.passes.schedule.facts.strides import Sizes, depends, is_short, kept_by, step_of
from dojoir.passes.schedule.forms.parting import is_contraction, shared_scopes
from dojoir.passes.schedule.steps.combinators import each_once, first, repeat, tried
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.passes.schedule.steps.spots import act, add_dim, move, spot
from dojoir.passes.storage.dims import uses_of
from dojoir.passes.storage.layout import PlaceBuffer
from dojoir.passes.storage.sharing import ShareBuffer, UnshareBuffer
from dojoir.passes.values.hoisting import Hoist
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
        reads = [
            (site, a)
            for site in kernel.sites
            for a in expr_accesses(site.statement.value)
            if a.buffer == buffer.name
        ]
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


OFTEN = 64
"""For how many results a factor that is quick to compute must serve, to be computed before."""


def hoist_factors(trace: Trace, tiled: bool = False) -> None:
    """Computes each slow factor of a contraction before the outermost scope of its results that it does not go
    along; with `tiled`, of those alone that a register tile fits. Where a move is refused, the contraction stays
    as it was."""

    def slow(kernel: Kernel) -> Iterator[Site]:
        among = [product.site for product in products(kernel, MOST_SUMS)] if tiled else kernel.sites
        return (site for site in among if _factor(kernel, site, tiled) is not None)

    each_once(trace, slow, partial(_hoisted, tiled=tiled))


def _factor(kernel: Kernel, site: Site, tiled: bool) -> tuple[Path, int, Expr] | None:
    """The largest factor of a contraction that is slow to compute and does not go along one of the scopes of its
    results: the path of the outermost such scope, and the number of the part of the value, with it. In a tile,
    where a term is one operation, any other one is slow."""
    if not is_contraction(site):
        return None
    kept = kept_by(site)
    whole = site.statement.value
    factors = whole.args if tiled and isinstance(whole, Op) and whole.name == "mul" else ()
    floats = kernel.buffer(site.statement.target.buffer).dtype.is_float
    for number, part in enumerate(parts(whole)):
        slow = isinstance(part, Op) and any(
            isinstance(inner, Op) and inner.name in SLOW_IN_THREADS for inner in parts(part)
        )
        quick = floats and isinstance(part, Op | Cast) and part in factors
        if slow or quick:
            along = {depth for affine in affine_parts(part) for depth in affine.iterators}
            free = [d for d in kept if d not in along]
            often = slow or not all(is_short(site.scopes[d].extent, {}, OFTEN) for d in free)
            if free and along and often:
                return site.scope_paths[free[0]], number, part
    return None


def _hoisted(trace: Trace, site: Site, tiled: bool) -> None:
    """Raises IllegalMove where a move is refused."""
    found = _factor(trace.kernel, site, tiled)
    assert found is not None
    path, number, part = found
    own = fresh_name(trace.kernel, "factor")
    nest = spot(trace, path)
    alone = [len(spot(trace, path[:n]).body) == 1 for n in range(1, len(path))]
    act(trace, Hoist, nest, spot(trace, site.path), number, own)
    for n in range(len(path) - 1, 0, -1):
        if not alone[n - 1]:
            break
        spot(trace, path[:n]).part(1)
    for name in dict.fromkeys(access.buffer for access in expr_accesses(part)):
        if tried(trace, move(ShareBuffer, name, own)):
            return


MOST_MEMORY = 8.0
"""How many times the memory of the arguments temporaries may take that the text keeps for one iteration."""


def own_scalars(trace: Trace) -> None:
    """Gives each stretch of the text that begins to use a scalar anew, inside of a scope, a scalar of its own."""
    repeat(first(partial(_again, around=None)))(trace)


def own_arrays(trace: Trace, around: Path) -> None:
    """The same of arrays that are used in the scope at a path alone: what is computed in place, as
    `s[j] = exp(s[j] - m)`, gets an array of its own."""
    repeat(first(partial(_again, around=around)))(trace)


def expand_temporaries(trace: Trace, outside: int = 0) -> bool:
    """Scalar expansion, of scalars and rows: a temporary that inner loops compute gets a dimension for each scope
    around all of its uses, but for so many that are `outside`, as steps of time. Returns whether more statements
    are contractions then: where the sum of a product is a scalar, none of its statements is one."""
    before = _contractions(trace)
    for buffer in _on_heap(trace.kernel):
        _ = tried(trace, partial(_expanded, name=buffer.name, outside=outside))
    return _contractions(trace) > before


def expand_sums(trace: Trace, sizes: Sizes) -> None:
    """Expands the scalars and rows in which contractions accumulate, and no others: each becomes an array of
    results. Rows stay what they are where their arrays would take much more memory than the arguments do, at given
    sizes, or where those that are not given are large."""
    for buffer in _on_heap(trace.kernel):
        other = trace.copy()
        shows = tried(other, partial(_expanded, name=buffer.name)) and _contractions(other) > _contractions(trace)
        if shows and (not buffer.dims or _memory_fits(trace, other, sizes)):
            take_over(trace, other)


def _on_heap(kernel: Kernel) -> list[Buffer]:
    """The temporaries that have no other place."""
    return [buffer for buffer in kernel.buffers if buffer.role == "tmp" and buffer.storage == "heap"]


def _memory_fits(before: Trace, after: Trace, sizes: Sizes) -> bool:
    """Whether the temporaries of a kernel take no more memory than they may, or did before."""
    share = share_at if all(name in sizes for name in before.kernel.runtime_sizes) else temporary_share
    return share(after.kernel, sizes) <= max(MOST_MEMORY, share(before.kernel, sizes))


def expand_shared(trace: Trace, sizes: Sizes) -> None:
    """Expands the scalars that the scopes which are to be parted (`part_products`) share, in as much memory."""
    shared = shared_scopes(trace.kernel)
    for buffer in _on_heap(trace.kernel):
        uses = [site.path for site in trace.kernel.sites if buffer.name in site.statement.buffers]
        if not buffer.dims and any(is_inside(path, around) for path in uses for around in shared):
            other = trace.copy()
            if tried(other, partial(_expanded, name=buffer.name)) and _memory_fits(trace, other, sizes):
                take_over(trace, other)


def _contractions(trace: Trace) -> int:
    return sum(map(is_contraction, trace.kernel.sites))


def keep_scalars(trace: Trace) -> None:
    """Puts each scalar that a nest computes and uses by itself into a register, so that no iteration of it waits
    for another."""
    for buffer in _on_heap(trace.kernel):
        if not buffer.dims:
            sites = [site for site in trace.kernel.sites if buffer.name in site.statement.buffers]
            if sites and _around_all(trace.kernel, sites):
                _ = tried(trace, move(PlaceBuffer, buffer.name, "reg"))


def _expanded(trace: Trace, name: str, outside: int = 0) -> None:
    """Raises IllegalMove where an iteration needs what the one before left."""
    sites = [site for site in trace.kernel.sites if name in site.statement.buffers]
    depth = _around_all(trace.kernel, sites)
    if all(len(site.scopes) == depth for site in sites):
        return
    accesses = [access for access, _ in uses_of(trace.kernel, name)]
    missing = [d for d in range(outside, depth) if not any(depends(access, d) for access in accesses)]
    for dim, d in enumerate(missing):
        add_dim(trace, name, d, sites[0].scopes[d].extent.bounds[0], dim)


def _around_all(kernel: Kernel, sites: list[Site]) -> int:
    """How many scopes are around all of some statements."""
    levels = zip(*(site.scope_paths for site in sites), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda level: len({*level}) == 1, levels))


def _again(kernel: Kernel, around: Path | None) -> list[Move]:
    """From the last in the text to the first, so that each takes the name of no other."""
    names = {b.name for b in kernel.buffers if b.role == "tmp" and bool(b.dims) == (around is not None)}
    if around is None:
        names &= {site.statement.target.buffer for site in kernel.sites if site.scopes}
    else:
        others = (site for site in kernel.sites if not is_inside(site.path, around))
        names = names.difference(*(site.statement.buffers for site in others))
    found: list[Move] = []
    for one in UnshareBuffer.candidates(kernel):
        assert isinstance(one, UnshareBuffer)
        if str(one.buffer) in names:
            name = BufferName(fresh_name(kernel, str(one.buffer)))
            found.append(UnshareBuffer(one.buffer, name, one.position, one.accesses))
    return found[::-1]
