"""Peeling: the first iteration of a scope written out before it, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dojoir.affine import Affine, Iter, SizeVar
from dojoir.dataflow import InstanceMap, Origin, identity
from dojoir.ir import Condition, Extent, Kernel, Replace, format_path, substitute, substitute_iterators
from dojoir.passes.move import (
    Move,
    Place,
    Refusal,
    Rewrite,
    Undoing,
    place_of,
    reversible,
    scope_at,
    scopes,
    well_typed,
)
from dojoir.printer import format_extent
from dojoir.sets import sets_of


@dataclass(frozen=True)
class Peel(Move):
    """Writes out the first iteration of a scope before it; the scope runs the others. The label stays on it.

    The scope must run at least once, whatever the sizes. `cut` at 1 does the same for one that may not. The inverse
    is `unpeel`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "peel(@i)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    y[0] = 2 * x[0]
    N - 1 @i
    | y[{0} + 1] = 2 * x[{0} + 1]
    <BLANKLINE>
    """

    name: ClassVar[str] = "peel"
    scope: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        depth = kernel.depth_of(path)
        one = Affine.constant(1)
        if not sets_of(kernel).holds_around(path, [Condition(b, ">=", one) for b in scope.extent.bounds]):
            raise Refusal(
                "may-not-run",
                f"the extent {format_extent(scope.extent)} may be 0, and then no iteration is the first",
                path,
                f"cut({self.scope}, 1) parts the first iteration from the others and keeps it in a scope",
            )

        def first(atom: SizeVar | Iter) -> Affine:
            match atom:
                case Iter(d) if d == depth:
                    return Affine.constant(0)
                case Iter(d) if d > depth:
                    return Affine.iterator(d - 1)
            return Affine.atom(atom)

        later = substitute_iterators({depth: Affine.iterator(depth) + 1})
        peeled = tuple(substitute(node, first) for node in scope.body)
        rest = replace(
            scope,
            extent=Extent(tuple(bound - 1 for bound in scope.extent.bounds)),
            body=tuple(substitute(node, later) for node in scope.body),
        )
        origins: list[Origin | None] = []
        mine = [k for k, site in enumerate(kernel.sites) if site.path[: len(path)] == path]
        for k, origin in enumerate(identity(kernel).origins):
            if k not in mine:
                origins.append(origin)
            elif k == mine[0]:
                for new in (first, later):
                    origins += [
                        Origin(m, tuple(new(Iter(d)) for d in range(len(kernel.sites[m].scopes)))) for m in mine
                    ]
        done = Rewrite(kernel.replace_node(path, *peeled, rest), InstanceMap(tuple(origins)))
        return reversible(self, kernel, well_typed(done))

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        return Unpeel(place_of((*path[:-1], path[-1] + len(scope.body))))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if scope.extent.constant is None or scope.extent.constant > 1:
                yield cls(Place(format_path(path)))


def _moved(kernel: Kernel, site: int, new: Replace) -> Origin:
    """A statement as the old one at the iterators that `new` gives."""
    return Origin(site, tuple(new(Iter(d)) for d in range(len(kernel.sites[site].scopes))))


@dataclass(frozen=True)
class Unpeel(Undoing):
    """Makes what stands before a scope its first iteration again. The inverse of `peel`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... y[0] = 2 * x[0]
    ... N - 1 @i
    ... | y[{0} + 1] = 2 * x[{0} + 1]
    ... ''')
    >>> print(dojoir.apply(k, "unpeel(@i)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unpeel"
    scope: Place

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, scope = scope_at(kernel, self.scope)
        depth, count = kernel.depth_of(path), len(scope.body)
        if path[-1] < count:
            raise Refusal("not-peeled", f"there is no iteration of {self.scope} before it", path)
        earlier = substitute_iterators({depth: Affine.iterator(depth) - 1})
        whole = replace(
            scope,
            extent=Extent(tuple(bound + 1 for bound in scope.extent.bounds)),
            body=tuple(substitute(node, earlier) for node in scope.body),
        )
        kernel = kernel.replace_node(path, whole)
        first = (*path[:-1], path[-1] - count)
        for _ in range(count):
            kernel = kernel.replace_node(first)
        return kernel, Peel(place_of(first))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if path[-1] >= len(scope.body) > 0:
                yield cls(Place(format_path(path)))
