"""A scope and its only child made one scope, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine, Iter, Mod, SizeVar
from dojoir.ir.nodes import Extent, Kernel, Scope, format_path, substitute
from dojoir.ir.paths import is_inside
from dojoir.passes.base.alternatives import Alternative, to_nest, whole_blocks
from dojoir.passes.base.indices import map_indices, without_divisions
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
    scopes,
    unhinted,
)
from dojoir.passes.base.reach import Reach
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


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
    | y[{i} // 4, {i} % 4] = 2 * x[{i} // 4, {i} % 4]
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
    | | y[{i}, {1}] = 2 * x[{i}, {1}]
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


MOVES = (Collapse, Uncollapse)
