"""A move that runs the iterations of a scope in the opposite order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, substitute, substitute_iterators
from dojoir.ir.text import format_extent
from dojoir.passes.base.move import (
    Move,
    Place,
    Refusal,
    Rewrite,
    place_of,
    renamed_inside,
    scope_at,
    scopes,
    unhinted,
)
from dojoir.passes.base.reach import Reach
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ReverseScope(Move):
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
    scope: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if len(scope.extent.bounds) != 1:
            text = format_extent(scope.extent)
            hint = "set_extent or cut gives it one bound" if scope.extent.constant is None else None
            raise Refusal("several-bounds", f"the extent {text} has no one end to count from", path, hint)
        unhinted(path, scope)
        depth = kernel.depth_of(path)
        last = scope.extent.bounds[0] - 1
        back = substitute_iterators({depth: last - Affine.iterator(depth)})
        body = tuple(substitute(node, back) for node in scope.body)
        if tuple(substitute(node, back) for node in body) != scope.body:
            raise Refusal("not-reversible", "the divisions in the body lose their form when it is reversed", path)
        after = kernel.replace_node(path, replace(scope, body=body))
        return Rewrite(after, renamed_inside(kernel, path, back))

    def inverse(self, before: Kernel) -> Move:
        return ReverseScope(place_of(before.path(self.scope)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if len(scope.extent.bounds) == 1 and scope.extent.constant != 1:
                yield cls(place_of(path))


MOVES = (ReverseScope,)
