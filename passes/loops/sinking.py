"""Moves that carry a scope further in or out, past the scopes and guards of a perfect nest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from dojoir.backends.machine import Machine
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope
from dojoir.ir.places import ancestors
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.move import Move, Rewrite, place_of, then
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.swapping import swap
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SinkScope(AboutScope, name="sink_scope", reach=Reach.PANE):
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

    levels: int

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        if self.levels < 1:
            raise at.refusal("bad-count", f"a scope sinks by at least 1 level, not {self.levels}")
        return _carried(at.kernel, _sunk, (at.path + (0,) * level for level in range(self.levels)))

    def inverse(self, before: Kernel) -> Move:
        return LiftScope(place_of(before.path(self.scope) + (0,) * self.levels), self.levels)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        levels = _nested(at.node)
        guarded = levels and isinstance(at.node.body[0], Guard)
        return ((n,) for n in range(1 if guarded else 2, levels + 1))  # by one past a scope is `swap_scopes`

    @classmethod
    def more(cls, at: Here[Scope], machine: Machine) -> Arguments:
        return ((n,) for n in range(1, _nested(at.node) + 1))


@dataclass(frozen=True)
class LiftScope(AboutScope, name="lift_scope", reach=Reach.PANE):
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

    levels: int

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        most = len(at.path) - 1
        if not 1 <= self.levels <= most:
            raise at.refusal("bad-count", f"{self.scope} can be lifted by 1 to {most} levels")
        return _carried(at.kernel, _lifted, (at.path[: most - level] for level in range(self.levels)))

    def inverse(self, before: Kernel) -> Move:
        return SinkScope(place_of(before.path(self.scope)[: -self.levels]), self.levels)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        levels = _alone(at)
        guarded = levels and isinstance(at.kernel.at(at.path[:-1]), Guard)
        return ((n,) for n in sorted({1, levels} if guarded else {levels}) if n > 1 or (n and guarded))

    @classmethod
    def more(cls, at: Here[Scope], machine: Machine) -> Arguments:
        return ((n,) for n in range(1, _alone(at) + 1))


def _carried(kernel: Kernel, step: Callable[[Here[Any]], Rewrite], paths: Iterable[Path]) -> Rewrite:
    """A step made at some places, one after another."""
    result = Rewrite(kernel, identity(kernel))
    for path in paths:
        result = then(result, step(Here(result.kernel, path, result.kernel.at(path))))
    return result


def _sunk(at: Here[Scope]) -> Rewrite:
    """The scope inside its only child. Raises Refusal."""
    child = at.node.body[0]
    if len(at.node.body) != 1 or not isinstance(child, Guard):
        return swap(at)
    for condition in child.conditions:
        if at.depth in condition.left.iterators | condition.right.iterators:
            text = format_condition(condition)
            message = f"the guard {text} depends on {{{at.depth}}}, the iterator of the scope"
            raise at.refusal("dependent-guard", message)
    return at.unmoved(replace(child, body=(replace(at.node, body=child.body),)))


def _lifted(at: Here[Node]) -> Rewrite:
    """The scope or guard inside the scope that is its only child. Raises Refusal."""
    match at.node:
        case Scope() as scope:
            return swap(Here(at.kernel, at.path, scope))
        case Guard(body=(Scope() as scope,)):
            return at.unmoved(replace(scope, body=(replace(at.node, body=scope.body),)))
    raise at.refusal("not-nested", "a scope is lifted out of what has nothing else in it")


def _nested(scope: Scope) -> int:
    """How many scopes and guards are inside a scope in a perfect nest."""
    levels = 0
    nodes = scope.body
    while len(nodes) == 1 and isinstance(nodes[0], Scope | Guard):
        levels += 1
        nodes = nodes[0].body
    return levels


def _alone(at: Here[Scope]) -> int:
    """How many scopes and guards around a scope have nothing else in them."""
    around = ancestors(at.kernel, at.path)
    return next((levels for levels, node in enumerate(reversed(around)) if len(node.body) != 1), len(around))
