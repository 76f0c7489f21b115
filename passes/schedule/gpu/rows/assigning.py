"""Nests on a GPU that assign at indices from data: of the iterations that assign one element the last is found, and
then all of them run side by side.

The last one is a maximum of the numbers of iterations, which threads take by atomics (`keep_last_writer`). An index
that goes on in the nest, as the place of the next element that is kept, is brought into an array first: the nest
becomes one that computes it, a scan, and one that assigns.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Kernel, Path, Scope, Site, expr_accesses
from dojoir.ir.paths import is_inside
from dojoir.ir.places import siblings
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.schedule.facts.strides import sites_in
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.steps.dims import add_dim
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.last_writers import KeepLastWriter
from dojoir.sets.apart import apart


def assigns_at_data(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Lets the iterations of a nest that assign at indices from data store only what stays, and returns the nests
    that it makes. Raises DojoError where it assigns nothing so, or where what says at which element it does cannot
    be computed before."""
    before, rest = len(siblings(trace.kernel, path)), path
    while (name := _going_on(trace.kernel, rest)) is not None:
        rest = _kept_beside(trace, rest, name)
    site = _assignment(trace.kernel, rest)
    count = len(site.statement.scatters) if site.statement.condition is not None else 0
    places = tuple(fresh_name(trace.kernel, f"place_{n}" if n else "place") for n in range(count))
    last = fresh_name(trace.kernel, "last")
    act(trace, KeepLastWriter, spot(trace, rest), spot(trace, site.path), last, places)
    new = len(siblings(trace.kernel, path)) - before
    made = [(*path[:-1], path[-1] + n) for n in range(new + 1)]
    return [spot(trace, one) for one in made if isinstance(trace.kernel.at(one), Scope)]


def _assignment(kernel: Kernel, path: Path) -> Site:
    """The first assignment at indices from data in a nest whose iterations may meet. Raises ArgumentError."""
    told = apart(kernel)
    for number, site in enumerate(kernel.sites):
        statement = site.statement
        if is_inside(site.path, path) and statement.scatters and statement.op == "=" and number not in told:
            return site
    raise ArgumentError("not an assignment at data", "bad-arguments")


def _going_on(kernel: Kernel, path: Path) -> str | None:
    """A buffer that says where the assignment of a nest goes, as an index or a condition, and that the nest
    writes."""
    statement = _assignment(kernel, path).statement
    written = {site.statement.target.buffer for site in sites_in(kernel, path)}
    asked = [*statement.index_reads, *(expr_accesses(statement.condition) if statement.condition else ())]
    return next((access.buffer for access in asked if access.buffer in written), None)


def _kept_beside(trace: Trace, path: Path, name: str) -> Path:
    """Keeps the values that an assignment finds in a scalar which its nest writes in an array, an element for each
    iteration, and gives the assignment a nest of its own, which is returned. Raises DojoError where a move of that
    is refused."""
    kernel = trace.kernel
    site = _assignment(kernel, path)
    writers = [s for s in sites_in(kernel, path) if s.statement.target.buffer == name]
    level = max(site.shared_ancestors(writer.path) for writer in writers)
    around = site.ancestors[len(path) - 1 : level]
    known(bool(around) and all(isinstance(node, Scope) for node in around), "scopes around an index that goes on")
    known(not kernel.buffer(name).dims, "an index that goes on in a scalar")
    levels = range(level, len(path) - 1, -1)
    child, kept = site.path[: level + 1], fresh_name(kernel, f"{name}_kept")
    act(trace, Stage, spot(trace, child), name, kept, "in")
    for n in levels:
        scope = spot(trace, site.path[:n])
        add_dim(trace, kept, scope.depth, scope.scope.extent.bounds[0])
    count = len(spot(trace, child[:-1]).body)
    for place in range(child[-1] + 1, count - 1):
        act(trace, SwapSiblings, spot(trace, (*child[:-1], place)))
    inside = count - 1
    for n in levels:
        act(trace, SplitScopes, spot(trace, site.path[:n]), inside)
        inside = site.path[n - 1] + 1
    return (*path[:-1], path[-1] + 1)
