"""Moves on the range of a scope: cut it in two, collapse it with its child, shift what it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Iter, Mod, SizeVar
from dojoir.ir.nodes import (
    Condition,
    Extent,
    Guard,
    Kernel,
    Path,
    Scope,
    format_path,
    substitute,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside
from dojoir.ir.places import numbers_inside, siblings
from dojoir.ir.text import format_condition
from dojoir.passes.base.alternatives import Alternative, to_nest, whole_blocks
from dojoir.passes.base.indices import map_indices, without_divisions
from dojoir.passes.base.move import (
    Formula,
    Move,
    Place,
    Refusal,
    Rewrite,
    Undoing,
    only_child,
    place_of,
    renamed_inside,
    reversible,
    scope_at,
    scope_or_none,
    scopes,
    unhinted,
)
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import InstanceMap, Origin, identity
from dojoir.proof.verdict import Verdict
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

BLOCKS = (4, 8, 16, 32, 64)
"""A cut after the last whole block of so many iterations is listed."""


@dataclass(frozen=True)
class Cut(Move):
    """Cuts the range of a scope in two: iterations below `at`, and the rest in a scope of its own after it.

    `at` is affine in the sizes and the iterators around the scope. The first extent is `at` where that is known
    not to be more than the extent, else the smaller of the two. The label stays on the first. The inverse is
    `join_ranges`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "cut(@i, 16*(N // 16))"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    16*(N // 16) @i
    | y[{0}] = 2 * x[{0}]
    N - 16*(N // 16)
    | y[{0} + 16*(N // 16)] = 2 * x[{0} + 16*(N // 16)]
    <BLANKLINE>
    """

    name: ClassVar[str] = "cut"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
    scope: Place
    at: Formula

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        depth = kernel.depth_of(path)
        at = self.at.affine(kernel, depth)
        inside = sets_of(kernel).holds_around(path, [Condition(at, "<=", b) for b in scope.extent.bounds])
        first = replace(scope, extent=Extent((at,) if inside else (*scope.extent.bounds, at)))
        moved = substitute_iterators({depth: at + Affine.iterator(depth)})
        second = Scope(
            Extent(tuple(bound - at for bound in scope.extent.bounds)),
            tuple(substitute(node, moved) for node in scope.body),
            scope.marks,
            hints=scope.hints,
        )
        origins: list[Origin | None] = []
        mine = numbers_inside(kernel, path)
        for k, origin in enumerate(identity(kernel).origins):
            origins.append(origin)
            if mine and k == mine[-1]:
                origins += [
                    Origin(m, tuple(moved(Iter(d)) for d in range(len(kernel.sites[m].scopes)))) for m in mine
                ]
        return Rewrite(kernel.replace_node(path, first, second), InstanceMap(tuple(origins)))

    def inverse(self, before: Kernel) -> Move:
        path = before.path(self.scope)
        return JoinRanges(place_of(path), place_of((*path[:-1], path[-1] + 1)), self.at)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if len(scope.extent.bounds) != 1:
                continue
            bound = scope.extent.bounds[0]
            ways = [Affine.constant(1), bound - 1]
            if not bound.is_constant:
                ways += [bound // block * block for block in BLOCKS]
            for way in dict.fromkeys(ways):
                if not (way.is_constant and bound.is_constant and not 0 < way.offset < bound.offset):
                    yield cls(Place(format_path(path)), Formula(str(way)))

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        """After so many iterations, so many before the end, and after the last whole block of so many."""
        scope = scope_or_none(kernel, place)
        if scope is None or isinstance(place, str):
            return
        for n in numbers:
            ways = [Affine.constant(n)]
            ways += [way for bound in scope.extent.bounds for way in (bound // n * n, bound - n)] if n > 0 else []
            yield from (cls(place_of(place), Formula(str(way))) for way in ways if _inside(way, scope))

    @classmethod
    def further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """At an iterator around, or one more: the parts before and behind a diagonal."""
        scope = scope_or_none(kernel, place)
        if scope is not None and not isinstance(place, str):
            around = [Affine.iterator(depth) + more for depth in range(kernel.depth_of(place)) for more in (0, 1)]
            yield from (cls(place_of(place), Formula(str(way))) for way in around)


def _inside(way: Affine, scope: Scope) -> bool:
    """Whether a cut there may leave something on both sides."""
    most = scope.constant_bound
    return not way.is_constant or (way.offset > 0 and (most is None or way.offset < most))


@dataclass(frozen=True)
class JoinRanges(Undoing):
    """Makes one scope of a scope and the next one, which runs on from iteration `at` with the same body. The
    inverse of `cut`. The label of the first stays.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... 1 @i
    ... | y[{i}] = 2 * x[{i}]
    ... N - 1
    ... | y[{0} + 1] = 2 * x[{0} + 1]
    ... ''')
    >>> print(dojoir.apply(k, "join_ranges(0, 1, 1)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "join_ranges"
    first: Place
    second: Place
    at: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, first = scope_at(kernel, self.first)
        other, second = scope_at(kernel, self.second)
        if other != (*path[:-1], path[-1] + 1):
            raise Refusal("not-adjacent", f"{self.second} does not follow {self.first} in the same scope", other)
        at = self.at.affine(kernel, kernel.depth_of(path))
        whole = replace(first, extent=Extent(tuple(bound + at for bound in second.extent.bounds)))
        return kernel.replace_node(other).replace_node(path, whole), Cut(place_of(path), self.at)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, first in scopes(kernel):
            following = siblings(kernel, path)[path[-1] + 1 : path[-1] + 2]
            if following and isinstance(following[0], Scope) and len(following[0].body) == len(first.body):
                place, next_place = place_of(path), place_of((*path[:-1], path[-1] + 1))
                yield cls(place, next_place, Formula(str(first.extent.bounds[-1])))


@dataclass(frozen=True)
class Collapse(Move):
    """Makes one scope of a scope and its only child, whose extent must be constant. The label of the outer scope
    stays. The inverse is `uncollapse`; what `split` gave is for `unsplit`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N, 4]
    ... out y: f32[N, 4]
    ... N @i
    ... | 4 @j
    ... | | y[{i}, {j}] = 2 * x[{i}, {j}]
    ... ''')
    >>> print(dojoir.apply(k, "collapse(@i)"))
    kernel f(N)
    in  x: f32[N, 4]
    out y: f32[N, 4]
    <BLANKLINE>
    4*N @i
    | y[{0} // 4, {0} % 4] = 2 * x[{0} // 4, {0} % 4]
    <BLANKLINE>
    """

    name: ClassVar[str] = "collapse"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
    scope: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        child = only_child(path, scope)
        inner = child.extent.constant
        if inner is None or inner < 1:
            raise Refusal("open-extent", "the inner extent must be a constant of at least 1", path)
        if scope.marks != child.marks:
            raise Refusal("different-marks", "the two scopes have different marks", path)
        unhinted(path, scope, child)
        depth = kernel.depth_of(path)
        own = Affine.iterator(depth)

        def new(atom: SizeVar | Iter) -> Affine:
            match atom:
                case Iter(d) if d == depth:
                    return own // inner
                case Iter(d) if d == depth + 1:
                    return own % inner
                case Iter(d) if d > depth:
                    return Affine.iterator(d - 1)
            return Affine.atom(atom)

        extent = Extent(tuple(bound * inner for bound in scope.extent.bounds))
        body = tuple(substitute(node, new) for node in child.body)
        after = kernel.replace_node(path, replace(scope, extent=extent, body=body))
        return reversible(self, kernel, Rewrite(after, renamed_inside(kernel, path, new)))

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        inner = only_child(path, scope).extent.constant
        assert inner is not None
        return Uncollapse(place_of(path), inner)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """An inner scope of constant extent: the outer one, if it is that, or blocks of the inner one."""
        path, scope = scope_at(kernel, self.scope)
        here = format_path(path)
        if verdict.code == "open-extent":
            child, inside = only_child(path, scope), (*path, 0)
            if scope.extent.constant:
                yield Alternative((f"swap_scopes({here})",), str(self))
            for factor in (8, 16, 4):
                for blocks in whole_blocks(child, inside, factor):
                    alone = (f"split_scopes({here}, 1)",) if len(blocks) > 1 else ()
                    steps = (*blocks[:-1], *alone, blocks[-1], f"swap_scopes({format_path(inside)})")
                    yield Alternative(steps, f"collapse({here})")
        for mark in dict.fromkeys(scope.marks):
            yield Alternative((f"unmark({here}, {mark})",), str(self))
        yield from to_nest(kernel, path, "collapse({0})")

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if len(scope.body) == 1 and isinstance(scope.body[0], Scope) and scope.body[0].extent.constant:
                yield cls(Place(format_path(path)))


@dataclass(frozen=True)
class Uncollapse(Undoing):
    """Makes two scopes again of a scope that stands for a nest with an inner extent of `inner`. The inverse of
    `collapse`: it is for a body that uses {i} // `inner` and {i} % `inner`; for others `split` is. The label
    stays on the outer scope.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N, 4]
    ... out y: f32[N, 4]
    ... 4*N @i
    ... | y[{i} // 4, {i} % 4] = 2 * x[{i} // 4, {i} % 4]
    ... ''')
    >>> print(dojoir.apply(k, "uncollapse(@i, 4)"))
    kernel f(N)
    in  x: f32[N, 4]
    out y: f32[N, 4]
    <BLANKLINE>
    N @i
    | 4
    | | y[{0}, {1}] = 2 * x[{0}, {1}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "uncollapse"
    reach: ClassVar[Reach] = Reach.PANE
    scope: Place
    inner: int

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, scope = scope_at(kernel, self.scope)
        if self.inner < 1:
            raise Refusal("bad-factor", f"the inner extent must be at least 1, not {self.inner}", path)
        unhinted(path, scope)
        depth = kernel.depth_of(path)
        own, inside = Affine.iterator(depth), Iter(depth + 1)

        def new(atom: SizeVar | Iter) -> Affine:
            match atom:
                case Iter(d) if d == depth:
                    return own * self.inner + Affine.atom(inside)
                case Iter(d) if d > depth:
                    return Affine.iterator(d + 1)
            return Affine.atom(atom)

        def separate(affine: Affine) -> Affine:
            return without_divisions(affine.substitute(new), inside, self.inner)

        inner = Scope(
            Extent((Affine.constant(self.inner),)),
            tuple(map_indices(node, separate) for node in scope.body),
            scope.marks,
        )
        extent = Extent(tuple(bound // self.inner for bound in scope.extent.bounds))
        return kernel.replace_node(path, replace(scope, extent=extent, body=(inner,))), Collapse(place_of(path))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            depth = kernel.depth_of(path)
            divisors = sorted(
                {
                    atom.divisor
                    for site in kernel.sites
                    if is_inside(site.path, path)
                    for access in site.statement.accesses
                    for index in access.indices
                    if isinstance(index, Affine)
                    for atom, _ in index.terms
                    if isinstance(atom, Mod) and depth in atom.numerator.iterators
                }
            )
            for divisor in divisors:
                if all(bound % divisor == Affine.constant(0) for bound in scope.extent.bounds):
                    yield cls(place_of(path), divisor)


@dataclass(frozen=True)
class Shift(Move):
    """Runs each iteration of a scope `by` later: what ran at i runs at i + `by`, under a guard.

    `by` is affine in the sizes and the iterators around the scope, and not negative there: with an iterator it
    skews the nest (`skew` does that and makes a box of it). A shift by a negative takes such a shift back, with its
    guard. The inverse is the same move, by the negative.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "shift(@i, 2)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N + 2 @i
    | if {0} >= 2
    | | y[{0} - 2] = 2 * x[{0} - 2]
    <BLANKLINE>
    """

    name: ClassVar[str] = "shift"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
    scope: Place
    by: Formula

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        depth = kernel.depth_of(path)
        by = self.by.affine(kernel, depth)
        if by == Affine.constant(0):
            raise Refusal("no-change", "a shift by 0 changes nothing", path)
        own = Affine.iterator(depth)
        moved = substitute_iterators({depth: own - by})
        body = tuple(substitute(node, moved) for node in scope.body)
        if sets_of(kernel).holds_around(path, [Condition(by, "<=", Affine.constant(0))]):
            shifted = Condition(own, ">=", -by)
            match scope.body, body:
                case [Guard(conditions=(guard,))], [Guard(body=inner)] if guard == shifted:
                    body = inner
                case _:
                    text = format_condition(shifted)
                    raise Refusal("not-shifted", f"there is no guard {text} around all that the scope runs", path)
        else:
            body = (Guard((Condition(own, ">=", by),), body),)
        extent = Extent(tuple(bound + by for bound in scope.extent.bounds))
        after = kernel.replace_node(path, replace(scope, extent=extent, body=body))
        back = substitute_iterators({depth: own + by})
        again = tuple(substitute(substitute(node, moved), back) for node in scope.body)
        if again != scope.body:
            raise Refusal("not-reversible", "the divisions in the body lose their form when it is shifted", path)
        return Rewrite(after, renamed_inside(kernel, path, moved))

    def inverse(self, before: Kernel) -> Move:
        path = before.path(self.scope)
        return Shift(place_of(path), Formula(str(-self.by.affine(before, before.depth_of(path)))))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, _ in scopes(kernel):
            place = Place(format_path(path))
            yield cls(place, Formula("1"))
            depth = kernel.depth_of(path)
            if depth:
                yield cls(place, Formula(f"{{{depth - 1}}}"))

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        if scope_or_none(kernel, place) is not None and not isinstance(place, str):
            yield from (cls(place_of(place), Formula(str(n))) for n in numbers if n)


MOVES = (Collapse, Uncollapse, Cut, JoinRanges, Shift)
