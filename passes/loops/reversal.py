"""A move that runs the iterations of a scope in the opposite order."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from dojoir.ir.nodes import Kernel, Scope, substitute, substitute_iterators
from dojoir.ir.text import format_extent
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.move import Move, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ReverseScope(AboutScope):
    """Runs a scope from its last iteration to its first: what ran at i runs at its extent - 1 - i. Legal where the
    order of the iterations does not count. The inverse is the same move.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[N - 1 - {i}]
    ... ''')
    >>> print(dojoir.apply(k, "reverse_scope(@i)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[N - {i} - 1] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "reverse_scope"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at = self.found(kernel)
        extent = at.node.extent
        if len(extent.bounds) != 1:
            hint = "set_extent or cut gives it one bound" if extent.constant is None else None
            message = f"the extent {format_extent(extent)} has no one end to count from"
            raise at.refusal("several-bounds", message, hint)
        at.unhinted()
        back = substitute_iterators({at.depth: extent.bounds[0] - 1 - at.own})
        body = tuple(substitute(node, back) for node in at.node.body)
        if tuple(substitute(node, back) for node in body) != at.node.body:
            raise at.refusal("not-reversible", "the divisions in the body lose their form when it is reversed")
        return at.renamed(back, replace(at.node, body=body))

    def inverse(self, before: Kernel) -> Move:
        return ReverseScope(self.found(before).place)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [()] if len(at.node.extent.bounds) == 1 and at.node.extent.constant != 1 else []


MOVES = (ReverseScope,)
