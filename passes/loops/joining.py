"""Scopes that follow each other joined, and a scope split between its children: loop fusion and distribution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Extent, Kernel, Path, Scope, Statement, format_path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import sites_inside
from dojoir.passes.base.about import AboutPair, AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative, next_to
from dojoir.passes.base.move import Move, Refusal, Rewrite, fresh_label, scopes
from dojoir.passes.base.reach import Reach
from dojoir.proof.verdict import Verdict
from dojoir.sets.kernel_sets import iterators, sets_of
from dojoir.support.frozen import dataclass

FIRST = "the first scope is here"


@dataclass(frozen=True)
class JoinScopes(AboutPair, name="join_scopes", reach=Reach.PANE):
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

    def back(self, at: Here[Scope]) -> Move:
        return SplitScopes(at.place, len(at.node.body))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        return to_join(kernel, kernel.path(self.first), kernel.path(self.second))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [(at.beside(),)] if cls.following(at) else []


@dataclass(frozen=True)
class SplitScopes(AboutScope, name="split_scopes", reach=Reach.NODE | Reach.PANE):
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

    children: int

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        scope, count = at.node, len(at.node.body)
        if not 0 < self.children < count:
            raise at.refusal(
                "bad-count",
                f"the scope has {count} child{'' if count == 1 else 'ren'}: "
                f"{self.children} of them cannot be split from the rest",
                "name the scope around the nodes that are to part, and how many of them stay in the first",
            )
        first = replace(scope, body=scope.body[: self.children])
        named = (
            fresh_label(at.kernel, re.sub(r"(_rest\d*)?$", "_rest", scope.label, count=1)) if scope.label else None
        )
        return at.unmoved(first, replace(scope, body=scope.body[self.children :], label=named))

    def back(self, at: Here[Scope]) -> Move:
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


def to_join(kernel: Kernel, first: Path, second: Path) -> Iterator[Alternative]:
    """Two scopes side by side, alike, the second late enough."""
    a, b = kernel.at(first), kernel.at(second)
    one, two = format_path(first), format_path(second)
    if not (isinstance(a, Scope) and isinstance(b, Scope)):
        return
    if first[:-1] != second[:-1]:
        yield from _around_them(kernel, first, second)
        return
    if second[-1] == first[-1] - 1:
        yield Alternative((), f"join_scopes({two}, {one})")
    for mark in dict.fromkeys(a.marks + b.marks):
        yield Alternative(tuple(f"unmark({p}, {mark})" for p, s in ((one, a), (two, b)) if mark in s.marks),
                          f"join_scopes({one}, {two})")  # fmt: skip
    if second[-1] - first[-1] == 2:
        between = next_to(first)
        yield Alternative((f"swap_siblings({one})",), f"join_scopes({between}, {two})")
        yield Alternative((f"swap_siblings({between})",), f"join_scopes({one}, {between})")
    join = f"join_scopes({one}, {two})"
    yield Alternative((f"set_extent({two}, {format_extent(a.extent)})",), join)
    yield Alternative((f"set_extent({one}, {format_extent(b.extent)})",), join)
    if len(a.extent.bounds) == 1 and len(b.extent.bounds) == 1:
        longer = a.extent.bounds[0] - b.extent.bounds[0]
        if longer.is_constant and longer.offset > 0:
            yield Alternative((f"shift({two}, {longer.offset})",), join)
            yield Alternative(
                (f"cut({one}, {longer.offset})",), f"join_scopes({next_to(first)}, {next_to(second)})"
            )
        elif longer.is_constant and longer.offset < 0:
            yield Alternative((f"shift({one}, {-longer.offset})",), join)
            # The rest of the second is cut off behind it.
            yield Alternative((f"cut({two}, {format_extent(a.extent)})",), join)
    yield from _with_halo(kernel, first, second, a, b)
    for by in (1, 2):
        # Both run to the same end: the first with nothing to do in its last iterations.
        later = f"{format_extent(b.extent)} + {by}"
        yield Alternative((f"shift({two}, {by})", f"set_extent({one}, {later})"), join)
        yield Alternative((f"shift({two}, {by})", f"cut({two}, {format_extent(a.extent)})"), join)


def _around_them(kernel: Kernel, first: Path, second: Path) -> Iterator[Alternative]:
    """The two scopes around them fused, which may bring them side by side."""
    outer, other = first[:-1], second[:-1]
    if not outer or other != (*outer[:-1], outer[-1] + 1):
        return
    join = f"join_scopes({format_path(outer)}, {format_path(other)})"
    above = kernel.at(outer)
    if not isinstance(above, Statement):
        moved = (*outer, len(above.body) + second[-1])
        yield Alternative((join,), f"join_scopes({format_path(first)}, {format_path(moved)})")
    yield Alternative((), join)


def _with_halo(kernel: Kernel, first: Path, second: Path, a: Scope, b: Scope) -> Iterator[Alternative]:
    """The second scope as many iterations later as it reads ahead of what the first one writes; the first one runs
    on to the same end, under a guard."""
    by = _reads_ahead(kernel, first, second)
    if by < 1 or len(a.extent.bounds) != 1 or len(b.extent.bounds) != 1:
        return
    one, two, join = (
        format_path(first),
        format_path(second),
        f"join_scopes({format_path(first)}, {format_path(second)})",
    )
    end, last = a.extent.bounds[0], b.extent.bounds[0] + by
    depth = kernel.depth_of(first)
    yield Alternative((f"shift({two}, {by})",), join)
    yield Alternative((f"shift({two}, {by})", f"set_extent({one}, {last})"), join)
    guard = f'add_guard({one}.0, {len(a.body)}, "{{{depth}}} < {end}")'
    yield Alternative((f"shift({two}, {by})", guard, f"set_extent({one}, {last})"), join)


def _reads_ahead(kernel: Kernel, first: Path, second: Path) -> int:
    """How many iterations ahead the second scope reads what the first one writes, as far as indices that are their
    iterators and a number show it."""
    depth = kernel.depth_of(first)
    written: dict[tuple[str, int], int] = {}
    for site in kernel.sites:
        if is_inside(site.path, first):
            for d, offset in _offsets(site.statement.target.indices, depth):
                known = written.get((site.statement.target.buffer, d), offset)
                written[site.statement.target.buffer, d] = min(known, offset)
    ahead = [
        offset - written[access.buffer, d]
        for site in kernel.sites
        if is_inside(site.path, second)
        for access in site.statement.reads
        for d, offset in _offsets(access.indices, depth)
        if (access.buffer, d) in written
    ]
    return max(ahead, default=0)


def _offsets(indices: tuple[object, ...], depth: int) -> Iterator[tuple[int, int]]:
    """The dimensions that an iterator indexes, each with the number that is added to it."""
    for d, index in enumerate(indices):
        if isinstance(index, Affine) and index.coefficient(Iter(depth)) == 1:
            rest = index - Affine.iterator(depth)
            if rest.is_constant:
                yield d, rest.offset
