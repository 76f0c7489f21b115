"""Moves that let statements run past the end of a result or a sum, to no effect, and hold them back again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.nodes import Guard, Kernel
from dojoir.ir.places import sites_inside
from dojoir.passes.base.move import Move, Place, Quoted, Rewrite, Undoing, place_of
from dojoir.passes.loops.guards import AddGuard, RemoveGuard
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ComputePadding(Move):
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

    name: ClassVar[str] = "compute_padding"
    guard: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        done = RemoveGuard(self.guard).rewrite(kernel)
        return Rewrite(done.kernel, replace(done.instances, beyond=True))

    def inverse(self, before: Kernel) -> Move:
        undo = RemoveGuard(self.guard).inverse(before)
        assert isinstance(undo, AddGuard)
        return SkipPadding(undo.node, undo.count, undo.conditions)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, node in kernel.walk():
            if isinstance(node, Guard) and all(
                kernel.buffer(site.statement.target.buffer).role == "tmp" for site in sites_inside(kernel, path)
            ):
                yield cls(place_of(path))


@dataclass(frozen=True)
class SkipPadding(Undoing):
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

    name: ClassVar[str] = "skip_padding"
    node: Place
    count: int
    conditions: Quoted

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        done = AddGuard(self.node, self.count, self.conditions).rewrite(kernel)
        return done.kernel, ComputePadding(place_of(kernel.path(self.node)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        """None: the conditions are for the user to say."""
        return iter(())


MOVES = (ComputePadding, SkipPadding)
