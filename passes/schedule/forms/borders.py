"""Borders cut off: a scope along which indices are clamped or mirrored becomes three, and the one between has none.

Without, each element would be a gather: what is next to it in memory is not known to be the next one. What is
between the edges of a blur reads its neighbours as vectors, as one without edges does. The same is done where a
condition asks for neighbours at an edge, along memory, or along the rows of a product whose columns it does not ask
about. Between the edges lanes have no mask, and a tile no condition for each row. Where tiles are large, as on a
GPU, whole ones are cut off the rows of a product: those in the middle have no condition in their innermost loop.

Conditions of products made bounds of their scopes: a triangle that a text cuts out of a square by conditions is
one whose scopes begin and end where these hold.

    N | N | N | if k >= i and k <= j: c[i, j] += a[i, k] * b[k, j]

goes through the square and asks each term. By its bounds, `j` begins at `i`, and `k` has `j - i + 1` values.

Sums that are counted from the column on, `c[i, j] += a[i, j + k] * b[j + k, j]`, counted from 0.

So a text writes the product of two triangles: what is summed over begins at the diagonal of the second. Along a
column nothing lies side by side then, since one more column is one less to sum. Counted from 0, the sum goes around
the columns, those that have the element, which are neighbours:

    i | k | j <= k: c[i, j] += a[i, k] * b[k, j]

A sum that is counted as far as the column, `k <= j`, goes around the columns as well, those from `k` on; so does
one that is counted as far as the column or the row, `k <= min(i, j)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations, product
from math import gcd
from types import MappingProxyType

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Extremum, Iter
from dojoir.ir.nodes import Access, Condition, Extent, Guard, Kernel, Path, Scope, Site, substitute_iterators
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import DropCondition, RemoveGuard
from dojoir.passes.loops.skewing import Skew
from dojoir.passes.schedule.facts.strides import (
    Sizes,
    count_of,
    depends,
    is_leaf,
    is_short,
    kept_by,
    require,
    scope_at,
    sites_in,
    step_of,
    strided,
)
from dojoir.passes.schedule.forms.parting import is_contraction, is_window
from dojoir.passes.schedule.forms.plain import settle_guards
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, move, spot
from dojoir.passes.values.indexing import SetIndex, choices, indices_of, settled
from dojoir.support.frozen import dataclass

WIDE = 32
"""Of a scope that is known to run less often nothing is cut off."""

FEWEST = 4
"""How many tiles a row has at least of which whole ones are cut off."""

BLOCK = 256
"""A scope may be shorter than its border at the end. Of blocks of so many iterations each has a border cut off, all
of them at the end: where there is no block, there is nothing between the borders."""


@dataclass(frozen=True)
class Border:
    """A scope, and how many of its iterations, at the beginning and at the end, something is clamped in, with those
    that fill a whole tile of so many."""

    scope: Path
    first: int
    last: int
    tile: int = 1


def cut_borders(trace: Trace, sizes: Sizes = MappingProxyType({}), tile: int = 1) -> bool:
    """Cuts the borders off each scope along which indices of neighbours in memory are clamped, and takes the clamps
    away between them. A border of more than one iteration at the end needs a fact, such as `N >= 4`. Without one it
    is cut off where blocks of many iterations end, if some are known to. A scope for which a move is refused stays
    as it was. With a `tile` of more than one column those of products are cut alone, a whole tile or more of rows
    that are known to have many. Returns whether something was cut off."""
    left: set[Scope] = set()
    before = len(trace.steps)
    while (border := next(_borders(trace.kernel, sizes, left, tile), None)) is not None:
        scope = scope_at(trace.kernel, border.scope)
        left.add(scope)
        if tried(trace, partial(_cut, border=border, left=left)):
            continue
        if border.last < BLOCK // WIDE and (count_of(scope.extent, sizes) or 0) >= 4 * BLOCK:
            tried(trace, partial(_cut, border=border, left=left, block=BLOCK))
    return len(trace.steps) > before


def _borders(kernel: Kernel, sizes: Sizes, left: set[Scope], tile: int) -> Iterator[Border]:
    for site in kernel.sites:
        for depth, scope in enumerate(site.scopes):
            bound = scope.extent.bounds[0]
            open_still = not (scope.marks or scope.hints or scope in left or len(scope.extent.bounds) > 1)
            long = not is_short(scope.extent, sizes, WIDE if tile == 1 else FEWEST * tile)
            known = tile == 1 or count_of(scope.extent, sizes) is not None
            if open_still and long and known and depends(site.statement.target, depth):
                path = site.scope_paths[depth]
                inside = [other for other in kernel.sites if is_inside(other.path, path)]
                ends = [end for other in inside for end in _ends(kernel, other, depth, bound, tile)]
                if ends:
                    first, last = (max(way) for way in zip(*ends, strict=True))
                    yield Border(path, first, max(last, int(tile > 1)), tile)  # a last tile that is not whole, too


def _ends(kernel: Kernel, site: Site, depth: int, bound: Affine, tile: int) -> Iterator[tuple[int, int]]:
    """For each two of which the smaller or the larger is an index in the last dimension in memory: how many
    iterations from the beginning, or from the end, lie beyond where they change places."""
    for index in _clamped(kernel, site, depth) if tile == 1 else ():
        for difference in _differences(index):
            yield from _sign_change(difference, site.scopes, depth, bound)
    if _asks_along(kernel, site, depth, tile):
        for condition in _conditions(site, depth):
            yield from _sign_change(_least(condition), site.scopes, depth, bound)


def _asks_along(kernel: Kernel, site: Site, depth: int, tile: int) -> bool:
    """Whether conditions on an iteration of a scope are asked for each element of a vector of neighbours, or for
    each row of a tile; of a tile of many columns, for each of these. Not where other elements of what is written
    are read, as a recurrence does."""
    target = site.statement.target
    if tile > 1:
        return is_contraction(site) and step_of(kernel, target, depth) == 1
    inside = sites_in(kernel, site.scope_paths[depth])
    if any(a.buffer == target.buffer and a != s.statement.target for s in inside for a in s.statement.reads):
        return False
    if not is_contraction(site):
        return all(
            step_of(kernel, access, depth) == 1 for access in site.statement.accesses if depends(access, depth)
        )
    *_, row, column = kept_by(site)
    return depth == row and step_of(kernel, target, column) == 1 and not any(_conditions(site, column))


def _conditions(site: Site, depth: int) -> Iterator[Condition]:
    """The conditions around a statement, of two expressions one of which is the larger, on the iterator of a
    scope."""
    for guard in site.ancestors:
        for condition in guard.conditions if isinstance(guard, Guard) else ():
            ordered = isinstance(condition, Condition) and condition.relation in ("<", "<=", ">", ">=")
            if ordered and depth in condition.left.iterators | condition.right.iterators:
                yield condition


def _least(condition: Condition) -> Affine:
    """The difference that is 0 or more where a condition holds."""
    difference = condition.left - condition.right
    difference = difference if condition.relation in (">", ">=") else -difference
    return difference - 1 if condition.relation in ("<", ">") else difference


def _clamped(kernel: Kernel, site: Site, depth: int) -> Iterator[Affine]:
    """The indices in the last dimension in memory that are clamped along a scope."""
    for access in site.statement.accesses:
        buffer = kernel.buffer(access.buffer)
        order = buffer.order or tuple(range(len(buffer.dims)))
        index = access.indices[order[-1]] if order else None
        if isinstance(index, Affine) and index.is_clamped and depth in index.divided:
            yield index


def _sign_change(
    difference: Affine, scopes: Sequence[Scope], depth: int, bound: Affine
) -> Iterator[tuple[int, int]]:
    """Where a difference that grows with an iterator, or falls, changes its sign: so many iterations from the
    beginning or the end, whatever scopes further in are at. Nothing where that is neither."""
    difference = difference // (gcd(*(c for _, c in difference.terms)) or 1)  # it has the sign that it had
    step = difference.coefficient(Iter(depth))
    if step == 0 or depth in difference.divided:
        return
    width = abs(step)
    rest = (difference - Affine.iterator(depth) * step) * (-1 if step > 0 else 1)
    for zero in _extremes(rest, scopes, depth):  # it is 0 where width * iterator is that
        start, end = zero + (width - 1), bound * width - zero - 1  # both are rounded up, of the second one less
        if start.is_constant and not (end.is_constant and end.offset < start.offset):
            yield max(start.offset // width, 0), 0
        elif end.is_constant:
            yield 0, max(end.offset // width, 0)


def _extremes(value: Affine, scopes: Sequence[Scope], depth: int) -> list[Affine]:
    """A value with the iterators of scopes further in at their first and last; none where it has others."""
    inner = sorted(value.iterators)
    if value.divided or any(d < depth or scopes[d].constant_bound is None for d in inner):
        return []
    ends = [{0, max((scopes[d].constant_bound or 1) - 1, 0)} for d in inner]
    choices = [dict(zip(inner, map(Affine.constant, chosen), strict=True)) for chosen in product(*ends)]
    return [value.substitute(substitute_iterators(chosen)) for chosen in choices]


def _differences(affine: Affine) -> Iterator[Affine]:
    """The differences of any two of which one is chosen, for each `min` and `max` in an expression."""
    for atom, _ in affine.terms:
        if isinstance(atom, Extremum):
            for one, other in combinations(atom.parts, 2):
                yield from (a - b for a in _leaves(one) for b in _leaves(other))
            for part in atom.parts:
                yield from _differences(part)


def _leaves(affine: Affine) -> list[Affine]:
    """The possible values of an expression, whichever parts of its minima and maxima are chosen."""
    for atom, coefficient in affine.terms:
        if isinstance(atom, Extremum):
            rest = affine - Affine.atom(atom) * coefficient
            return [leaf for part in atom.parts for leaf in _leaves(rest + part * coefficient)]
    return [affine]


def _choose(trace: Trace, path: Path) -> None:
    """Writes one of two in the place of each `min` and `max` inside of a scope where it always is that one."""
    for site in trace.kernel.sites:
        if is_inside(site.path, path):
            for number, index in enumerate(indices_of(site.statement)):
                any(tried(trace, move(SetIndex, spot(trace, site.path), number, one)) for one in choices(index))


def _cut(trace: Trace, border: Border, left: set[Scope], block: int = 0) -> None:
    """Cuts as much off the end as the border has, or for each `block`. Raises IllegalMove where a move is refused,
    ArgumentError where something is clamped still."""
    scope, tile = spot(trace, border.scope), border.tile
    depth = scope.depth
    if border.last:
        bound = scope.scope.extent.bounds[0]
        at = (bound // block) * (block - border.last) if block else (bound - border.last) // tile * tile
        scope, _ = scope.cut(at)
    if border.first:
        first, scope = scope.cut(Affine.constant(-(-border.first // tile) * tile))
        left.add(first.scope)
    if border.last:
        left.add(scope.beside(1).scope)
    for beside in [1] * bool(border.last and tile > 1) + [-1] * bool(border.first and tile > 1):
        end = scope.beside(beside)
        settle_guards(trace, end.path)
        left.add(end.scope)
    path = scope.path
    for site in trace.kernel.sites:
        if is_inside(site.path, path):
            for number, index in settled(site):
                act(trace, SetIndex, spot(trace, site.path), number, index)
    settle_guards(trace, path)
    if block:  # what scopes of blocks decide is asked of the checker
        _choose(trace, path)
    for site in [site for site in trace.kernel.sites if is_inside(site.path, path)]:
        asks = _asks_along(trace.kernel, site, depth, tile) and any(_conditions(site, depth))
        if asks or any(_clamped(trace.kernel, site, depth)):
            raise ArgumentError("an index is clamped between the borders", "bad-arguments")
    left.add(scope.scope)


MOST_BOUNDS = 8
"""How many bounds a product has at most."""


@dataclass(frozen=True)
class IteratorBound:
    """A value of the iterator of `depth` that it is not below, or with `above` that it is below."""

    depth: int
    value: Affine
    above: bool


def conditions_to_bounds(trace: Trace) -> None:
    """Makes bounds of the conditions right around each product, but where one is of a window or asks for a rest."""
    for n in reversed(range(len(trace.kernel.sites))):
        if is_contraction(trace.kernel.sites[n]) and _guard(trace.kernel.sites[n], trace.kernel) is not None:
            _ = tried(trace, partial(_all_to_bounds, number=n))


def _guard(site: Site, kernel: Kernel) -> Guard | None:
    """The guard right around a statement, which has nothing else in it, inside of all scopes around."""
    node = kernel.at(site.path[:-1])
    if not isinstance(node, Guard) or len(node.body) > 1 or site.path[:-2] != site.scope_paths[-1]:
        return None
    return None if any(scope.marks for scope in site.scopes) else node


def _all_to_bounds(trace: Trace, number: int) -> None:
    for _ in range(MOST_BOUNDS):
        site = trace.kernel.sites[number]
        guard = _guard(site, trace.kernel)
        if guard is None:
            return
        path = site.path[:-1]
        if tried(trace, RemoveGuard(place_of(path))):
            continue
        bound = next(_to_cut(site, guard), None)
        if bound is None:
            raise ArgumentError("a condition is no bound of a scope", "bad-arguments")
        _cut_off(trace, number, bound)


def _to_cut(site: Site, guard: Guard) -> Iterator[IteratorBound]:
    """The bounds that the conditions of a guard say, of outer scopes first: what two bounds of an inner scope leave
    open is asked of those around it, so that no extent is below 0."""
    found = [bound for condition in guard.conditions for bound in _bounds(site, condition)]
    innermost = max((bound.depth for bound in found), default=0)
    inner = [bound for bound in found if bound.depth == innermost]
    between = (
        _bound(site, high.value - low.value - 1) for low in inner for high in inner if high.above > low.above
    )
    outer = [bound for bound in (*found, *between) if bound is not None and bound.depth < innermost]
    for bound in sorted(outer, key=lambda bound: bound.depth) + sorted(inner, key=lambda bound: bound.above):
        ends = site.scopes[bound.depth].extent.bounds
        if bound.value not in ends if bound.above else bound.value != Affine.constant(0):
            yield bound


def _bounds(site: Site, condition: Condition) -> list[IteratorBound]:
    """The bounds of one scope that a condition is. Raises ArgumentError where it is none."""
    difference = condition.left - condition.right
    ways = {
        ">=": (difference,),
        ">": (difference - 1,),
        "<=": (-difference,),
        "<": (-difference - 1,),
        "==": (difference, -difference),
    }
    found = [_bound(site, way) for way in ways.get(condition.relation, ())]
    if not found or None in found:
        raise ArgumentError("a condition is no bound of a scope", "bad-arguments")
    return [bound for bound in found if bound is not None]


def _bound(site: Site, least: Affine) -> IteratorBound | None:
    """The bound of the innermost scope that `least >= 0` depends on; None where it is stretched, or a
    window is asked about."""
    depth = max(least.iterators, default=-1)
    if depth < 0:
        return None
    factor = least.coefficient(Iter(depth))
    rest = least - Affine.iterator(depth) * factor
    if abs(factor) != 1 or depth in rest.iterators or any(is_window(site.scopes[d]) for d in least.iterators):
        return None
    return IteratorBound(depth, -rest, False) if factor == 1 else IteratorBound(depth, rest + 1, True)


def _cut_off(trace: Trace, number: int, bound: IteratorBound) -> None:
    """Cuts off what is outside of a bound, of a scope in which a statement stands alone."""
    for depth in reversed(range(bound.depth, len(trace.kernel.sites[number].scopes) - 1)):
        site = trace.kernel.sites[number]
        if len(site.scopes[depth].body) > 1:
            spot(trace, site.scope_paths[depth + 1]).alone(1)
    scope = spot(trace, trace.kernel.sites[number].scope_paths[bound.depth])
    below, on = scope.cut(bound.value)
    (on if bound.above else below).delete()


def count_from_zero(trace: Trace) -> None:
    """Brings each sum that is counted from the column on, or as far as the column, around its columns, where they
    are neighbours then. Where a move is refused, the sum stays as it was."""
    for site in reversed(trace.kernel.sites):
        if way := _way(trace, site):
            tried(trace, partial(_count_from_zero if way < 0 else _count_columns_on, path=site.path[:-1]))


def _way(trace: Trace, site: Site) -> int:
    """-1 where a statement sums up in an innermost scope that gets shorter by one with each column, and reads what
    goes along both, not all of it from one element to the next. 1 where that scope ends at the column, and what it
    reads along both goes from one column to the next. Else 0."""
    depth, target = len(site.scopes), site.statement.target
    if not site.statement.accumulation or depth < 2 or not isinstance(site.ancestors[-2], Scope):
        return 0
    column, summed = depth - 2, site.scopes[-1]
    if any(scope.marks for scope in site.scopes) or not is_leaf(summed):
        return 0
    both = [a for a in site.statement.reads if depends(a, column) and depends(a, column + 1)]
    found = (
        isinstance(site.ancestors[-1], Scope)
        and step_of(trace.kernel, target, column) == 1
        and not depends(target, column + 1)
        and strided(trace.kernel, site.path[:-1]) > 0
        and bool(both)
    )
    own, others = _bounds_of_sum(summed, column)
    if len(own) != 1 or not found:
        return 0
    if not others and own[0].coefficient(Iter(column)) == -1 and all(_goes_on(access, column) for access in both):
        return -1
    steps = [step_of(trace.kernel, access, column) for access in both]
    return int(own[0] == Affine.iterator(column) + 1 and all(step == 1 for step in steps))


def _bounds_of_sum(summed: Scope, column: int) -> tuple[list[Affine], list[Affine]]:
    """The bounds of a sum that depend on the column, and the others."""
    bounds = summed.extent.bounds
    return [b for b in bounds if column in b.iterators], [b for b in bounds if column not in b.iterators]


def _goes_on(access: Access, column: int) -> bool:
    """Whether an access has the iterator of a sum only together with that of its column."""
    affine = [index for index in access.indices if isinstance(index, Affine)]
    along = [index for index in affine if column + 1 in index.iterators]
    ones = all(i.coefficient(Iter(column)) == i.coefficient(Iter(column + 1)) == 1 for i in along)
    return ones and len(affine) == len(access.indices)


def _count_from_zero(trace: Trace, path: Path) -> None:
    """Raises DojoError where a move of it is refused, or columns are no neighbours."""
    columns = spot(trace, path).alone(1)
    summed = columns.child(0)
    act(trace, Skew, columns, 1)
    guard = summed.child(0).node
    assert isinstance(guard, Guard)
    for number in reversed(range(len(guard.conditions))):
        tried(trace, move(DropCondition, summed.child(0), number))
    columns.swap()
    columns.bound(summed.iterator + 1)
    columns.child(0).unguard()
    require(not strided(trace.kernel, columns.path), "of neighbours along its columns")


def _count_columns_on(trace: Trace, path: Path) -> None:
    """Raises DojoError where a move of it is refused."""
    columns = spot(trace, path).alone(1)
    summed = columns.child(0)
    summed.guard([Condition(summed.iterator, "<", columns.iterator + 1)])
    _, others = _bounds_of_sum(summed.scope, columns.depth)
    summed.bound(Extent(tuple(others)) if others else columns.scope.extent)
    columns.swap()
    never, always = columns.cut(summed.iterator)
    always.child(0).unguard()
    never.delete()
    require(not strided(trace.kernel, always.path), "of neighbours along its columns")
