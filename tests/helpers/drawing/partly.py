"""Accumulations into some elements of a buffer, in nests that may be empty.

What an iteration would accumulate into need not exist where none runs, and where a condition picks one iteration of
many, the others must leave the element alone.
"""

from __future__ import annotations

from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Buffer, Condition, Guard, Node, Scope, Statement
from drawing.elements import Elements
from drawing.expressions import BOOL
from drawing.leaves import Here, Span


class Partial(Elements):
    """Nests that accumulate into a part of a buffer that has values already."""

    def _partly(self, buffer: Buffer) -> tuple[Node, ...]:
        """Such a nest; nothing for flags."""
        if buffer.dtype == BOOL or not buffer.dims:
            return ()
        here = Here(closed=frozenset({buffer.name}))
        number = self.random.randrange(len(buffer.dims))
        extent = buffer.dims[number].extent
        row = Affine.iterator(0)
        match self.random.randrange(6):
            case 0:  # y[{0} - 1] in a scope of {0} iterations
                inside = here.inside(Span(row, extent))
                bounds = (row,) if self.chance(0.6) else (row, self.random.choice(self.bounds))
                inner = inside.inside(Span(Affine.iterator(1), extent))
                return (self._rows(extent, self._sum(buffer, number, row - 1, bounds, inner)),)
            case 1:  # y[{0} + 1] in a scope of N - {0} - 1
                inside = here.inside(Span(row, extent))
                inner = inside.inside(Span(Affine.iterator(1), extent))
                return (self._rows(extent, self._sum(buffer, number, row + 1, (extent - row - 1,), inner)),)
            case 2:  # a condition around the whole scope, or inside of it
                inside = here.inside(Span(row, extent))
                found = Condition(row, ">=", Affine.constant(1))
                if self.chance(0.3):
                    found = Condition(row + Affine.iterator(1), ">=", Affine.constant(3))
                    keeps = Condition(row, ">=", Affine.constant(1))
                    return (self._rows(extent, self._guarded_sum(buffer, number, row - 1, (found, keeps), inside)),)
                return (self._rows(extent, self._guarded_sum(buffer, number, row - 1, (found,), inside)),)
            case 3:  # one iteration of many, perhaps of many threads
                bound = self.random.choice(self.bounds)
                chosen = self.random.choice((Affine.constant(self.random.choice((0, 1, 3, 7))), bound - 1))
                inside = here.inside(Span(row, bound))
                node = self._guarded_sum(
                    buffer, number, self._end(extent), (Condition(row, "==", chosen),), inside, self.chance(0.5)
                )
                marks = ("p",) if self.marks and self.chance(0.6) else ()
                return (replace(self._rows(bound, node), marks=marks),)
            case _:  # a scope that may not run
                first, other = self.random.choice(self.bounds), self.random.choice(self.bounds)
                short = self.random.choice(
                    (
                        first - self.random.choice((1, 2, 3, 8)),
                        first // self.random.choice((2, 4, 8)),
                        first - other + 1,
                    )
                )
                inner = here.inside(Span(row, first)) if short != first - other + 1 else here.inside()
                return (self._sum(buffer, number, self._end(extent), (short,), inner),)

    def _rows(self, bound: Affine, node: Node) -> Scope:
        return self._scope((bound,), (node,), 0)

    def _end(self, extent: Affine) -> Affine:
        return self.random.choice((Affine.constant(0), extent - 1))

    def _sum(self, buffer: Buffer, number: int, index: Affine, bounds: tuple[Affine, ...], here: Here) -> Node:
        """A scope, with another one inside at times, that accumulates into one element; `here` is inside of it."""
        more = self.chance(0.3)
        inner, extra = here, self.random.choice(self.bounds)
        if more:
            inner = here.inside(Span(Affine.iterator(here.depth), extra))
        node: Node = self._into(buffer, number, index, inner)
        if more:
            if self.chance(0.3):  # which may be empty as well
                extra = extra - 1
                self.here = here
            node = self._scope((extra,), (node,), here.depth, independent=False)
        return self._scope(bounds, (node,), here.depth - 1, independent=False)

    def _guarded_sum(
        self,
        buffer: Buffer,
        number: int,
        index: Affine,
        conditions: tuple[Condition, ...],
        here: Here,
        outside: bool = False,
    ) -> Node:
        """The same under conditions: inside of the scope, or around it."""
        bound = self.random.choice(self.bounds)
        if outside and not any(here.depth in c.left.iterators for c in conditions):
            inner = here.inside(Span(Affine.iterator(here.depth), bound))
            return Guard(conditions, (self._sum(buffer, number, index, (bound,), inner),))
        inner = here.inside(Span(Affine.iterator(here.depth), bound))
        guard = Guard(conditions, (self._into(buffer, number, index, inner),))
        return self._scope((bound,), (guard,), here.depth, independent=False)

    def _into(self, buffer: Buffer, number: int, index: Affine, here: Here) -> Statement:
        """One accumulation."""
        indices = tuple(index if d == number else self._end(dim.extent) for d, dim in enumerate(buffer.dims))
        target = Access(buffer.name, indices)
        op = self._operator(buffer)
        if op == "+=" and buffer.dtype.is_float:
            self.inexact.add(buffer.name)
        return self._perhaps(here, Statement(target, op, self._expression(here, target)))
