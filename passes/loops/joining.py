"""Scopes that follow each other joined, and a scope split between its children: loop fusion and distribution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.nodes import Extent, Kernel, Path, Scope, format_path
from dojoir.ir.paths import is_inside, next_sibling
from dojoir.ir.places import siblings
from dojoir.ir.text import format_extent
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Place, Refusal, Rewrite, fresh_label, place_of, scope_at, scopes
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.fusing import to_join
from dojoir.proof.check import identity
from dojoir.proof.verdict import Verdict
from dojoir.sets.kernel_sets import iterators, sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class JoinScopes(Move):
    """Fuses two adjacent sibling scopes of equal extent: each iteration runs the first body, then the second.

    The label of the first stays, else that of the second, but none that a scope inside has. Extents that are equal
    only by the facts are first written alike, with `set_extent`. The inverse is `split_scopes`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "join_scopes(0, 1)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "join_scopes"
    reach: ClassVar[Reach] = Reach.PANE
    first: Place
    second: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, first = scope_at(kernel, self.first)
        other, second = scope_at(kernel, self.second)
        if other != next_sibling(path):
            message = f"{self.second} does not follow {self.first} in the same scope"
            raise Refusal("not-adjacent", message, other, others=(("the first scope is here", path),))
        if first.marks != second.marks:
            message = "the two scopes have different marks"
            raise Refusal("different-marks", message, other, others=(("the first scope is here", path),))
        if first.hints != second.hints:
            raise Refusal("different-hints", "the two scopes have different hints", other)
        if first.extent != second.extent and _runs_as_often(kernel, other, first.extent):
            text = format_extent(first.extent)
            raise Refusal(
                "different-text",
                f"the extent {format_extent(second.extent)} could be written {text}, and is not",
                other,
                f"{self} is legal after set_extent({format_path(other)}, {text})",
                (("the first scope is here", path),),
            )
        inside = {s.label for at, s in scopes(kernel) if at[: len(path)] in (path, other) and len(at) > len(path)}
        label = next((label for label in (first.label, second.label) if label and label not in inside), None)
        joined = replace(first, body=first.body + second.body, label=label)
        after = kernel.replace_node(other).replace_node(path, joined)
        return Rewrite(after, identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path, first = scope_at(before, self.first)
        return SplitScopes(place_of(path), len(first.body))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        return to_join(kernel, kernel.path(self.first), kernel.path(self.second))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, _ in scopes(kernel):
            following = siblings(kernel, path)[path[-1] + 1 : path[-1] + 2]
            if following and isinstance(following[0], Scope):
                second = next_sibling(path)
                yield cls(Place(format_path(path)), Place(format_path(second)))


@dataclass(frozen=True)
class SplitScopes(Move):
    """Distributes a scope: its first `children` children run in one scope, the others in another after it.

    The label stays on the first; the other is labelled with `_rest` behind it, `@i_rest`. The inverse is
    `join_scopes`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N @i
    ... | t[{i}] = 2 * x[{i}]
    ... | y[{i}] = t[{i}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "split_scopes(@i, 1)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N @i
    | t[{i}] = 2 * x[{i}]
    N @i_rest
    | y[{i_rest}] = t[{i_rest}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "split_scopes"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
    scope: Place
    children: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if not 0 < self.children < len(scope.body):
            raise Refusal(
                "bad-count",
                f"the scope has {len(scope.body)} child{'' if len(scope.body) == 1 else 'ren'}: "
                f"{self.children} of them cannot be split from the rest",
                path,
                "name the scope around the nodes that are to part, and how many of them stay in the first",
            )
        first = replace(scope, body=scope.body[: self.children])
        named = fresh_label(kernel, re.sub(r"(_rest\d*)?$", "_rest", scope.label, count=1)) if scope.label else None
        second = replace(scope, body=scope.body[self.children :], label=named)
        return Rewrite(kernel.replace_node(path, first, second), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path = before.path(self.scope)
        return JoinScopes(place_of(path), place_of(next_sibling(path)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            for children in range(1, len(scope.body)):
                yield cls(Place(format_path(path)), children)


def _runs_as_often(kernel: Kernel, path: Path, extent: Extent) -> bool:
    """Whether every statement in the scope at `path` would run as often if the scope had another extent."""
    sets, level = sets_of(kernel), len(path) - 1
    for site in kernel.sites:
        if is_inside(site.path, path):
            scope, *inside = site.ancestors[level:]
            assert isinstance(scope, Scope)
            other = [*site.ancestors[:level], replace(scope, extent=extent), *inside]
            own = f"[{iterators(len(site.scopes))}] -> []"
            now = sets.map(f"{own} : {sets.constraints(site.ancestors)}")
            if not now.is_equal(sets.map(f"{own} : {sets.constraints(other)}")):
                return False
    return True


MOVES = (JoinScopes, SplitScopes)
