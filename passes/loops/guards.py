"""Moves that put a condition in front of nodes, and take one away; and that let statements run past the end of a
result or a sum, to no effect, and hold them back again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.backends.machine import Machine
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Guard, Kernel, Node
from dojoir.ir.places import sites_inside
from dojoir.passes.base.about import AboutGuard, AboutNode, Arguments, Here
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Place, Quoted, Rewrite, Undoing, conditions_of
from dojoir.passes.base.properties import guards
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class AddGuard(AboutNode, name="add_guard"):
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

    count: int
    conditions: Quoted

    def rewritten(self, at: Here[Node]) -> Rewrite:
        return _guarded(at, self.count, self.conditions, self.node)

    def back(self, at: Here[Node]) -> Move:
        return RemoveGuard(at.place)

    @classmethod
    def more(cls, at: Here[Node], machine: Machine) -> Arguments:
        """The guards that make a version of a launch, and those that the last threads need: of one node, and of
        all that follow."""
        counts = {1, len(at.siblings) - at.path[-1]}
        return ((count, Quoted(text)) for text in guards(at.kernel, at.path, machine) for count in counts)


@dataclass(frozen=True)
class RemoveGuard(AboutGuard, name="remove_guard"):
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

    def rewritten(self, at: Here[Guard]) -> Rewrite:
        return at.unmoved(*at.node.body)

    def back(self, at: Here[Guard]) -> Move:
        return AddGuard(at.place, *_held(at.node))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """One that never holds goes with what it guards."""
        yield Alternative((), f"delete_node({self.guard})")

    @classmethod
    def listed(cls, at: Here[Guard]) -> Arguments:
        return [()]


@dataclass(frozen=True)
class DropCondition(AboutGuard, name="drop_condition"):
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

    number: int

    def rewritten(self, at: Here[Guard]) -> Rewrite:
        left = list(at.node.conditions)
        if len(left) == 1:
            raise at.refusal("only-condition", "it is the only condition", f"remove_guard({self.guard})")
        if not 0 <= self.number < len(left):
            message = f"there are {len(left)} conditions, from 0 on, and none {self.number}"
            raise at.refusal("bad-count", message)
        del left[self.number]
        return at.changed(conditions=tuple(left))

    def back(self, at: Here[Guard]) -> Move:
        return AddCondition(at.place, self.number, Quoted(format_condition(at.node.conditions[self.number])))

    @classmethod
    def listed(cls, at: Here[Guard]) -> Arguments:
        count = len(at.node.conditions)
        return ((number,) for number in range(count) if count > 1)


@dataclass(frozen=True)
class AddCondition(AboutGuard, name="add_condition"):
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

    number: int
    condition: Quoted

    def rewritten(self, at: Here[Guard]) -> Rewrite:
        added, all_ = conditions_of(self.condition, at.kernel, at.depth), list(at.node.conditions)
        if len(added) != 1 or not 0 <= self.number <= len(all_):
            raise at.refusal("bad-count", f"it puts one condition among {len(all_)}, at a number up to that")
        all_.insert(self.number, *added)
        return at.changed(conditions=tuple(all_))

    def back(self, at: Here[Guard]) -> Move:
        return DropCondition(at.place, self.number)


@dataclass(frozen=True)
class ComputePadding(AboutGuard, name="compute_padding"):
    """Takes away a guard that holds something back which has no effect: that runs on the padding as well.

    Legal where that stays in bounds and cannot fail, and where nothing uses what it gives, or it adds products of
    zeros to a sum whose order is free. It is for instructions that work on whole tiles: `restore_node`
    puts in the zeros. The inverse is `skip_padding`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32
    ... tmp t: f32[N + 8]
    ... tmp s: f32
    ... N @i
    ... | t[{i}] = x[{i}]
    ... 8
    ... | t[N + {0}] = 0
    ... s = 0
    ... N + 8 @k
    ... | if {k} < N
    ... | | s += t[{k}] * t[{k}]
    ... y = s
    ... ''')
    >>> print(dojoir.apply(k, "compute_padding(3.0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32
    tmp t: f32[N + 8]
    tmp s: f32
    <BLANKLINE>
    N @i
    | t[{i}] = x[{i}]
    8
    | t[N + {0}] = 0
    s = 0
    N + 8 @k
    | s += t[{k}] * t[{k}]
    y = s
    <BLANKLINE>
    """

    def rewritten(self, at: Here[Guard]) -> Rewrite:
        done = at.unmoved(*at.node.body)
        return replace(done, instances=replace(done.instances, beyond=True))

    def back(self, at: Here[Guard]) -> Move:
        return SkipPadding(at.place, *_held(at.node))

    @classmethod
    def listed(cls, at: Here[Guard]) -> Arguments:
        written = {site.statement.target.buffer for site in sites_inside(at.kernel, at.path)}
        return [()] if all(at.kernel.buffer(name).role == "tmp" for name in written) else []


@dataclass(frozen=True)
class SkipPadding(Undoing, AboutNode, name="skip_padding"):
    """Puts the node at `node` and those after it, `count` in all, under a guard with `conditions`: what that holds
    back had no effect. The inverse of `compute_padding`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N + 8]
    ... N + 8 @i
    ... | t[{i}] = 0
    ... N
    ... | t[{0}] += x[{0}]
    ... | y[{0}] = t[{0}]
    ... ''')
    >>> print(dojoir.apply(k, 'skip_padding(0.0, 1, "{0} < N")'))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N + 8]
    <BLANKLINE>
    N + 8 @i
    | if {i} < N
    | | t[{i}] = 0
    N
    | t[{0}] += x[{0}]
    | y[{0}] = t[{0}]
    <BLANKLINE>
    """

    count: int
    conditions: Quoted

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        return _guarded(at, self.count, self.conditions, self.node).kernel, ComputePadding(at.place)


def _guarded(at: Here[Node], count: int, text: Quoted, named: Place) -> Rewrite:
    """A node, as a move names it, and those after it, `count` in all, under a guard. Raises Refusal."""
    following = at.siblings[at.path[-1] :]
    if not 0 < count <= len(following):
        nodes = f"{len(following)} node{'' if len(following) == 1 else 's'}"
        raise at.refusal("bad-count", f"from {named} on there are {nodes}, not {count}")
    conditions = conditions_of(text, at.kernel, at.depth)
    return at.unmoved(Guard(conditions, following[:count]), count=count)


def _held(guard: Guard) -> tuple[int, Quoted]:
    """How many nodes a guard is around, and its conditions as text."""
    return len(guard.body), Quoted(" and ".join(map(format_condition, guard.conditions)))
