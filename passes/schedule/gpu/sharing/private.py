"""Temporaries of a nest on a GPU, out of memory: in registers, or computed again where they are read."""

from __future__ import annotations

from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Path
from dojoir.ir.paths import is_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, move, spot
from dojoir.passes.storage.dead import DeleteTemporary
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.values.inlining import Inline

PRIVATE = 16
"""The most elements of a temporary that each thread keeps in registers."""


def keep_private(trace: Trace, path: Path) -> list[str]:
    """Keeps the temporaries that only the nest at `path` uses in registers, where a few elements are enough.
    Returns their names."""
    kept: list[str] = []
    for buffer in trace.kernel.buffers:
        if buffer.role != "tmp" or buffer.storage != "heap":
            continue
        sites, users = trace.kernel.sites, trace.kernel.users.get(buffer.name, ())
        if all(is_inside(sites[k].path, path) for k in users):
            if tried(trace, partial(_registers, name=buffer.name)):
                kept.append(buffer.name)
            else:
                tried(trace, partial(_again, name=buffer.name))
    return kept


def _registers(trace: Trace, name: str) -> None:
    for i, dim in enumerate(trace.kernel.buffer(name).dims):
        if not dim.collapsed and not tried(trace, move(ReuseDims, name, i)):
            elements = dim.extent.offset if dim.extent.is_constant else PRIVATE + 1
            if elements > PRIVATE:
                raise ArgumentError(f"{name} is too large for registers", "bad-arguments")
    act(trace, PlaceBuffer, name, "reg")


def _again(trace: Trace, name: str) -> None:
    """Computes a temporary again where it is read, which is as often as it is written: cheaper than memory."""
    sites = [s for s in trace.kernel.sites if any(a.buffer == name for a in s.statement.accesses)]
    writers = [s for s in sites if s.statement.target.buffer == name]
    once = len(writers) == 1 and not writers[0].statement.accumulation
    if not once or any(len(s.scopes) != len(writers[0].scopes) for s in sites):
        raise ArgumentError(f"{name} is not computed once for each use", "bad-arguments")
    for site in sites:
        if site is not writers[0]:
            act(trace, Inline, spot(trace, site.path), name)
    act(trace, DeleteTemporary, name)
