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
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.steps.combinators import first, repeat, tried
from dojoir.passes.schedule.steps.spots import act, move
from dojoir.passes.storage.dropping import AddDim
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.storage.reuse import MaterializeDims
from dojoir.passes.storage.sharing import UnshareBuffer


def own_scalars(trace: Trace) -> None:
    """Gives each stretch of the text that begins to use a scalar anew, inside of a scope, a scalar of its own."""
    repeat(first(_again))(trace)


def expand_scalars(trace: Trace) -> None:
    """Makes an array of each scalar that is accumulated by loops inside of the scopes around all its uses, with an
    element for each iteration of these. What a single iteration computes and uses stays a scalar, for registers."""
    for buffer in trace.kernel.buffers:
        if buffer.role == "tmp" and not buffer.dims and buffer.storage == "heap":
            _ = tried(trace, partial(_expanded, name=buffer.name))


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
    if not sites or all(len(site.scopes) == depth for site in sites):
        return
    for d, scope in enumerate(sites[0].scopes[:depth]):
        count = sum(access.buffer == name for s in sites for a in s.statement.accesses for access in a.accesses())
        index = Formula(str(Affine.iterator(d)))
        act(trace, AddDim, BufferName(name), d, Formula(str(scope.extent.bounds[0])), (index,) * count)
        act(trace, MaterializeDims, BufferName(name), d)


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
