"""Moves that carry a scope further in or out, past the scopes and guards of a perfect nest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope
from dojoir.ir.text import format_condition
from dojoir.passes.base.move import Move, Place, Refusal, Rewrite, place_of, scope_at, scope_or_none, scopes, then
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.swapping import swap
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SinkScope(Move):
    """Carries a scope inside `levels` scopes and guards, each the only child of the one before: `swap_scopes` as
    often, and past guards, which must not depend on the iterator of the scope. Labels and marks go with their
    scope. The inverse is `lift_scope`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... inout y: f32[N, M]
    ... N @i
    ... | M @j
    ... | | if {j} >= 1
    ... | | | y[{i}, {j}] = 2 * x[{i}, {j} - 1]
    ... ''')
    >>> print(dojoir.apply(k, "sink_scope(@i, 2)"))
    kernel f(N, M)
    in  x: f32[N, M]
    inout y: f32[N, M]
    <BLANKLINE>
    M @j
    | if {j} >= 1
    | | N @i
    | | | y[{i}, {j}] = 2 * x[{i}, {j} - 1]
    <BLANKLINE>
    """

    name: ClassVar[str] = "sink_scope"
    reach: ClassVar[Reach] = Reach.PANE
    scope: Place
    levels: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, _ = scope_at(kernel, self.scope)
        if self.levels < 1:
            raise Refusal("bad-count", f"a scope sinks by at least 1 level, not {self.levels}", path)
        result = Rewrite(kernel, identity(kernel))
        for level in range(self.levels):
            result = then(result, _sunk(result.kernel, path + (0,) * level))
        return result

    def inverse(self, before: Kernel) -> Move:
        return LiftScope(place_of(before.path(self.scope) + (0,) * self.levels), self.levels)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            levels = _nested(scope)
            guarded = levels and isinstance(scope.body[0], Guard)
            for n in range(1 if guarded else 2, levels + 1):  # by one past a scope is `swap_scopes`
                yield cls(place_of(path), n)

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        scope = scope_or_none(kernel, place)
        if scope is not None and not isinstance(place, str):
            yield from (cls(place_of(place), n) for n in range(1, _nested(scope) + 1))


@dataclass(frozen=True)
class LiftScope(Move):
    """Carries a scope out of `levels` scopes and guards, each of which has nothing else in it. The inverse of
    `sink_scope`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... inout y: f32[N, M]
    ... M @j
    ... | if {j} >= 1
    ... | | N @i
    ... | | | y[{i}, {j}] = 2 * x[{i}, {j} - 1]
    ... ''')
    >>> print(dojoir.apply(k, "lift_scope(@i, 2)"))
    kernel f(N, M)
    in  x: f32[N, M]
    inout y: f32[N, M]
    <BLANKLINE>
    N @i
    | M @j
    | | if {j} >= 1
    | | | y[{i}, {j}] = 2 * x[{i}, {j} - 1]
    <BLANKLINE>
    """

    name: ClassVar[str] = "lift_scope"
    reach: ClassVar[Reach] = Reach.PANE
    scope: Place
    levels: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, _ = scope_at(kernel, self.scope)
        if not 1 <= self.levels < len(path):
            raise Refusal("bad-count", f"{self.scope} can be lifted by 1 to {len(path) - 1} levels", path)
        result = Rewrite(kernel, identity(kernel))
        for level in range(self.levels):
            result = then(result, _lifted(result.kernel, path[: len(path) - 1 - level]))
        return result

    def inverse(self, before: Kernel) -> Move:
        return SinkScope(place_of(before.path(self.scope)[: -self.levels]), self.levels)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, _ in scopes(kernel):
            levels = 0
            while levels < len(path) - 1 and len(_body(kernel.at(path[: len(path) - 1 - levels]))) == 1:
                levels += 1
            guarded = levels and isinstance(kernel.at(path[:-1]), Guard)
            for n in sorted({1, levels} if guarded else {levels}):
                if n > 1 or (n and guarded):
                    yield cls(place_of(path), n)

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        if scope_or_none(kernel, place) is None or isinstance(place, str):
            return
        for levels in range(1, len(place)):
            if len(_body(kernel.at(place[: len(place) - levels]))) != 1:
                return
            yield cls(place_of(place), levels)


def _sunk(kernel: Kernel, path: Path) -> Rewrite:
    """The scope at `path` inside its only child."""
    _, scope = scope_at(kernel, place_of(path))
    child = scope.body[0]
    if len(scope.body) != 1 or not isinstance(child, Guard):
        return swap(kernel, path, scope)
    depth = kernel.depth_of(path)
    for condition in child.conditions:
        if depth in condition.left.iterators | condition.right.iterators:
            text = format_condition(condition)
            raise Refusal(
                "dependent-guard", f"the guard {text} depends on {{{depth}}}, the iterator of the scope", path
            )
    around = replace(child, body=(replace(scope, body=child.body),))
    return Rewrite(kernel.replace_node(path, around), identity(kernel))


def _lifted(kernel: Kernel, path: Path) -> Rewrite:
    """The scope or guard at `path` inside the scope that is its only child."""
    node = kernel.at(path)
    match node:
        case Scope():
            return swap(kernel, path, node)
        case Guard(body=(Scope() as scope,)):
            around = replace(scope, body=(replace(node, body=scope.body),))
            return Rewrite(kernel.replace_node(path, around), identity(kernel))
    raise Refusal("not-nested", "a scope is lifted out of what has nothing else in it", path)


def _nested(scope: Scope) -> int:
    """How many scopes and guards are inside a scope in a perfect nest."""
    levels = 0
    nodes = scope.body
    while len(nodes) == 1 and isinstance(nodes[0], Scope | Guard):
        levels += 1
        nodes = nodes[0].body
    return levels


def _body(node: Node) -> tuple[Node, ...]:
    return node.body if isinstance(node, Scope | Guard) else ()


MOVES = (SinkScope, LiftScope)
