"""Pair reductions of random kernels, `(m[…], at[…]) max= (value, place)`."""

from __future__ import annotations

from dojoir.grammar.sugar.pairs import pair_statements
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Access, Cast, Const, Expr, Guard, Index, Node
from drawing.elements import I32
from drawing.expressions import F32
from drawing.leaves import Here
from drawing.partly import Partial

VALUES = (*[F32] * 4, I32, *(DTYPES[name] for name in ("f16", "bf16", "f8e5m2", "u32", "i8", "u16")))
PLACES = (*[I32] * 3, *(DTYPES[name] for name in ("i64", "u32", "i16")))


class Paired(Partial):
    """Nests with pairs; with `written_out` the kernel that has them is finished."""

    def _pairs(self, number: int) -> list[Node]:
        """All elements of two new buffers, the largest or smallest of some values and where it is."""
        dims = self._dims()
        roles = self.random.choice((("out", "out"), ("out", "out"), ("tmp", "out"), ("out", "tmp")))
        m = self._declare(f"m{number}", roles[0], dims, self.random.choice(VALUES))
        at = self._declare(f"at{number}", roles[1], dims, self.random.choice(PLACES))
        here = Here(closed=frozenset({m.name, at.name}))
        op = self.random.choice(("max=", "min="))

        def halves(indices: tuple[Affine, ...]) -> tuple[Access, Access]:
            return Access(m.name, indices), Access(at.name, indices)

        def begin(inner: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
            value = self._start(m.dtype) if self.chance(0.7) else self._first(inner, m.name, indices)
            place = Const(self.random.choice((0, 0, 5) if at.dtype.kind == "u" else (0, 0, -1, 5)))
            return pair_statements(halves(indices), "=", (value, place), None, None)

        def step(inner: Here, indices: tuple[Affine, ...], row: Affine) -> tuple[Node, ...]:
            return self._pair(inner, halves(indices), op, row)

        if self.chance(0.3) and len(dims) < self.deepest:  # the scope that reduces is around those of the elements
            nodes = list(self._cover(here, dims, begin))
            bounds, spans = self._range(here, Affine.iterator(0))
            row = Affine.iterator(0)
            inner = self._cover(here.inside(*spans), dims, lambda h, i: step(h, i, row))
            nodes.append(self._scope(bounds, inner, 0, independent=False))
        else:

            def body(inner: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
                first = begin(inner, indices)
                if inner.depth >= self.deepest:
                    return (*first, *step(inner, indices, Affine.iterator(inner.depth - 1)))
                row = Affine.iterator(inner.depth)
                bounds, spans = self._range(inner, row)
                nodes = step(inner.inside(*spans), indices, row)
                if self.chance(0.2):
                    nodes += step(inner.inside(*spans), indices, row)
                scope = self._scope(bounds, nodes, inner.depth, independent=False)
                after: tuple[Node, ...] = ()
                if self.chance(0.2):
                    after = step(inner, indices, Affine.constant(self.random.choice((-2, 3))))
                return (*first, scope, *after)

            nodes = list(self._cover(here, dims, body))
        for buffer in (m, at):
            self._finish(buffer)
        return nodes

    def _first(self, here: Here, name: str, indices: tuple[Affine, ...]) -> Expr:
        return self._expression(here, Access(name, indices), exact=True)

    def _pair(self, here: Here, halves: tuple[Access, Access], op: str, row: Affine) -> tuple[Node, ...]:
        """One accumulation of a pair, perhaps under a guard or a condition."""
        dtype = self.buffers[halves[0].buffer].dtype
        conditions = ()
        if self.chance(0.15):
            found = self._guarded(here)
            if found is not None:
                conditions, here = (found[0],), found[1]
        value = self._expression(here, halves[0], exact=True)
        if dtype.is_float:
            value = Cast(F32, value)
        place: Expr = Const(row.offset) if row.is_constant else Index(row * self.random.choice((1, 1, 1, -1)))
        if any(span.bound.divided or span.bound.is_clamped for span in here.spans):
            place = Cast(I32, place)  # it is not seen to be one
        if self.chance(0.15):
            place = Cast(I32, self.value(I32, 1, True))
        condition = self._bool(1) if self.chance(0.2) else None
        made = pair_statements(halves, op, (value, place), condition, None)
        return (Guard(conditions, made),) if conditions else made
