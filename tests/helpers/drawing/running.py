"""Running values in random kernels: sums, products, maxima, minima and linear recurrences along a row, after each
step or before it, forwards and backwards, of all elements or of those where a condition holds."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import Access, Const, Expr, Extent, Node, Op, Scope, Statement
from drawing.elements import Elements
from drawing.leaves import Here, Span

TYPES = tuple(DTYPES[name] for name in ("f32", "i32", "f64", "u8"))


class Running(Elements):
    """Nests along whose innermost scope a value goes on."""

    def _running(self, name: str) -> list[Node]:
        """Rows of a new buffer from a value that goes on along each."""
        *outer, last = self._dims()
        dtype = self.random.choice(TYPES)
        buffer = self._declare(name, self.random.choice(("out", "tmp")), (*outer, last), dtype)
        kinds = ["max=", "min=", *(["+=", "*=", "linear"] if dtype.is_integer or not self.exact else [])]
        kind, before, backwards = self.random.choice(kinds), self.chance(0.4), self.chance(0.4)
        if dtype.is_float and kind not in {"max=", "min="}:
            self.inexact.add(name)
        closed = Here(closed=frozenset({name}))

        def body(here: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
            kept = Access(self._declare(f"s{len(self.buffers)}", "tmp", (), dtype).name, ())
            row = Affine.iterator(here.depth)
            inside = here.inside(Span(row, last))
            place = last - 1 - row if backwards else row
            step = self._step(inside, kept, kind, dtype)
            result = Statement(Access(name, (*indices, place)), "=", kept)
            nodes = (result, step) if before else (step, result)
            begin = Statement(kept, "=", Const(1 if kind == "*=" else 0))
            return (begin, Scope(Extent((last,)), nodes))

        nodes = self._cover(closed, tuple(outer), body) if outer else body(closed, ())
        self._finish(buffer)
        return list(nodes)

    def _step(self, here: Here, kept: Access, kind: str, dtype: DType) -> Statement:
        """How the value goes on. A float is multiplied by powers of two alone, so that products stay in range."""
        self.here = here
        factor: Expr = Const(
            self.random.choice((0.5, -0.5, 0.25)) if dtype.is_float else self.random.choice((2, 3))
        )
        if kind == "*=" and dtype.is_float:
            chosen = self._bool(self._fuel() - 1)
            return Statement(kept, "*=", Op("select", (chosen, Const(0.5), Const(2.0))))
        value = self.value(dtype if dtype.bits >= 32 or not dtype.is_float else DTYPES["f32"], self._fuel(), True)
        if kind == "linear":
            product = Op("mul", (factor, kept) if self.chance(0.7) else (kept, factor))
            terms = (product, value) if self.chance(0.6) else (value, product)
            return Statement(kept, "=", Op("add", terms))
        if self.chance(0.25):
            combined = {"+=": "add", "*=": "mul", "max=": "max", "min=": "min"}[kind]
            return Statement(kept, "=", Op(combined, (kept, value) if self.chance(0.5) else (value, kept)))
        return self._perhaps(here, Statement(kept, kind, value), 0.3)
