"""The range of a scope cut in two, and joined again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Condition, Extent, Kernel, Path, Scope, format_path, substitute, substitute_iterators
from dojoir.ir.paths import next_sibling
from dojoir.ir.places import numbers_inside, siblings
from dojoir.passes.base.move import (
    Formula,
    Move,
    Place,
    Refusal,
    Rewrite,
    Undoing,
    place_of,
    scope_at,
    scope_or_none,
    scopes,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.base.versions import excess, is_host_code, versions
from dojoir.proof.check import InstanceMap, Origin, identity
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
    | y[{i}] = 2 * x[{i}]
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
        return JoinRanges(place_of(path), place_of(next_sibling(path)), self.at)

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
            yield from (cls(place_of(place), Formula(str(way))) for way in ways if _may_part(way, scope))

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """At an iterator around, or one more: the parts before and behind a diagonal. What runs once, in two
        versions."""
        scope = scope_or_none(kernel, place)
        if scope is not None and not isinstance(place, str):
            if scope.extent.constant == 1 and is_host_code(kernel, place):
                yield from (cls(place_of(place), Formula(excess(v))) for v in versions(kernel, machine))
            around = [Affine.iterator(depth) + more for depth in range(kernel.depth_of(place)) for more in (0, 1)]
            yield from (cls(place_of(place), Formula(str(way))) for way in around)


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
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "join_ranges"
    first: Place
    second: Place
    at: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, first = scope_at(kernel, self.first)
        other, second = scope_at(kernel, self.second)
        if other != next_sibling(path):
            raise Refusal("not-adjacent", f"{self.second} does not follow {self.first} in the same scope", other)
        at = self.at.affine(kernel, kernel.depth_of(path))
        whole = replace(first, extent=Extent(tuple(bound + at for bound in second.extent.bounds)))
        return kernel.replace_node(other).replace_node(path, whole), Cut(place_of(path), self.at)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, first in scopes(kernel):
            following = siblings(kernel, path)[path[-1] + 1 : path[-1] + 2]
            if following and isinstance(following[0], Scope) and len(following[0].body) == len(first.body):
                place, next_place = place_of(path), place_of(next_sibling(path))
                yield cls(place, next_place, Formula(str(first.extent.bounds[-1])))


def _may_part(way: Affine, scope: Scope) -> bool:
    """Whether a cut there may leave something on both sides."""
    most = scope.constant_bound
    return not way.is_constant or (way.offset > 0 and (most is None or way.offset < most))


MOVES = (Cut, JoinRanges)
