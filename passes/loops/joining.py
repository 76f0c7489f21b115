"""Scopes that follow each other joined, and a scope split between its children: loop fusion and distribution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.nodes import Extent, Kernel, Path, Scope, format_path
from dojoir.ir.places import sites_inside
from dojoir.ir.text import format_extent
from dojoir.passes.base.about import AboutPair, AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Refusal, Rewrite, fresh_label, scopes
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.fusing import to_join
from dojoir.proof.verdict import Verdict
from dojoir.sets.kernel_sets import iterators, sets_of
from dojoir.support.frozen import dataclass

FIRST = "the first scope is here"


@dataclass(frozen=True)
class JoinScopes(AboutPair):
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

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at, other = self.pair(kernel, FIRST)
        first, second, others = at.node, other.node, ((FIRST, at.path),)
        if first.marks != second.marks:
            message = "the two scopes have different marks"
            raise Refusal("different-marks", message, other.path, others=others)
        if first.hints != second.hints:
            raise other.refusal("different-hints", "the two scopes have different hints")
        if first.extent != second.extent and _runs_as_often(kernel, other.path, first.extent):
            text = format_extent(first.extent)
            message = f"the extent {format_extent(second.extent)} could be written {text}, and is not"
            cure = f"{self} is legal after set_extent({format_path(other.path)}, {text})"
            raise Refusal("different-text", message, other.path, cure, others)
        around = (at.path, other.path)
        inside = {s.label for path, s in scopes(kernel) if path not in around and path[: len(at.path)] in around}
        label = next((label for label in (first.label, second.label) if label and label not in inside), None)
        return at.unmoved(replace(first, body=first.body + second.body, label=label), count=2)

    def inverse(self, before: Kernel) -> Move:
        at = self.found(before)
        return SplitScopes(at.place, len(at.node.body))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        return to_join(kernel, kernel.path(self.first), kernel.path(self.second))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [(at.beside(),)] if cls.following(at) else []


@dataclass(frozen=True)
class SplitScopes(AboutScope):
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
    children: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at = self.found(kernel)
        scope, count = at.node, len(at.node.body)
        if not 0 < self.children < count:
            raise at.refusal(
                "bad-count",
                f"the scope has {count} child{'' if count == 1 else 'ren'}: "
                f"{self.children} of them cannot be split from the rest",
                "name the scope around the nodes that are to part, and how many of them stay in the first",
            )
        first = replace(scope, body=scope.body[: self.children])
        named = fresh_label(kernel, re.sub(r"(_rest\d*)?$", "_rest", scope.label, count=1)) if scope.label else None
        return at.unmoved(first, replace(scope, body=scope.body[self.children :], label=named))

    def inverse(self, before: Kernel) -> Move:
        at = self.found(before)
        return JoinScopes(at.place, at.beside())

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return ((children,) for children in range(1, len(at.node.body)))


def _runs_as_often(kernel: Kernel, path: Path, extent: Extent) -> bool:
    """Whether every statement in the scope at `path` would run as often if the scope had another extent."""
    sets, level = sets_of(kernel), len(path) - 1
    for site in sites_inside(kernel, path):
        scope, *inside = site.ancestors[level:]
        assert isinstance(scope, Scope)
        other = [*site.ancestors[:level], replace(scope, extent=extent), *inside]
        own = f"[{iterators(len(site.scopes))}] -> []"
        now = sets.map(f"{own} : {sets.constraints(site.ancestors)}")
        if not now.is_equal(sets.map(f"{own} : {sets.constraints(other)}")):
            return False
    return True


MOVES = (JoinScopes, SplitScopes)
