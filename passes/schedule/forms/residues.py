"""Residue classes: a nest for each rest that a condition on a rest lets through.

A transposed convolution of stride s, written as a sum over what falls on each result, asks `(h - p) % s == 0` of
each term. In one residue of `h` and `p` that is always so or never, and what is left is a convolution of stride 1.

Source: W. Shi et al., "Is the deconvolution layer the same as a convolutional layer?" (2016), on the sub-pixel
form.

Scattered sums gathered: what is added at places that a window shifts is summed up at each place instead.

    H @i | 3 @p | y[i + p] += x[i] * f[p]

becomes

    H + 2 @i | 3 @p | if i >= p and i < H + p: y[i] += x[i - p] * f[p]

So a text says what a convolution gives back to its input, or a transposed convolution. A scope over results cannot
run in lanes or stay in registers while its iterations add to each other's results; gathered, it is a convolution
with a border. Iterations in a row that add to one element, `y[i // 2] += x[i]`, become a sum of their own. Where
the places lie several elements apart, the window is split into its residues, and there is a nest for each of them.

Source: V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning" (2016), on transposed
convolutions as convolutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import gcd, prod

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Condition, Guard, Kernel, Path, Scope, Site, holds
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cyclic import SplitCyclic
from dojoir.passes.loops.guards import DropCondition
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends, follows, require
from dojoir.passes.schedule.forms.parting import WINDOW, is_window, sink_sums
from dojoir.passes.schedule.forms.plain import MOST_RESIDUES, guards_inside, rows_outside, settle_guards
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.sets.ranges import without_divisions
from dojoir.support.frozen import dataclass

MOST_NESTS = 16
"""How many nests one may become."""


@dataclass(frozen=True)
class Rest:
    """A condition on a rest around a statement: the scopes that it depends on, by depth, each with the number of
    its residues between which the condition differs."""

    guard: Path
    scopes: tuple[tuple[int, int], ...]


def split_residues(trace: Trace) -> bool:
    """Gives each nest with a condition `(e) % s == 0` one nest for each residue of the scopes that `e` depends on,
    as long as they are few. Conditions that always hold then, and nodes that never run, go. Returns whether there
    was one."""
    if next(_rests(trace.kernel), None) is None:
        return False
    guards_inside(trace)  # so that one guard has the conditions on all scopes
    before = len(trace.moves)
    for _ in range(len(trace.kernel.sites)):
        rest = next(_rests(trace.kernel), None)
        if rest is None or not tried(trace, partial(_split, rest=rest)):
            break
    return len(trace.moves) > before


def _rests(kernel: Kernel) -> Iterator[Rest]:
    for site in kernel.sites:
        if any(scope.marks or scope.hints for scope in site.scopes):
            continue
        for level, node in enumerate(site.ancestors):
            if isinstance(node, Guard):
                found = _residues(node)
                few = all(1 < count <= MOST_RESIDUES for count in found.values())
                nests = prod(count for depth, count in found.items() if depends(site.statement.target, depth))
                if found and few and nests <= MOST_NESTS:
                    yield Rest(site.path[:level], tuple(sorted(found.items())))


def _residues(guard: Guard) -> dict[int, int]:
    """For the conditions of a guard that a rest is a number: the depths of the iterators in it, and in how many
    residues they differ."""
    found: dict[int, int] = {}
    for condition in guard.conditions:
        if rest := _rest_of(condition):
            for atom, coefficient in rest.numerator.terms:
                if isinstance(atom, Iter) and coefficient % rest.divisor:
                    count = rest.divisor // gcd(coefficient, rest.divisor)
                    found[atom.depth] = max(found.get(atom.depth, 1), count)
    return found


def _rest_of(condition: Condition) -> Mod | None:
    """The rest that a condition compares with a constant, where it is a sum of iterators and sizes that is
    divided."""
    if condition.relation != "==" or not condition.right.is_constant or len(condition.left.terms) != 1:
        return None
    ((atom, coefficient),) = condition.left.terms
    plain = isinstance(atom, Mod) and coefficient == 1
    return atom if plain and isinstance(atom, Mod) and not atom.numerator.divided else None


def _split(trace: Trace, rest: Rest) -> None:
    """Splits the scopes, brings the residues of the result outermost, lets the residue of what is summed over
    follow from them, and writes out those that a condition still depends on. Raises DojoError where a move is
    refused."""
    number = next(n for n, site in enumerate(trace.kernel.sites) if is_inside(site.path, rest.guard))
    split_outermost(trace, number, rest.scopes)
    while fixed := next(((site, *one) for site in trace.kernel.sites if (one := _fixed(site))), None):
        site, path, value = fixed
        residues = _residue_in(site, value)
        if residues is None:
            _fix(trace, path, value)
        else:
            write_out(trace, residues)
    while (left := _to_write_out(trace.kernel)) is not None:
        write_out(trace, left)


def split_outermost(trace: Trace, number: int, scopes: Sequence[tuple[int, int]]) -> list[Path]:
    """Splits the scopes around a statement, by depth, into so many residues each, and brings these as far out as
    they may stand. Returns where they are, the first in the text first. Raises DojoError where a split is
    refused."""
    found: list[Spot] = []
    for depth, count in reversed(scopes):
        act(trace, SplitCyclic, spot(trace, trace.kernel.sites[number].scope_paths[depth]), count)
    for outer, (depth, _) in enumerate(scopes):  # each of these has put one more scope outside of the next
        path = trace.kernel.sites[number].scope_paths[depth + outer]
        while _is_alone(trace.kernel, path) and tried(trace, SwapScopes(place_of(path[:-1]))):
            path = path[:-1]
        found.append(spot(trace, path))
    return sorted(residue.path for residue in found)


def _residue_in(site: Site, value: Affine) -> Path | None:
    """The innermost scope over residues that a rest or a quotient in `value` is of: only numbers for it tell which
    conditions hold."""
    depths = [depth for depth in value.divided if site.scopes[depth].extent.constant in range(2, MOST_RESIDUES + 1)]
    return site.scope_paths[max(depths)] if depths else None


def _fixed(site: Site) -> tuple[Path, Affine] | None:
    """The innermost scope around a statement that it sums over and of which a condition on a rest lets one
    iteration through, with that iteration. It has no rests but of residues: others are still to be split."""
    conditions = [c for node in site.ancestors if isinstance(node, Guard) for c in node.conditions]
    for depth in reversed(range(len(site.scopes))):
        count = site.scopes[depth].extent.constant
        for condition in conditions if not depends(site.statement.target, depth) else ():
            rest = _rest_of(condition)
            own = rest.numerator.coefficient(Iter(depth)) if rest is not None else 0
            if rest is not None and rest.divisor == count and gcd(own, count) == 1:
                others = condition.right - rest.numerator + Affine.iterator(depth) * own
                if all(d < depth for d in others.iterators):
                    value = _least(others * pow(own, -1, count), count) % count
                    value = without_divisions(value, site.scopes[:depth])
                    if all(site.scopes[d].extent.constant in range(2, MOST_RESIDUES + 1) for d in value.divided):
                        return site.scope_paths[depth], value
    return None


def _least(affine: Affine, divisor: int) -> Affine:
    """The same rest with factors below the divisor."""
    found = Affine.constant(affine.offset % divisor)
    for atom, coefficient in affine.terms:
        found = found + Affine.atom(atom) * (coefficient % divisor)
    return found


def _fix(trace: Trace, path: Path, value: Affine) -> None:
    """Leaves one iteration of a scope, where no other does anything."""
    own, count = spot(trace, path), spot(trace, path).count
    before, after = value != Affine.constant(0), value != Affine.constant(count - 1)
    if before:
        _, own = own.cut(value)
    if after:
        own, behind = own.cut(Affine.constant(1))
        behind.delete()
    if before:
        own.beside(-1).delete()
    own.remove()
    _settle(trace, path)


def _is_alone(kernel: Kernel, path: Path) -> bool:
    """Whether the node at a path is the only child of a scope."""
    around = kernel.at(path[:-1]) if len(path) > 1 else None
    return isinstance(around, Scope) and len(around.body) == 1 and not around.marks


def _to_write_out(kernel: Kernel) -> Path | None:
    """The outermost scope over residues that a condition on a rest depends on, the last in the text."""
    found: list[Path] = []
    for path, node in kernel.walk():
        if isinstance(node, Scope) and node.extent.constant is not None and node.extent.constant <= MOST_RESIDUES:
            depth = kernel.depth_of(path)
            guards = (n for p, n in kernel.walk() if isinstance(n, Guard) and is_inside(p, path))
            if any(depth in _residues(guard) for guard in guards):
                found.append(path)
    shallow = min(map(len, found), default=0)
    return next((path for path in reversed(found) if len(path) == shallow), None)


def write_out_extents(trace: Trace) -> None:
    """Writes the scopes over residues out that the extent of a scope inside depends on."""
    while (path := _bounding(trace.kernel)) is not None:
        write_out(trace, path)
    settle_extents(trace)


def settle_extents(trace: Trace) -> None:
    """Writes the least of several numbers that are the bounds of a scope in their place."""
    scopes = [(path, node) for path, node in trace.kernel.walk() if isinstance(node, Scope)]
    for path, scope in scopes:
        if len(scope.extent.bounds) > 1 and all(bound.is_constant for bound in scope.extent.bounds):
            spot(trace, path).bound(Affine.constant(scope.constant_bound or 0))


def _bounding(kernel: Kernel) -> Path | None:
    """The first scope over residues that the extent of a scope inside depends on."""
    for site in kernel.sites:
        for depth, scope in enumerate(site.scopes):
            bounds = [bound for inner in site.scopes[depth + 1 :] for bound in inner.extent.bounds]
            few = 1 < (scope.extent.constant or 0) <= MOST_RESIDUES
            if few and not scope.marks and any(depth in bound.iterators for bound in bounds):
                return site.scope_paths[depth]
    return None


def write_out(trace: Trace, path: Path) -> None:
    """Writes the iterations of a scope out, one after the other, without what never runs in each."""
    rest = spot(trace, path)
    count, width = rest.scope.extent.constant or 1, len(rest.body)
    for _ in range(count - 1):
        act(trace, Peel, rest)
    rest.remove()
    first = spot(trace, path)
    for k in reversed(range(count * width)):
        _settle(trace, first.beside(k).path)


def _settle(trace: Trace, path: Path) -> None:
    """Takes away the conditions in a node that are decided, and what never runs."""
    guards = [p for p, node in trace.kernel.walk() if isinstance(node, Guard) and is_inside(p, path)]
    for at in reversed(guards):
        guard = trace.kernel.at(at)
        assert isinstance(guard, Guard)
        decided = [n for n, c in enumerate(guard.conditions) if c.left.is_constant and c.right.is_constant]
        if not all(holds(guard.conditions[n], {}, ()) for n in decided):
            while len(at) > 1 and len(spot(trace, at[:-1]).body) == 1:
                at = at[:-1]
            spot(trace, at).delete()
        elif len(decided) == len(guard.conditions):
            spot(trace, at).unguard()
        else:
            for n in reversed(decided):
                act(trace, DropCondition, spot(trace, at), n)


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
    def uneven(self) -> list[tuple[int, int]]:
        """The windows of which one more element is no whole number of steps, each with how many are."""
        counts = [(depth, self.step // gcd(self.step, factor)) for depth, factor in self.windows]
        return [(depth, count) for depth, count in counts if count > 1]


def gather_scattered(trace: Trace) -> bool:
    """Makes each sum that a window scatters one that is gathered, as long as the residues are few. Where several
    iterations in a row add to one element, as in `y[{i} // 2] += x[{i}]`, they become a sum of their own. One for
    which a move is refused stays as it was. Returns whether there was one."""
    gathers = False
    while any(tried(trace, partial(_split_whole, path=path, size=size)) for path, size in _quotients(trace.kernel)):
        gathers = True
    while any(
        tried(trace, partial(_gather, scatter=scatter))
        for scatter in sorted(_scatters(trace.kernel), key=lambda scatter: not scatter.uneven)
    ):
        gathers = True
    if gathers:
        sink_sums(trace)
        rows_outside(trace)
    return gathers


def _quotients(kernel: Kernel) -> Iterator[tuple[Path, int]]:
    """The scopes whose iterator is divided in the index of a sum's target, with the number that divides it."""
    for site in kernel.sites:
        indices = [i for i in site.statement.target.indices if isinstance(i, Affine)]
        if site.statement.accumulation is None or any(scope.marks or scope.hints for scope in site.scopes):
            continue
        for atom, _ in (term for index in indices for term in index.terms):
            for depth, path in enumerate(site.scope_paths):
                if isinstance(atom, FloorDiv) and atom.numerator == Affine.iterator(depth):
                    yield path, atom.divisor


def _split_whole(trace: Trace, path: Path, size: int) -> None:
    """Splits a scope into blocks of one size. Raises ArgumentError where the last of them is a shorter one."""
    require(size <= WINDOW and spot(trace, path).split(size).scope.extent.constant == size, "whole blocks")


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
    if scatter.uneven:
        found = [one for one in _scatters(trace.kernel) if one.number == scatter.number]
        nests = prod(count for one in found for _, count in one.uneven)
        require(nests <= MOST_RESIDUES, "of few residues")
        for path in reversed(split_outermost(trace, scatter.number, scatter.uneven)):
            write_out(trace, path)
        settle_extents(trace)
        return
    site = trace.kernel.sites[scatter.number]
    scope = spot(trace, site.scope_paths[scatter.depth])
    levels = len(site.scope_paths[max(depth for depth, _ in scatter.windows)]) - len(scope.path)
    if levels > 0:
        scope.sink(levels)
        sunk = _scatter(trace.kernel.sites[scatter.number], scatter.number, scatter.dim)
        assert sunk is not None
        scatter = sunk
    own = _shift(trace, scope, scatter)
    if levels > 0:
        own.lift(levels)
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
    scope.guard(ends)
    scope.bound((size - rest + (scatter.step - 1)) // scatter.step)
    first = (scatter.step - 1 - rest) // scatter.step
    if first != Affine.constant(0):
        never, scope = scope.cut(first)
        never.delete()
    settle_guards(trace, scope.path)
    return scope
