"""Scalar renaming: each live range gets its own temporary, so that nests that use one scalar may run in any order.

A text that names one scalar for the sum of each of two nests makes the second wait for the first, and neither can
run in lanes. A temporary belongs to what encloses all its uses. And a scalar for what each row adds up makes a row
wait for the one before: *scalar expansion* (Padua and Wolfe, 1986) makes an array of it, an element a row.
"""

from __future__ import annotations

import itertools
from functools import partial

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Site
from dojoir.passes.base.move import BufferName, Formula, Move, fresh_name
from dojoir.passes.engine.trace import Trace, take_over
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.steps.combinators import first, repeat, tried
from dojoir.passes.schedule.steps.spots import act, move
from dojoir.passes.storage.dropping import AddDim
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.storage.reuse import MaterializeDims
from dojoir.passes.storage.sharing import UnshareBuffer


def own_scalars(trace: Trace) -> None:
    """Gives each stretch of the text that begins to use a scalar anew, inside of a scope, a scalar of its own."""
    repeat(first(_again))(trace)


def expand_temporaries(trace: Trace) -> bool:
    """Scalar expansion, of scalars and rows: a temporary that inner loops compute gets a dimension for each scope
    around all of its uses. Returns whether more statements are contractions then: where the sum of a product is a
    scalar, none of its statements is one."""
    before = _contractions(trace)
    for buffer in trace.kernel.buffers:
        if buffer.role == "tmp" and buffer.storage == "heap":
            _ = tried(trace, partial(_expanded, name=buffer.name))
    return _contractions(trace) > before


def expand_sums(trace: Trace) -> None:
    """Expands the scalars in which contractions accumulate, and no others: each becomes an array of results."""
    for buffer in trace.kernel.buffers:
        if buffer.role == "tmp" and not buffer.dims and buffer.storage == "heap":
            other = trace.copy()
            if tried(other, partial(_expanded, name=buffer.name)) and _contractions(other) > _contractions(trace):
                take_over(trace, other)


def _contractions(trace: Trace) -> int:
    return sum(map(is_contraction, trace.kernel.sites))


def keep_scalars(trace: Trace) -> None:
    """Puts each scalar that a nest computes and uses by itself into a register, so that no iteration of it waits
    for another."""
    for buffer in trace.kernel.buffers:
        if buffer.role == "tmp" and not buffer.dims and buffer.storage == "heap":
            sites = [site for site in trace.kernel.sites if buffer.name in site.statement.buffers]
            if sites and _around_all(trace.kernel, sites):
                _ = tried(trace, move(PlaceBuffer, buffer.name, "reg"))


def _expanded(trace: Trace, name: str) -> None:
    """Raises IllegalMove where an iteration needs what the one before left."""
    sites = [site for site in trace.kernel.sites if name in site.statement.buffers]
    depth = _around_all(trace.kernel, sites)
    accesses = [a for s in sites for each in s.statement.accesses for a in each.accesses() if a.buffer == name]
    if all(len(site.scopes) == depth for site in sites):
        return
    missing = [d for d in range(depth) if not any(depends(access, d) for access in accesses)]
    for dim, d in enumerate(missing):
        extent, index = sites[0].scopes[d].extent.bounds[0], Formula(str(Affine.iterator(d)))
        act(trace, AddDim, BufferName(name), dim, Formula(str(extent)), (index,) * len(accesses))
        act(trace, MaterializeDims, BufferName(name), dim)


def _around_all(kernel: Kernel, sites: list[Site]) -> int:
    """How many scopes are around all of some statements."""
    levels = zip(*(site.scope_paths for site in sites), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda level: len({*level}) == 1, levels))


def _again(kernel: Kernel) -> list[Move]:
    """From the last in the text to the first, so that each takes the name of no other."""
    scalars = {buffer.name for buffer in kernel.buffers if buffer.role == "tmp" and not buffer.dims}
    nested = {site.statement.target.buffer for site in kernel.sites if site.scopes} & scalars
    found: list[Move] = []
    for one in UnshareBuffer.candidates(kernel):
        assert isinstance(one, UnshareBuffer)
        if str(one.buffer) in nested:
            name = BufferName(fresh_name(kernel, str(one.buffer)))
            found.append(UnshareBuffer(one.buffer, name, one.position, one.accesses))
    return found[::-1]
