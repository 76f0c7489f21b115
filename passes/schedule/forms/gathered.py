"""Scattered sums gathered: what is added at places that a window shifts is summed up at each place instead.

    H @i | 3 @p | y[i + p] += x[i] * f[p]

becomes

    H + 2 @i | 3 @p | if i >= p and i < H + p: y[i] += x[i - p] * f[p]

So a text says what a convolution gives back to its input, or a transposed convolution. A scope over results cannot
run in lanes or stay in registers while its iterations add to each other's results; gathered, it is a convolution
with a border. Where the places lie several elements apart, the window is split into its residues, and there is a
nest for each of them.

Source: V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning" (2016), on transposed
convolutions as convolutions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import gcd, prod

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Condition, Kernel, Site
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.loops.sinking import LiftScope, SinkScope
from dojoir.passes.schedule.facts.strides import follows
from dojoir.passes.schedule.forms.contractions import is_window, sink_sums
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.forms.plain import MOST_RESIDUES, guards_inside, rows_outside
from dojoir.passes.schedule.forms.residues import settle_extents, split_outermost, write_out
from dojoir.passes.schedule.forms.settling import settle_guards
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, guard_body, in_two, spot
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Scatter:
    """A statement, by its number, that adds to `step * {depth} + windows + rest` in dimension `dim`: the factor of
    the iterator of each scope over a window, by depth."""

    number: int
    dim: int
    depth: int
    step: int
    windows: tuple[tuple[int, int], ...]
    rest: Affine

    @property
    def apart(self) -> list[tuple[int, int]]:
        """The windows of which one more element is no whole number of steps, each with how many are."""
        counts = [(depth, self.step // gcd(self.step, factor)) for depth, factor in self.windows]
        return [(depth, count) for depth, count in counts if count > 1]


def gather_scattered(trace: Trace) -> bool:
    """Makes each sum that a window scatters one that is gathered, as long as the residues are few. One for which a
    move is refused stays as it was. Returns whether there was one."""
    gathers = False
    while any(
        tried(trace, partial(_gather, scatter=scatter))
        for scatter in sorted(_scatters(trace.kernel), key=lambda scatter: not scatter.apart)
    ):
        gathers = True
    if gathers:
        sink_sums(trace)
        rows_outside(trace)
    return gathers


def _scatters(kernel: Kernel) -> Iterator[Scatter]:
    for number, site in enumerate(kernel.sites):
        target = site.statement.target
        own = any(access.buffer == target.buffer and access != target for access in site.statement.reads)
        if site.statement.accumulation is None or own or any(s.marks or s.hints for s in site.scopes):
            continue
        found = [_scatter(site, number, dim) for dim in range(len(target.indices))]
        windows = [depth for one in found if one is not None for depth, _ in one.windows]
        shifted = set(windows)
        if len(shifted) < len(windows):  # what one dimension shifts, the other would guard
            continue
        alone = {d for d in shifted for n, one in enumerate(found) if one is None and follows(target, n, d)}
        yield from (one for one in found if one is not None and not any(d in alone for d, _ in one.windows))


def _scatter(site: Site, number: int, dim: int) -> Scatter | None:
    """The places that a statement adds to in a dimension: those of one scope, shifted by windows."""
    index = site.statement.target.indices[dim]
    if not isinstance(index, Affine) or index.divided:
        return None
    factors = {depth: index.coefficient(Iter(depth)) for depth in index.iterators}
    windows = {depth: factor for depth, factor in factors.items() if is_window(site.scopes[depth])}
    rest = index
    for depth, factor in factors.items():
        rest = rest - Affine.iterator(depth) * factor
    constant = all(site.scopes[depth].extent.constant is not None for depth in windows)
    long = [depth for depth in factors if depth not in windows]
    if len(long) != 1 or not windows or not constant or factors[long[0]] < 1:
        return None
    if any(bound.iterators for bound in site.scopes[long[0]].extent.bounds):
        return None  # of rows of unequal length each place would ask for its own
    count = site.scopes[long[0]].extent.constant
    if count is not None and any(abs(f) >= factors[long[0]] * count for f in windows.values()):
        return None  # rows of a joined dimension, `[8 * b + i]` for i below 8: none adds to another's results
    return Scatter(number, dim, long[0], factors[long[0]], tuple(sorted(windows.items())), rest)


def _gather(trace: Trace, scatter: Scatter) -> None:
    """Splits the windows into residues where one more element of them is no whole number of steps, else shifts the
    scope over results by them. Raises DojoError where a move is refused."""
    if scatter.apart:
        found = [one for one in _scatters(trace.kernel) if one.number == scatter.number]
        nests = prod(count for one in found for _, count in one.apart)
        known(nests <= MOST_RESIDUES, "of few residues")
        for path in reversed(split_outermost(trace, scatter.number, scatter.apart)):
            write_out(trace, path)
        settle_extents(trace)
        return
    site = trace.kernel.sites[scatter.number]
    scope = spot(trace, site.scope_paths[scatter.depth])
    levels = len(site.scope_paths[max(depth for depth, _ in scatter.windows)]) - len(scope.path)
    if levels > 0:
        act(trace, SinkScope, scope, levels)
        sunk = _scatter(trace.kernel.sites[scatter.number], scatter.number, scatter.dim)
        assert sunk is not None
        scatter = sunk
    own = _shift(trace, scope, scatter)
    if levels > 0:
        act(trace, LiftScope, own, levels)
    guards_inside(trace)


def _shift(trace: Trace, scope: Spot, scatter: Scatter) -> Spot:
    """Shifts a scope inside of all windows by them, so that each iteration has one place of the result. Returns it.
    Raises DojoError where a move is refused."""
    site = trace.kernel.sites[scatter.number]
    least, by = 0, Affine.constant(0)
    for depth, factor in scatter.windows:
        by = by + Affine.iterator(depth) * (factor // scatter.step)
        least += min(factor // scatter.step * ((site.scopes[depth].extent.constant or 1) - 1), 0)
    rest = scatter.rest + least * scatter.step  # where iteration 0 of the shifted scope is
    size = trace.kernel.buffer(site.statement.target.buffer).dims[scatter.dim].extent
    act(trace, Shift, scope, by - least)
    ends = [Condition(scope.iterator, "<", bound) for bound in scope.scope.extent.bounds]
    guard_body(trace, scope, ends)
    act(trace, SetExtent, scope, (size - rest + (scatter.step - 1)) // scatter.step)
    first = (scatter.step - 1 - rest) // scatter.step
    if first != Affine.constant(0):
        never, scope = in_two(trace, Cut, scope, first)
        act(trace, DeleteNode, never)
    settle_guards(trace, scope.path)
    return scope
