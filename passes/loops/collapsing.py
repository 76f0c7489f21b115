"""A scope and its only child made one scope, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.ir.affine import Affine, Iter, Mod
from dojoir.ir.nodes import Extent, Kernel, Scope, format_path, substitute
from dojoir.ir.places import sites_inside
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative, inner_scope, to_nest, whole_blocks
from dojoir.passes.base.indices import deeper, map_indices, shallower, without_divisions
from dojoir.passes.base.move import Move, Rewrite, Undoing, reversible
from dojoir.passes.base.reach import Reach
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Collapse(AboutScope, name="collapse", reach=Reach.NODE | Reach.PANE):
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

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        scope, child, own = at.node, at.only_child, at.own
        inner = child.extent.constant
        if inner is None or inner < 1:
            raise at.refusal("open-extent", "the inner extent must be a constant of at least 1")
        if scope.marks != child.marks:
            raise at.refusal("different-marks", "the two scopes have different marks")
        at.unhinted(child)
        new = shallower(at.depth, {at.depth: own // inner, at.depth + 1: own % inner})
        extent = Extent(tuple(bound * inner for bound in scope.extent.bounds))
        body = tuple(substitute(node, new) for node in child.body)
        return reversible(self, at.kernel, at.renamed(new, replace(scope, extent=extent, body=body)))

    def back(self, at: Here[Scope]) -> Move:
        inner = at.only_child.extent.constant
        assert inner is not None
        return Uncollapse(at.place, inner)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """An inner scope of constant extent: the outer one, if it is that, or blocks of the inner one."""
        at = self.found(kernel)
        here = format_path(at.path)
        if verdict.code == "open-extent":
            child, inside = at.only_child, (*at.path, 0)
            if at.node.extent.constant:
                yield Alternative((f"swap_scopes({here})",), str(self))
            for factor in (8, 16, 4):
                for blocks in whole_blocks(child, inside, factor):
                    alone = (f"split_scopes({here}, 1)",) if len(blocks) > 1 else ()
                    steps = (*blocks[:-1], *alone, blocks[-1], f"swap_scopes({format_path(inside)})")
                    yield Alternative(steps, f"collapse({here})")
        for mark in dict.fromkeys(at.node.marks):
            yield Alternative((f"unmark({here}, {mark})",), str(self))
        yield from to_nest(kernel, at.path, "collapse({0})")

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        inner = inner_scope(at.node)
        return [()] if inner is not None and inner.extent.constant else []


@dataclass(frozen=True)
class Uncollapse(Undoing, AboutScope, name="uncollapse", reach=Reach.PANE):
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

    inner: int

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at, count = self.found(kernel), self.inner
        if count < 1:
            raise at.refusal("bad-factor", f"the inner extent must be at least 1, not {count}")
        at.unhinted()
        inside = Iter(at.depth + 1)
        new = deeper(at.depth, {at.depth: at.own * count + Affine.atom(inside)})

        def separate(affine: Affine) -> Affine:
            return without_divisions(affine.substitute(new), inside, count)

        body = tuple(map_indices(node, separate) for node in at.node.body)
        inner = Scope(Extent((Affine.constant(count),)), body, at.node.marks)
        extent = Extent(tuple(bound // count for bound in at.node.extent.bounds))
        return at.replaced(replace(at.node, extent=extent, body=(inner,))), Collapse(at.place)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        """The numbers that indices inside are divided by, with a remainder, and that divide the extent."""
        divisors = {
            atom.divisor
            for site in sites_inside(at.kernel, at.path)
            for access in site.statement.accesses
            for index in access.indices
            if isinstance(index, Affine)
            for atom, _ in index.terms
            if isinstance(atom, Mod) and at.depth in atom.numerator.iterators
        }
        bounds = at.node.extent.bounds
        return ((n,) for n in sorted(divisors) if all(bound % n == Affine.constant(0) for bound in bounds))
