"""Scalar renaming: each live range gets its own temporary, so that nests that use one scalar may run in any order.

A text that names one scalar for the sum of each of two nests makes the second wait for the first, and neither can
run in lanes. A temporary belongs to what encloses all its uses. And a scalar for what each row adds up makes a row
wait for the one before: *scalar expansion* (Padua and Wolfe, 1986) makes an array of it, an element a row.
"""

from __future__ import annotations

import itertools
from functools import partial

from dojoir.costs.launches import share_at, temporary_share
from dojoir.ir.nodes import Buffer, Kernel, Path, Site
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import BufferName, Move, fresh_name
from dojoir.passes.engine.trace import Trace, take_over
from dojoir.passes.schedule.facts.sizes import Sizes
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.forms.parting import is_contraction, shared_scopes
from dojoir.passes.schedule.steps.combinators import first, repeat, tried
from dojoir.passes.schedule.steps.dims import add_dim
from dojoir.passes.schedule.steps.spots import move
from dojoir.passes.storage.dims import uses_of
from dojoir.passes.storage.layout import PlaceBuffer
from dojoir.passes.storage.sharing import UnshareBuffer

MOST_MEMORY = 8.0
"""How many times the memory of the arguments temporaries may take that the text keeps for one iteration."""


def own_scalars(trace: Trace) -> None:
    """Gives each stretch of the text that begins to use a scalar anew, inside of a scope, a scalar of its own."""
    repeat(first(partial(_again, around=None)))(trace)


def own_arrays(trace: Trace, around: Path) -> None:
    """The same of arrays that are used in the scope at a path alone: what is computed in place, as
    `s[j] = exp(s[j] - m)`, gets an array of its own."""
    repeat(first(partial(_again, around=around)))(trace)


def expand_temporaries(trace: Trace) -> bool:
    """Scalar expansion, of scalars and rows: a temporary that inner loops compute gets a dimension for each scope
    around all of its uses. Returns whether more statements are contractions then: where the sum of a product is a
    scalar, none of its statements is one."""
    before = _contractions(trace)
    for buffer in _on_heap(trace.kernel):
        _ = tried(trace, partial(_expanded, name=buffer.name))
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


def _expanded(trace: Trace, name: str) -> None:
    """Raises IllegalMove where an iteration needs what the one before left."""
    sites = [site for site in trace.kernel.sites if name in site.statement.buffers]
    depth = _around_all(trace.kernel, sites)
    if all(len(site.scopes) == depth for site in sites):
        return
    accesses = [access for access, _ in uses_of(trace.kernel, name)]
    missing = [d for d in range(depth) if not any(depends(access, d) for access in accesses)]
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
