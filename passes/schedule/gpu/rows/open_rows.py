"""Rows of open length on a GPU: in the registers of a block where they are not too long, chosen at the call.

A row of up to 16384 elements is read once, by threads that have a few accesses of 16 bytes each; a longer one, or
one whose length 4 does not divide, stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Kernel, Path, accesses_in
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.guards import RemoveGuard
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends, step_of
from dojoir.passes.schedule.gpu.rows.rows import extent_along, on_threads
from dojoir.passes.schedule.gpu.sharing.threads import known_extent
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body, spot
from dojoir.passes.schedule.steps.versions import AtMost, Multiple, split_versions
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.storage.staging import Stage

FORMS = ((16384, 1024), (4096, 256))
"""The lengths up to which a row stays in registers, in units of a quarter of an access' elements, and the threads
of a block for it: at most four accesses each."""


def rows_by_length(trace: Trace, path: Path, rest: Callable[[Trace, Path], None]) -> None:
    """Gives each row, an iteration of the scope at `path`, to a block: a version for each range of lengths, and the
    schedule of `rest` for all other rows. Raises ArgumentError where it is not rows of one open length of which
    several steps read the same elements."""
    length = _length(spot(trace, path))
    if not _read_again(trace.kernel, path):
        raise ArgumentError("no step reads again what another has read", "bad-arguments")
    width = _width(trace.kernel, path)
    longest = FORMS[0][0] * width // 4
    others, here = split_versions(trace, path, Multiple(str(length), width), AtMost(str(length), longest))
    forms, versions = list(FORMS), []
    while forms:
        elements, threads = forms.pop(0)
        longer = here
        if forms:
            longer, here = split_versions(trace, here, AtMost(str(length), forms[0][0] * width // 4))
        versions.append(spot(trace, longer))
        row_in_registers(trace, versions[-1], threads, elements // (4 * threads), width)
    for version in versions:  # last, as each move after them is held against what they promise
        act(trace, Bind, version, "gx")
    rest(trace, others)


def row_in_registers(trace: Trace, row: Spot, threads: int, times: int, width: int) -> None:
    """Shares each iteration of the scope `row` out over `threads` of a block, which have `times` groups of `width`
    neighbours each of the scopes right inside. Raises DojoError where the length may be more."""
    length, again = _length(row), _read_again(trace.kernel, row.path)
    for scope in row.scopes():
        shared_out(trace, scope, length, threads, times, width)
    for name in again:
        kept = fresh_name(trace.kernel, f"{name}_row")
        act(trace, Stage, row, name, kept, "in")
        copy = row.beside(-1)
        shared_out(trace, copy.child(0), length, threads, times, width)
        act(trace, JoinScopes, copy, row)
        last = len(trace.kernel.buffer(kept).dims) - 1
        for d in range(last):
            act(trace, ReuseDims, kept, d)
        act(trace, SplitDim, kept, last, width * threads)
        act(trace, SplitDim, kept, last + 1, width)
        act(trace, PlaceBuffer, kept, "reg")
    on_threads(trace, row)


def shared_out(trace: Trace, scope: Spot, length: Affine, threads: int, times: int, width: int) -> None:
    """A scope of up to `length` iterations as `threads` times `times` times `width` ones, those past the end under
    a guard: threads outermost."""
    act(trace, Split, scope, width * threads)
    shared = scope.child(0)
    number = scope.iterator * (width * threads) + shared.iterator * width
    if length == Affine.constant(threads * times * width):  # no guard: threads share it equally
        if width > 1:
            act(trace, Split, shared, width)
    elif width == 1:
        guard_body(trace, shared, [Condition(number, "<", length)])
        act(trace, SetExtent, shared, Affine.constant(threads))
        known_extent(trace, scope, times)
    else:
        act(trace, Split, shared, width)
        neighbours = shared.child(0)
        guard_body(trace, neighbours, [Condition(number, "<", length)])
        for one, extent in ((neighbours, width), (shared, threads), (scope, times)):
            known_extent(trace, one, extent)
        guard_body(trace, shared, [Condition(number, "<", length)])
        act(trace, RemoveGuard, neighbours.child(0))
    act(trace, SwapScopes, scope)


def _length(row: Spot) -> Affine:
    """The one open extent of the scopes right inside of a row, which have statements alone."""
    bounds = extent_along(row).bounds
    if any(isinstance(node, Guard) for node in row.body):
        raise ArgumentError("a part of a row is under a guard", "bad-arguments")
    if len(bounds) > 1 or bounds[0].is_constant or bounds[0].iterators:
        raise ArgumentError(f"the extent {bounds[0]} is no open size", "bad-arguments")
    return bounds[0]


def _read_again(kernel: Kernel, path: Path) -> list[str]:
    """The arguments of which several scopes right inside the one at `path` read the row, as it lies."""
    depth = kernel.depth_of(path)
    seen: dict[str, set[int]] = {}
    for site in kernel.sites:
        if site.path[: len(path)] == path and len(site.path) > len(path) + 1:
            for access in site.statement.reads:
                row = depends(access, depth) and step_of(kernel, access, depth + 1) == 1
                if row and kernel.buffer(access.buffer).role == "in":
                    seen.setdefault(access.buffer, set()).add(site.path[len(path)])
    return [name for name, places in seen.items() if len(places) > 1]


def _width(kernel: Kernel, path: Path) -> int:
    """How many neighbours one access moves."""
    sizes = [kernel.buffer(a.buffer).dtype.itemsize for a in accesses_in((kernel.at(path),))]
    return ACCESS_BYTES // max(sizes)
