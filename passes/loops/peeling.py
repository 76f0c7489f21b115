"""Peeling: the first iteration of a scope written out before it, and back."""

from __future__ import annotations

from dataclasses import replace

from dojoir.ir.affine import Affine, FloorDiv
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Condition, Extent, Kernel, Node, Scope, Statement, substitute, substitute_iterators
from dojoir.ir.paths import next_sibling
from dojoir.ir.rewriting.rewrite import map_indices
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.indices import shallower
from dojoir.passes.base.move import Move, Rewrite, Undoing, moved, place_of, reversible, well_typed
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import InstanceMap, identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Peel(AboutScope, name="peel", reach=Reach.NODE | Reach.PANE):
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

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        scope, one = at.node, Affine.constant(1)
        if not sets_of(at.kernel).holds_around(at.path, [Condition(b, ">=", one) for b in scope.extent.bounds]):
            raise at.refusal(
                "may-not-run",
                f"the extent {format_extent(scope.extent)} may be 0, and then no iteration is the first",
                f"cut({self.scope}, 1) parts the first iteration from the others and keeps it in a scope",
            )
        first, later = (
            shallower(at.depth, {at.depth: Affine.constant(0)}),
            substitute_iterators({at.depth: at.own + 1}),
        )
        peeled = tuple(substitute(node, first) for node in scope.body)
        rest = replace(
            scope,
            extent=Extent(tuple(bound - 1 for bound in scope.extent.bounds)),
            body=tuple(substitute(node, later) for node in scope.body),
        )
        origins, mine = identity(at.kernel).origins, at.numbers
        begin, end = (mine[0], mine[-1] + 1) if mine else (0, 0)
        new = (*origins[:begin], *moved(at.kernel, mine, first), *moved(at.kernel, mine, later), *origins[end:])
        done = Rewrite(at.replaced(*peeled, rest), InstanceMap(new))
        return reversible(self, at.kernel, well_typed(done))

    def back(self, at: Here[Scope]) -> Move:
        return Unpeel(at.beside(len(at.node.body)))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        constant = at.node.extent.constant
        return [()] if constant is None or constant > 1 else []


def _targets(nodes: tuple[Node, ...]) -> list[tuple[str, str]]:
    """The buffers that the statements of some nodes write, and the operators, in the order of the text."""
    found: list[tuple[str, str]] = []
    for node in nodes:
        inner = (node,) if isinstance(node, Statement) else (site.statement for site in node.inner)
        found += ((statement.target.buffer, statement.op) for statement in inner)
    return found


def _gathered(affine: Affine) -> Affine:
    """The same value with `(… - 1) // 2 + 1` written as `(… + 1) // 2`: what a first iteration was taken out of is
    mostly a quotient that is rounded up."""
    for atom, coefficient in affine.terms:
        if isinstance(atom, FloorDiv) and atom.numerator.offset < 0 < coefficient <= affine.offset:
            rest = affine - Affine.atom(atom) * coefficient - coefficient
            affine = rest + ((atom.numerator + atom.divisor) // atom.divisor) * coefficient
    return affine


@dataclass(frozen=True)
class Unpeel(Undoing, AboutScope, name="unpeel"):
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

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        scope, last, count = at.node, at.path[-1], len(at.node.body)
        if last < count:
            raise at.refusal("not-peeled", f"there is no iteration of {self.scope} before it")
        if _targets(at.siblings[last - count : last]) != _targets(scope.body):
            raise at.refusal("not-peeled", f"what stands before {self.scope} is no iteration of it")
        back = substitute_iterators({at.depth: at.own - 1})

        def earlier(affine: Affine) -> Affine:
            before = affine.substitute(back)
            return _gathered(before) if at.depth in affine.divided else before

        extent = Extent(tuple(bound + 1 for bound in scope.extent.bounds))
        whole = replace(scope, extent=extent, body=tuple(map_indices(node, earlier) for node in scope.body))
        first = next_sibling(at.path, -count)
        return kernel.replace_node(first, whole, count=count + 1), Peel(place_of(first))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [()] if at.path[-1] >= len(at.node.body) > 0 else []
