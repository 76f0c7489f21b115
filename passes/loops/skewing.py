"""Skewing: a nest whose inner iterations run later in each outer one, in the box around what it then runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import (
    Condition,
    Extent,
    Guard,
    Kernel,
    Path,
    Scope,
    substitute,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import (
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
from dojoir.support.frozen import dataclass

FACTORS = (1, 2)
"""The factors that are listed, for nests that read what they write."""


@dataclass(frozen=True)
class Skew(Move):
    """Runs the iterations of the only child of a scope `factor` later in each iteration of the scope: what ran at i
    in iteration t runs at i + `factor`*t.

    The child's extent becomes that of all t together, with a guard for what runs in each. The nest is a box, and
    `swap_scopes` and `tile` are legal where every dependence points forward in both of its directions. Marks and
    labels stay. The inverse is `unskew`.

    Source: M. Wolfe, "Loop skewing: the wavefront method revisited" (1986).

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(T, N)
    ... inout x: f32[N + 2]
    ... T @t
    ... | N @i
    ... | | x[{i} + 1] = 0.5 * x[{i}] + 0.5 * x[{i} + 2]
    ... ''')
    >>> print(dojoir.apply(k, "skew(@t, 1)"))
    kernel f(T, N)
    inout x: f32[N + 2]
    <BLANKLINE>
    T @t
    | N + T - 1 @i
    | | if {i} >= {t} and {i} < N + {t}
    | | | x[{i} - {t} + 1] = 0.5 * x[{i} - {t}] + 0.5 * x[{i} - {t} + 2]
    <BLANKLINE>
    """

    name: ClassVar[str] = "skew"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
    scope: Place
    factor: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, outer = scope_at(kernel, self.scope)
        inner = only_child(path, outer)
        unhinted(path, outer, inner)
        if self.factor < 1:
            raise Refusal("bad-factor", f"the factor must be at least 1, not {self.factor}", path)
        depth = kernel.depth_of(path)
        t, i = Affine.iterator(depth), Affine.iterator(depth + 1)
        later = t * self.factor
        ends = tuple(bound + later for bound in inner.extent.bounds)
        conditions = (Condition(i, ">=", later), *(Condition(i, "<", end) for end in ends))
        moved = substitute_iterators({depth + 1: i - later})
        body = (Guard(conditions, tuple(substitute(node, moved) for node in inner.body)),)
        extent = Extent(tuple(_largest(end, t, bound, path) for end in ends for bound in outer.extent.bounds))
        skewed = replace(outer, body=(replace(inner, extent=extent, body=body),))
        done = Rewrite(kernel.replace_node(path, skewed), renamed_inside(kernel, path, moved))
        return reversible(self, kernel, done)

    def inverse(self, before: Kernel) -> Move:
        return Unskew(place_of(before.path(self.scope)), self.factor)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if len(scope.body) == 1 and isinstance(scope.body[0], Scope) and _reads_what_it_writes(kernel, path):
                for factor in FACTORS:
                    yield cls(place_of(path), factor)

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        scope = scope_or_none(kernel, place)
        nested = scope is not None and len(scope.body) == 1 and isinstance(scope.body[0], Scope)
        if nested and not isinstance(place, str):
            yield from (cls(place_of(place), n) for n in numbers if n > 0)


@dataclass(frozen=True)
class Unskew(Undoing):
    """Takes a skew by `factor` back, with its guard. The inverse of `skew`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(T, N)
    ... inout x: f32[N + 2]
    ... T @t
    ... | T + N - 1 @i
    ... | | if {1} >= {0} and {1} < N + {0}
    ... | | | x[{1} - {0} + 1] = 0.5 * x[{1} - {0}] + 0.5 * x[{1} - {0} + 2]
    ... ''')
    >>> print(dojoir.apply(k, "unskew(@t, 1)"))
    kernel f(T, N)
    inout x: f32[N + 2]
    <BLANKLINE>
    T @t
    | N @i
    | | x[{i} + 1] = 0.5 * x[{i}] + 0.5 * x[{i} + 2]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unskew"
    scope: Place
    factor: int

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, outer = scope_at(kernel, self.scope)
        inner = only_child(path, outer)
        depth = kernel.depth_of(path)
        later = Affine.iterator(depth) * self.factor
        match inner.body:
            case [Guard(conditions=(_, *ends), body=body)] if ends:
                extent = Extent(tuple(end.right - later for end in ends))
            case _:
                raise Refusal("not-skewed", "there is no guard with both ends of a skewed scope", path)
        moved = substitute_iterators({depth + 1: Affine.iterator(depth + 1) + later})
        plain = replace(inner, extent=extent, body=tuple(substitute(node, moved) for node in body))
        return kernel.replace_node(path, replace(outer, body=(plain,))), Skew(place_of(path), self.factor)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            match scope.body:
                case [Scope(body=(Guard(conditions=(first, _, *_)),))] if first.relation == ">=":
                    factor = first.right.coefficient(Iter(kernel.depth_of(path)))
                    if factor > 0 and first.right == Affine.iterator(kernel.depth_of(path)) * factor:
                        yield cls(place_of(path), factor)


def _reads_what_it_writes(kernel: Kernel, path: Path) -> bool:
    """Whether some array is both read and written inside a node: else no order of its iterations is forced, and
    nothing is gained by a skew."""
    inside = [site.statement for site in kernel.sites if is_inside(site.path, path)]
    written = {statement.target.buffer for statement in inside}
    return any(access.buffer in written for s in inside for access in s.reads)


def _largest(end: Affine, t: Affine, extent: Affine, path: Path) -> Affine:
    """The largest value of an end over all iterations t of a scope of some extent."""
    ((atom, _),) = t.terms
    assert isinstance(atom, Iter)
    slope = end.coefficient(atom)
    rest = end - t * slope
    if atom.depth in rest.iterators:
        raise Refusal(
            "not-linear", f"the extent of the inner scope depends on {{{atom.depth}}} in a division", path
        )
    return rest + (extent - 1) * slope if slope > 0 else rest


MOVES = (Skew, Unskew)
