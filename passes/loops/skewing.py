"""Skewing: a nest whose inner iterations run later in each outer one, in the box around what it then runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Condition, Extent, Guard, Kernel, Path, Scope, substitute, substitute_iterators
from dojoir.ir.places import sites_inside
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import inner_scope
from dojoir.passes.base.indices import largest
from dojoir.passes.base.move import Move, Rewrite, Undoing, reversible
from dojoir.passes.base.reach import Reach
from dojoir.support.frozen import dataclass

FACTORS = (1, 2)
"""The factors that are listed, for nests that read what they write."""


@dataclass(frozen=True)
class Skew(AboutScope, name="skew", reach=Reach.NODE | Reach.PANE):
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

    factor: int

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        inner = at.only_child
        at.unhinted(inner)
        if self.factor < 1:
            raise at.refusal("bad-factor", f"the factor must be at least 1, not {self.factor}")
        depth, i = at.depth, Affine.iterator(at.depth + 1)
        later = at.own * self.factor
        ends = tuple(bound + later for bound in inner.extent.bounds)
        conditions = (Condition(i, ">=", later), *(Condition(i, "<", end) for end in ends))
        moved = substitute_iterators({depth + 1: i - later})
        body = (Guard(conditions, tuple(substitute(node, moved) for node in inner.body)),)
        most = [largest(end, depth, bound) for end in ends for bound in at.node.extent.bounds]
        if None in most:
            message = f"the extent of the inner scope depends on {{{depth}}} in a division"
            raise at.refusal("not-linear", message)
        skewed = replace(inner, extent=Extent(tuple(filter(None, most))), body=body)
        return reversible(self, at.kernel, at.renamed(moved, replace(at.node, body=(skewed,))))

    def back(self, at: Here[Scope]) -> Move:
        return Unskew(at.place, self.factor)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        nested = inner_scope(at.node) is not None and _reads_what_it_writes(at.kernel, at.path)
        return ((factor,) for factor in FACTORS if nested)

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        return ((n,) for n in numbers if n > 0 and inner_scope(at.node) is not None)


@dataclass(frozen=True)
class Unskew(Undoing, AboutScope, name="unskew"):
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

    factor: int

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        inner, later = at.only_child, at.own * self.factor
        match inner.body:
            case [Guard(conditions=(_, *ends), body=body)] if ends:
                extent = Extent(tuple(end.right - later for end in ends))
            case _:
                raise at.refusal("not-skewed", "there is no guard with both ends of a skewed scope")
        moved = substitute_iterators({at.depth + 1: Affine.iterator(at.depth + 1) + later})
        plain = replace(inner, extent=extent, body=tuple(substitute(node, moved) for node in body))
        return at.replaced(replace(at.node, body=(plain,))), Skew(at.place, self.factor)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        match at.node.body:
            case [Scope(body=(Guard(conditions=(first, _, *_)),))] if first.relation == ">=":
                factor = first.right.coefficient(Iter(at.depth))
                if factor > 0 and first.right == at.own * factor:
                    yield (factor,)


def _reads_what_it_writes(kernel: Kernel, path: Path) -> bool:
    """Whether some array is both read and written inside a node: else no order of its iterations is forced, and
    nothing is gained by a skew."""
    inside = [site.statement for site in sites_inside(kernel, path)]
    written = {statement.target.buffer for statement in inside}
    return any(access.buffer in written for s in inside for access in s.reads)
