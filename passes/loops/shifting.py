"""Shifts the statements of a scope by some iterations; that taken back is the same move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Extent, Guard, Kernel, Path, format_path, substitute, substitute_iterators
from dojoir.ir.text import format_condition
from dojoir.passes.base.move import (
    Formula,
    Move,
    Place,
    Refusal,
    Rewrite,
    place_of,
    renamed_inside,
    scope_at,
    scope_or_none,
    scopes,
)
from dojoir.passes.base.reach import Reach
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


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
    | if {i} >= 2
    | | y[{i} - 2] = 2 * x[{i} - 2]
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


MOVES = (Shift,)
