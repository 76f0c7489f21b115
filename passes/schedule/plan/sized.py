"""Multiversioning: a kernel of open sizes becomes two versions under guards on the sizes, one for exactly the sizes
that it will mostly run at and one for all others.

The planner schedules each version as a kernel of its own, the first with the sizes fixed, so that every structure
sees constants. The moves of both schedules are then replayed inside of the guards, and each is checked there.
"""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.ir.rewriting.substitution import fixed_sizes, substitute_extent
from dojoir.passes.base.move import Formula, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.plan.translation import translated
from dojoir.passes.schedule.steps.combinators import make
from dojoir.passes.schedule.steps.spots import Array, Spot, act, spot
from dojoir.passes.schedule.steps.versions import Exactly, split_in_place
from dojoir.passes.storage.dims import AddDim, uses_of


def version_for(trace: Trace, sizes: Mapping[str, int], here: Trace) -> None:
    """Splits the kernel of a trace into two versions. The first, for exactly these `sizes`, gets the moves of
    `here`, a trace of the kernel with these sizes fixed; the second, for all other sizes, stays unscheduled.
    Raises DojoError where a move is refused inside of the guard."""
    start = trace.kernel
    spot(trace, (0,)).wrap(1)
    for _ in start.body[1:]:
        spot(trace, (1,)).wrap(1)
        spot(trace, (0,)).join(spot(trace, (1,)))
    split_in_place(trace, (0,), *(Exactly(name, sizes[name]) for name in sorted(sizes)))
    spot(trace, (0,)).swap_next()
    names = _temporaries(trace, start)
    _with_numbers(trace, (0,), sizes)
    for name in names.values():
        _sized(trace, name, sizes)
    for move in here.moves:
        make(trace, translated(move, lambda path: (0, *path), names))
        _with_numbers(trace, (0,), sizes)  # of an array whose dimensions are open, a move makes open extents


def version_for_others(trace: Trace, start: Trace, others: Trace) -> None:
    """Schedules the second version that `version_for` made of the kernel of `start`: replays the moves that
    `others` has beyond those of `start`. Raises DojoError where a move is refused inside of the guard."""
    taken = {buffer.name for buffer in trace.kernel.buffers}
    made = [b.name for b in others.kernel.buffers if b.name in taken - {b.name for b in start.kernel.buffers}]
    names = {name: fresh_name(trace.kernel, f"{name}_any") for name in made}
    for move in others.moves[len(start.moves) :]:
        make(trace, translated(move, lambda path: (1, *path), names))


def _sized(trace: Trace, name: str, sizes: Mapping[str, int]) -> None:
    """Gives a temporary constant dimensions: beside each open one a constant one with the same index is added, then
    the open one is dropped."""
    at = fixed_sizes(sizes)
    for d in range(len(trace.kernel.buffer(name).dims)):
        dim = trace.kernel.buffer(name).dims[d]
        extent = dim.extent.substitute(at)
        if extent == dim.extent or dim.collapsed:
            continue
        indices = [access.indices[d] for access, _ in uses_of(trace.kernel, name)]
        act(trace, AddDim, name, d, extent, [Formula(str(index)) for index in indices])
        Array(trace, name).store(d).reuse(d + 1).drop(d + 1)


def _temporaries(trace: Trace, start: Kernel) -> dict[str, str]:
    """The temporaries of the first of two versions, by the names that they had before these were made."""
    first = {a.buffer for s in trace.kernel.sites if s.path[0] == 0 for a in s.statement.accesses}
    last = {a.buffer for s in trace.kernel.sites if s.path[0] == 1 for a in s.statement.accesses}
    both = [b.name for b in start.buffers if b.role == "tmp"]
    added = [b.name for b in trace.kernel.buffers if b.name in first - last and b.name not in both]
    return {max((name for name in both if one.startswith(f"{name}_2")), key=len): one for one in added}


def _with_numbers(trace: Trace, path: Path, sizes: Mapping[str, int]) -> None:
    """Writes the extents in a node with numbers in place of sizes."""
    at = fixed_sizes(sizes)
    for place in _scopes(trace, path):
        extent = substitute_extent(place.scope.extent, at)
        if extent != place.scope.extent:
            place.bound(extent)


def _scopes(trace: Trace, path: Path) -> list[Spot]:
    """The scopes of a node, those inside of others before them."""
    node = trace.kernel.at(path)
    if isinstance(node, Statement):
        return []
    inner = [one for n in range(len(node.body)) for one in _scopes(trace, (*path, n))]
    return [*inner, spot(trace, path)] if isinstance(node, Scope) else inner
