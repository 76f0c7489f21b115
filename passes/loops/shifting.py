"""Shifts the statements of a scope by some iterations; that taken back is the same move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Condition, Extent, Guard, Scope, substitute, substitute_iterators
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.move import Formula, Move, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Shift(AboutScope, name="shift", reach=Reach.NODE | Reach.PANE):
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

    by: Formula

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        scope, by = at.node, self.by.affine(at.kernel, at.depth)
        if by == Affine.constant(0):
            raise at.refusal("no-change", "a shift by 0 changes nothing")
        moved, back = (substitute_iterators({at.depth: value}) for value in (at.own - by, at.own + by))
        body = shifted = tuple(substitute(node, moved) for node in scope.body)
        if sets_of(at.kernel).holds_around(at.path, [Condition(by, "<=", Affine.constant(0))]):
            begin = Condition(at.own, ">=", -by)
            match scope.body, shifted:
                case [Guard(conditions=(guard,))], [Guard(body=inner)] if guard == begin:
                    body = inner
                case _:
                    message = f"there is no guard {format_condition(begin)} around all that the scope runs"
                    raise at.refusal("not-shifted", message)
        else:
            body = (Guard((Condition(at.own, ">=", by),), shifted),)
        if tuple(substitute(node, back) for node in shifted) != scope.body:
            raise at.refusal("not-reversible", "the divisions in the body lose their form when it is shifted")
        extent = Extent(tuple(bound + by for bound in scope.extent.bounds))
        return at.renamed(moved, replace(scope, extent=extent, body=body))

    def back(self, at: Here[Scope]) -> Move:
        return Shift(at.place, Formula(str(-self.by.affine(at.kernel, at.depth))))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        yield (Formula("1"),)
        if at.depth:
            yield (Formula(f"{{{at.depth - 1}}}"),)

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        return ((Formula(str(n)),) for n in numbers if n)
