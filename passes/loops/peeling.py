"""Peeling: the first iteration of a scope written out before it, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine, FloorDiv, Iter, SizeVar
from dojoir.ir.nodes import (
    Condition,
    Extent,
    Kernel,
    Node,
    Replace,
    Statement,
    format_path,
    substitute,
    substitute_iterators,
)
from dojoir.ir.places import numbers_inside
from dojoir.ir.rewriting.rewrite import map_indices
from dojoir.ir.text import format_extent
from dojoir.passes.base.move import (
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
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import InstanceMap, Origin, identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


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
    | y[{i} + 1] = 2 * x[{i} + 1]
    <BLANKLINE>
    """

    name: ClassVar[str] = "peel"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
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
        mine = numbers_inside(kernel, path)
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


def _children(node: Node) -> tuple[Node, ...]:
    return () if isinstance(node, Statement) else node.body


def _targets(nodes: tuple[Node, ...]) -> list[tuple[str, str]]:
    """The buffers that the statements of some nodes write, and the operators, in the order of the text."""
    found: list[tuple[str, str]] = []
    for node in nodes:
        inner = (node,) if isinstance(node, Statement) else (site.statement for site in node.inner)
        found += ((statement.target.buffer, statement.op) for statement in inner)
    return found


def _moved(kernel: Kernel, site: int, new: Replace) -> Origin:
    """A statement as the old one at the iterators that `new` gives."""
    return Origin(site, tuple(new(Iter(d)) for d in range(len(kernel.sites[site].scopes))))


def _gathered(affine: Affine) -> Affine:
    """The same value with `(… - 1) // 2 + 1` written as `(… + 1) // 2`: what a first iteration was taken out of is
    mostly a quotient that is rounded up."""
    for atom, coefficient in affine.terms:
        if isinstance(atom, FloorDiv) and atom.numerator.offset < 0 < coefficient <= affine.offset:
            rest = affine - Affine.atom(atom) * coefficient - coefficient
            affine = rest + ((atom.numerator + atom.divisor) // atom.divisor) * coefficient
    return affine


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
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unpeel"
    scope: Place

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, scope = scope_at(kernel, self.scope)
        depth, count = kernel.depth_of(path), len(scope.body)
        if path[-1] < count:
            raise Refusal("not-peeled", f"there is no iteration of {self.scope} before it", path)
        siblings = kernel.body if len(path) == 1 else _children(kernel.at(path[:-1]))
        before = siblings[path[-1] - count : path[-1]]
        if _targets(before) != _targets(scope.body):
            raise Refusal("not-peeled", f"what stands before {self.scope} is no iteration of it", path)
        back = substitute_iterators({depth: Affine.iterator(depth) - 1})

        def earlier(affine: Affine) -> Affine:
            before = affine.substitute(back)
            return _gathered(before) if depth in affine.divided else before

        whole = replace(
            scope,
            extent=Extent(tuple(bound + 1 for bound in scope.extent.bounds)),
            body=tuple(map_indices(node, earlier) for node in scope.body),
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


MOVES = (Peel, Unpeel)
