"""Scopes of random kernels whose length is data: rows of as many elements as a table says, in lanes and without, of
extents that are whole vectors and of others."""

from __future__ import annotations

from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, I64
from dojoir.ir.nodes import Access, Buffer, Cast, DataFact, Expr, Index, Node, Op, Statement, make_op
from drawing.elements import I32, assigned_only
from drawing.expressions import BOOL, INTEGERS
from drawing.leaves import Here, Span
from drawing.running import Running

TYPES = tuple(DTYPES[name] for name in ("f32", "f32", "i32", "f64", "u8", "i16"))
WHOLE = (8, 16, 32, 64)
"""Extents that are whole vectors of most targets."""


class Ragged(Running):
    """Nests whose innermost scope ends where data say."""

    def _ragged(self, number: int) -> list[Node]:
        """A total of each row of a new buffer, elements of another, or both, up to the row's length."""
        outer, width = self._dims()[:-1], self._width()
        total = self._declare(f"y{number}", "out", outer, self.random.choice(TYPES)) if self.chance(0.7) else None
        kept = None
        if total is None or self.chance(0.5):
            kept = self._declare(f"z{number}", self.random.choice(("out", "tmp")), (*outer, width))
        closed = Here(closed=frozenset(buffer.name for buffer in (total, kept) if buffer))
        nodes: list[Node] = []
        if kept is not None:
            name = kept.name
            nodes += self._cover(
                closed, (*outer, width), lambda here, i: (self._assign(here, Access(name, i), exact=True),)
            )
        nodes += self._cover(closed, outer, lambda here, i: self._row(here, i, width, total, kept))
        for buffer in (total, kept):
            if buffer is not None:
                self._finish(buffer)
        return nodes

    def _width(self) -> Affine:
        """How many elements a row has room for: often whole vectors, by its number or by a fact."""
        if self.chance(0.4):
            return Affine.constant(self.random.choice(WHOLE))
        free = [Affine.size(size.name) for size in self.sizes if size.value is None]
        if free and self.chance(0.4):
            size = self.random.choice(free)
            if self.chance(0.5):
                self._fact(size % self.random.choice((4, 16)), "==", Affine.constant(0))
            return size * self.random.choice((1, 16))
        return self.random.choice(self.bounds)

    def _row(
        self, here: Here, indices: tuple[Affine, ...], width: Affine, total: Buffer | None, kept: Buffer | None
    ) -> tuple[Node, ...]:
        row = Affine.iterator(here.depth)
        length = self._stated(here, width) if self.chance(0.4) else self._length(here)
        condition = make_op("lt", (Index(row), Cast(I64, length)))
        if self.chance(0.2):
            self.here = here
            condition = make_op("and", (condition, self._bool(1)))
        bounds: tuple[Affine, ...] = (width,)
        if self.chance(0.2):
            bounds = (width, self.random.choice(self.bounds))
        inner = here.inside(*(Span(row, bound) for bound in bounds))
        if self.chance(0.15):
            self.here = inner
            condition = make_op("and", (condition, self._bool(1)))
        nodes: list[Node] = []
        begin: tuple[Node, ...] = ()
        if self.chance(0.3):  # a temporary of each iteration, which need not ask
            scalar = Access(self._declare(f"s{len(self.buffers)}", "tmp", (), self.random.choice(TYPES)).name, ())
            nodes.append(self._assign(replace(inner, closed=inner.closed | {scalar.buffer}), scalar, exact=True))
            inner = replace(inner, own=(*inner.own, scalar))
        if total is not None:
            target = Access(total.name, indices)
            begin = (Statement(target, "=", self._start(total.dtype)),)
            op = self._operator(total)
            if op == "+=" and total.dtype.is_float:
                self.inexact.add(total.name)
            nodes.append(self._when(inner, condition, Statement(target, op, self._plain(inner, target))))
        if kept is not None:
            target = Access(kept.name, (*indices, row))
            reads = inner if assigned_only(kept) else replace(inner, own=(*inner.own, target))
            nodes.append(self._when(reads, condition, Statement(target, "=", self._plain(reads, target))))
        scope = self._scope(bounds, tuple(nodes), here.depth, independent=total is None)
        return (*begin, scope)

    def _when(self, here: Here, condition: Expr, made: Statement) -> Statement:
        if self.failing and self.chance(0.5):
            return self._sheltered(here, made, condition)
        return replace(made, value=Op("when", (condition, made.value)))

    def _plain(self, here: Here, target: Access) -> Expr:
        return self._expression(here, target)

    def _stated(self, here: Here, width: Affine) -> Expr:
        """A length of which the declaration says that it is at most the width."""
        self.here = here
        name, bound = f"len{len(self.buffers)}", self.random.choice(self.bounds)
        dtype = self.random.choice([t for t in INTEGERS if not t.is_nibble])
        if self.chance(0.4):
            at = self._index_in(bound, gather=False)
            assert isinstance(at, Affine)
            table = self._declare(name, "in", (bound + 1,), dtype, readable=True)
            facts = [DataFact("offsets", width)]
            length: Expr = make_op("sub", (Access(name, (at + 1,)), Access(name, (at,))))
        else:
            table = self._declare(name, "in", () if self.chance(0.2) else (bound,), dtype, readable=True)
            facts = [DataFact("lengths", width)]
            length = self._element_of(table)
        if table.dims and bound == width and dtype.bits > 8 and self.chance(0.3):
            facts.append(DataFact("distinct"))
        self.buffers[name] = replace(table, facts=tuple(facts))
        return length

    def _length(self, here: Here) -> Expr:
        """An integer from data that the innermost scope does not change."""
        self.here = here
        tables = [self.buffers[n] for n in self.readable if self.buffers[n].dtype.is_integer]
        tables = [b for b in tables if b.name not in here.closed and b.dtype != BOOL and not b.dtype.is_nibble]
        if tables and self.chance(0.8):
            length: Expr = self._element_of(self.random.choice(tables))
            if self.chance(0.2):
                length = make_op("sub", (length, self._element_of(self.buffers[length.buffer])))
            return length
        return self.value(I32, self._fuel(), True)
