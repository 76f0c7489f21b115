"""Moves that put a condition in front of nodes, and take one away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Guard, Kernel, Path
from dojoir.ir.places import siblings
from dojoir.ir.text import format_condition
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Place, Quoted, Refusal, Rewrite, conditions_of, place_of
from dojoir.passes.base.versions import guards
from dojoir.proof.check import identity
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class AddGuard(Move):
    """Puts the node at `node` and those after it, `count` in all, under a guard with `conditions`.

    Legal where they hold whenever what is guarded runs, as the extent of a scope around does: then
    `set_extent` may widen that scope. None are listed. The inverse is `remove_guard`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> guarded = dojoir.apply(k, 'add_guard(0.0, 1, "{0} < N")')
    >>> print(dojoir.apply(guarded, "set_extent(@i, N + 3)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N + 3 @i
    | if {i} < N
    | | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "add_guard"
    node: Place
    count: int
    conditions: Quoted

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path = kernel.path(self.node)
        following = siblings(kernel, path)[path[-1] :]
        if not 0 < self.count <= len(following):
            nodes = f"{len(following)} node{'' if len(following) == 1 else 's'}"
            raise Refusal("bad-count", f"from {self.node} on there are {nodes}, not {self.count}", path)
        conditions = conditions_of(self.conditions, kernel, kernel.depth_of(path))
        after = kernel.replace_node(path, Guard(conditions, following[: self.count]))
        for _ in range(self.count - 1):
            after = after.replace_node((*path[:-1], path[-1] + 1))
        return Rewrite(after, identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return RemoveGuard(place_of(before.path(self.node)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        yield from ()

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """The guards that make a version of a launch, and those that the last threads need: of one node, and of
        all that follow."""
        if not isinstance(place, str):
            following = len(siblings(kernel, place)) - place[-1]
            for text in guards(kernel, place, machine):
                yield from (cls(place_of(place), count, Quoted(text)) for count in {1, following})


@dataclass(frozen=True)
class RemoveGuard(Move):
    """Takes away a guard: what it guards stands in its place.

    Legal where its conditions hold whenever it is reached, or other guards inside it say as much. The inverse is
    `add_guard`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | if {i} < N
    ... | | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "remove_guard(0.0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "remove_guard"
    guard: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, node = _guard_at(kernel, self.guard)
        return Rewrite(kernel.replace_node(path, *node.body), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path = before.path(self.guard)
        node = before.at(path)
        assert isinstance(node, Guard)
        text = " and ".join(map(format_condition, node.conditions))
        return AddGuard(place_of(path), len(node.body), Quoted(text))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """One that never holds goes with what it guards."""
        yield Alternative((), f"delete_node({self.guard})")

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, node in kernel.walk():
            if isinstance(node, Guard):
                yield cls(place_of(path))


@dataclass(frozen=True)
class DropCondition(Move):
    """Takes the condition number `number`, from 0, of several out of a guard.

    Legal where the others imply it, or it holds whenever the guard is reached. A guard with one condition is for
    `remove_guard`. The inverse is `add_condition`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N + 1]
    ... N + 1 @i
    ... | y[{i}] = 0
    ... | if {i} >= 0 and {i} < N
    ... | | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "drop_condition(0.1, 0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N + 1]
    <BLANKLINE>
    N + 1 @i
    | y[{i}] = 0
    | if {i} < N
    | | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "drop_condition"
    guard: Place
    number: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, node = _guard_at(kernel, self.guard)
        count = len(node.conditions)
        if count == 1:
            raise Refusal("only-condition", "it is the only condition", path, f"remove_guard({self.guard})")
        if not 0 <= self.number < count:
            raise Refusal("bad-count", f"there are {count} conditions, from 0 on, and none {self.number}", path)
        left = (*node.conditions[: self.number], *node.conditions[self.number + 1 :])
        return Rewrite(kernel.replace_node(path, replace(node, conditions=left)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path, node = _guard_at(before, self.guard)
        return AddCondition(place_of(path), self.number, Quoted(format_condition(node.conditions[self.number])))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, node in kernel.walk():
            if isinstance(node, Guard) and len(node.conditions) > 1:
                yield from (cls(place_of(path), number) for number in range(len(node.conditions)))


@dataclass(frozen=True)
class AddCondition(Move):
    """Puts a condition into a guard, which is its number `number` then, from 0.

    Legal where it holds whenever the others do. None are listed. The inverse is `drop_condition`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N + 1]
    ... N + 1 @i
    ... | y[{i}] = 0
    ... | if {i} < N
    ... | | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, 'add_condition(0.1, 1, "{0} >= 0")'))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N + 1]
    <BLANKLINE>
    N + 1 @i
    | y[{i}] = 0
    | if {i} < N and {i} >= 0
    | | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "add_condition"
    guard: Place
    number: int
    condition: Quoted

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, node = _guard_at(kernel, self.guard)
        added = conditions_of(self.condition, kernel, kernel.depth_of(path))
        if len(added) != 1 or not 0 <= self.number <= len(node.conditions):
            message = f"it puts one condition among {len(node.conditions)}, at a number up to that"
            raise Refusal("bad-count", message, path)
        more = (*node.conditions[: self.number], *added, *node.conditions[self.number :])
        return Rewrite(kernel.replace_node(path, replace(node, conditions=more)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return DropCondition(place_of(before.path(self.guard)), self.number)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        yield from ()


def _guard_at(kernel: Kernel, place: Place) -> tuple[Path, Guard]:
    """The guard at a place. Raises Refusal if something else is there."""
    path = kernel.path(place)
    node = kernel.at(path)
    if not isinstance(node, Guard):
        raise Refusal("not-a-guard", f"{place} is a {type(node).__name__.lower()}, not a guard", path)
    return path, node


MOVES = (RemoveGuard, AddGuard, DropCondition, AddCondition)
