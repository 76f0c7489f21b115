"""How one element of a random kernel gets its value: at once, by accumulation, or by way of temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from math import prod

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, I64, DType
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Condition,
    Const,
    Dim,
    Expr,
    Extent,
    Guard,
    Index,
    Node,
    Op,
    Scope,
    Statement,
    make_op,
)
from dojoir.ir.packing import is_even, packed_dim
from drawing.expressions import BOOL, F32, SCALE
from drawing.leaves import Here, Leaves, Span
from drawing.table import pick

F64, I32 = DTYPES["f64"], DTYPES["i32"]
PACKABLE = tuple(t for t in DTYPES.values() if t.bits == 4)
PACKED = 0.5
"""How often a buffer whose rows have an even length is packed."""

STACK = 64 * 1024
"""The largest temporary that is put on the stack, in bytes: what the move `place` allows."""


def assigned_only(buffer: Buffer) -> bool:
    """Whether nothing accumulates into a buffer."""
    return buffer.packed or buffer.dtype.is_nibble


class Elements(Leaves):
    """Statements that write an element, and the buffers and scopes that they need."""

    def _declare(
        self,
        name: str,
        role: str,
        dims: tuple[Affine, ...],
        dtype: DType | None = None,
        readable: bool = False,
        collapsed: int = 0,
    ) -> Buffer:
        """A new buffer; the first `collapsed` dimensions have no storage."""
        buffer = Buffer(
            role,
            name,
            dtype or DTYPES[pick(self.random, "type", DTYPES)],
            tuple(Dim(extent, number < collapsed) for number, extent in enumerate(dims)),
        )
        if role == "tmp":
            buffer = self._placed(buffer)
        if dtype is None and self.chance(PACKED):
            buffer = self._packed(buffer)
        if role != "in" and buffer.storage == "heap" and self.chance(0.1):
            buffer = replace(buffer, stream=self.random.choice((1, 64, 4096)))
        if role != "tmp" and len(dims) > 1 and self.strided and self.chance(0.15):
            buffer = replace(buffer, strided=True)
        self.buffers[name] = buffer
        if readable:
            self.readable.append(name)
        return buffer

    def _packed(self, buffer: Buffer) -> Buffer:
        """The buffer with two elements in a byte, where its rows are whole bytes."""
        packed = replace(buffer, dtype=self.random.choice(PACKABLE), packed=True)
        if any(not dim.collapsed for dim in packed.dims):
            dim = packed_dim(packed)
            even = is_even(packed.dims[dim].extent, tuple(self.facts))
            if even and not (packed.pad and packed.pad[dim] % 2):
                return packed
        return buffer

    def _placed(self, buffer: Buffer) -> Buffer:
        """A temporary with a place and a layout."""
        rank = len(buffer.dims)
        kept = [dim.extent for dim in buffer.dims if not dim.collapsed]
        storage = "heap"
        elements = prod(extent.offset + 8 for extent in kept)  # with the largest padding
        if all(extent.is_constant for extent in kept) and elements * buffer.dtype.itemsize <= STACK:
            storage = self.random.choice(("heap", "stack", "reg") if not kept else ("heap", "stack"))
        return replace(
            buffer,
            storage=storage,
            order=tuple(self.random.sample(range(rank), rank)) if rank > 1 and self.chance(0.15) else None,
            pad=tuple(self.random.choice((0, 0, 3, 8)) for _ in range(rank)) if rank and self.chance(0.1) else None,
            align=64 if self.chance(0.1) else 0,
        )

    def _scope(
        self, bounds: tuple[Affine, ...], body: tuple[Node, ...], depth: int, independent: bool = True
    ) -> Scope:
        """A scope with marks that fit its body. Its iterations must be independent, or those of a reduction."""
        label = None
        if self.chance(0.15):
            self.labels += 1
            label = f"l{self.labels}"
        return Scope(Extent(bounds), body, self._marks_of(bounds, body, depth, independent), label)

    def _marks_of(
        self, bounds: tuple[Affine, ...], body: tuple[Node, ...], depth: int, independent: bool
    ) -> tuple[str, ...]:
        if not self.marks or self.chance(0.5) or not (independent or self.fp != "strict"):
            return ()
        inner = [node for child in body for node in _walk(child)]
        scopes = [node for node in inner if isinstance(node, Scope)]
        options: list[str] = []
        constants = [bound.offset for bound in bounds if bound.is_constant]
        if constants and 0 < min(constants) <= 8:
            options.append("u")
        if not any("v" in s.marks or "p" in s.marks for s in scopes) and not any(
            depth in bound.iterators for s in scopes for bound in s.extent.bounds
        ):
            options += ["v", "v"]
        if independent and depth < 2:
            options.append("p")
        return (self.random.choice(options),) if options else ()

    def _element(self, here: Here, target: Access) -> tuple[Node, ...]:
        """Writes a new element."""
        dtype = self.buffers[target.buffer].dtype
        kind = self.random.random()
        if kind < 0.35 or assigned_only(self.buffers[target.buffer]) or dtype == BOOL or here.depth >= self.deepest:
            return (self._assign(here, target),)
        if kind < 0.7:
            init = Statement(target, "=", self._start(dtype))
            after = replace(here, own=(*here.own, target))
            nodes = (init, *self._accumulate(after, target))
            return (*nodes, self._perhaps(after, self._assign(after, target))) if self.chance(0.3) else nodes
        if kind < 0.85:
            return self._through_scalar(here, target)
        return self._through_row(here, target)

    def _start(self, dtype: DType) -> Expr:
        if dtype.is_float:
            return Const(self.random.choice((0, 0.0, 1.0, float("-inf") if self.exact else 0.25)))
        start = Const(self.random.choice((0, 1)))
        return Cast(BOOL, start) if dtype == BOOL else start

    def _assign(self, here: Here, target: Access, exact: bool = False) -> Statement:
        """An assignment, which mostly cannot fail: no condition stands before it."""
        at_risk, self.at_risk = self.at_risk, self.at_risk and self.chance(0.1)
        made = self._assigned(here, target, exact)
        self.at_risk = at_risk
        return made

    def _assigned(self, here: Here, target: Access, exact: bool) -> Statement:
        while True:
            made = Statement(target, "=", self._expression(here, target, exact))
            if made.fused and self.buffers[target.buffer].packed:
                continue
            if not made.fused or self.operators.setdefault(target.buffer, "+=") == "+=":
                return made

    def _perhaps(self, here: Here, made: Statement, likely: float = 0.15) -> Statement:
        """The statement, of an element that has a value; at times only where a condition on data holds."""
        if self.failing and not made.fused:
            return self._sheltered(here, made)
        if made.fused or not self.chance(likely):
            return made
        self.here = here
        return replace(made, value=Op("when", (self._bool(self._fuel() - 1), made.value)))

    def _sheltered(self, here: Here, made: Statement, *first: Expr) -> Statement:
        """The statement under `first` and other conditions, of which most keep what is behind them from failing."""
        self.here = here
        found = list(first)
        for asked in [self._bool(self._fuel() - 1)] if self.chance(0.5) else []:
            found += [*self._dangers(parts(asked)), asked]
        found += [*self._dangers((*parts(made.value), made.target))]
        kept = [condition for condition in found if condition in first or self.chance(0.8)]
        if not kept:
            return made
        return replace(made, value=Op("when", (reduce(self._both, kept), made.value)))

    def _both(self, one: Expr, other: Expr) -> Expr:
        if self.chance(0.8):
            return make_op("and", (one, other))
        either = make_op("or", (make_op("not", (one,)), make_op("not", (other,))))
        return make_op("not", (either,))

    def _dangers(self, inside: Iterable[Expr]) -> Iterator[Expr]:
        """The conditions that keep parts of a value from failing."""
        for part in inside:
            match part:
                case Op("floordiv" | "mod", (_, Cast(_, Access()) as divisor)):
                    yield make_op("ne", (divisor, Const(0)))
                case Op("shl" | "shr", (shifted, Access() as count)):
                    dtype = shifted.dtype if isinstance(shifted, Cast) else F32
                    width = self.buffers[shifted.buffer].dtype if isinstance(shifted, Access) else dtype
                    yield make_op("ge", (count, Const(0)))
                    yield make_op("lt", (count, Const(width.compute.bits)))
                case Access(name, indices):
                    for index, dim in zip(indices, self.buffers[name].dims, strict=True):
                        if isinstance(index, Access):
                            end = dim.extent
                            yield make_op("ge", (Cast(I64, index), Const(0)))
                            last = Const(end.offset) if end.is_constant else Index(end)
                            yield make_op("lt", (Cast(I64, index), last))

    def _expression(self, here: Here, target: Access, exact: bool = False) -> Expr:
        """A value for an element, which is inexact from then on if the value may be."""
        self.here = here
        dtype = self.buffers[target.buffer].dtype
        if not (self.exact or exact or not dtype.is_float or self.chance(0.3)):
            self.inexact.add(target.buffer)
            value = self.value(F32, self._fuel(), False)
        else:
            value = self.value(F32 if dtype.is_float else dtype, self._fuel(), True)
        if self.at_risk and self.chance(0.6) and dtype.bits >= 8 and dtype not in (BOOL, SCALE):
            value = make_op("add", (value, self._risky(dtype)))
        return make_op("abs", (value,)) if dtype == SCALE and not self.signs else value

    def _risky(self, dtype: DType) -> Expr:
        """A small number that some data make an error of the run."""
        found, kind = self.risk(), self.random.choice((I32, I64))
        assert found is not None
        one = Cast(kind, self.value(kind, 1, True))
        match self.random.randrange(4):
            case 0:
                return Cast(dtype, make_op("mod", (one, Cast(kind, found))))
            case 1:
                return Cast(dtype, make_op("mod", (make_op("floordiv", (one, Cast(kind, found))), Const(7))))
            case 2:
                return Cast(dtype, make_op("mod", (make_op("shr", (one, found)), Const(7))))
            case _:
                table = self.buffers[found.buffer]
                ids = next(b for b in self.buffers.values() if b.name.startswith("ids"))
                at = Access(ids.name, tuple(self._index_in(dim.extent, False) for dim in ids.dims))
                return Cast(dtype, Access(table.name, tuple(at for _ in table.dims)))

    def _fuel(self) -> int:
        """How deep an expression is."""
        return self.random.choice((1, 1, 2) if self.small else (1, 2, 2, 3))

    def _accumulate(self, here: Here, target: Access) -> tuple[Node, ...]:
        """Accumulations into an element that has a value: in a scope, or under a guard."""
        dtype = self.buffers[target.buffer].dtype
        op = self._operator(self.buffers[target.buffer])
        # While it is accumulated, the element is not for reading: the order of the accumulations is free.
        below = replace(here, own=tuple(own for own in here.own if own != target))

        def statement(inner: Here) -> Statement:
            if op == "+=" and dtype.is_float:
                self.inexact.add(target.buffer)
            return self._perhaps(inner, Statement(target, op, self._expression(inner, target)))

        row = Affine.iterator(here.depth)
        if here.depth >= self.deepest or self.chance(0.1):
            return (statement(below),)
        if self.chance(0.25):
            found = self._guarded(below)
            if found is not None:
                condition, inside = found
                return (Guard((condition,), (statement(inside),)),)
        bounds, spans = self._range(below, row)
        inner = below.inside(*spans)
        if here.depth + 1 < self.deepest and self.chance(0.2):
            bounds2, spans2 = self._range(inner, Affine.iterator(inner.depth))
            scope = self._scope(bounds2, (statement(inner.inside(*spans2)),), inner.depth, independent=False)
            return (self._scope(bounds, (scope,), here.depth, independent=False),)
        return (self._scope(bounds, (statement(inner),), here.depth, independent=False),)

    def _operator(self, buffer: Buffer) -> str:
        """What accumulates into a buffer: one operator for all of it, for of two, the order would count."""
        free = ["max=", "min="]
        if buffer.dtype == BOOL:
            free = ["^=", "&=", "|="]
        elif buffer.dtype.is_integer:
            free += ["+=", "+=", "*=", "^=", "&=", "|="]
        elif buffer.dtype.bits >= 32 and not self.exact:
            free += ["+="] * 4
        return self.operators.setdefault(buffer.name, self.random.choice(free))

    def _range(self, here: Here, row: Affine) -> tuple[tuple[Affine, ...], tuple[Span, ...]]:
        """An extent for a scope that covers nothing, and what its iterator runs over."""
        bound = self.random.choice(self.bounds)
        outer = [span for span in here.spans if len(span.index.terms) == 1 and not span.index.offset]
        match self.random.randrange(10):
            case 0 | 1 if outer:  # a triangle
                span = self.random.choice(outer)
                return self.random.choice(
                    (
                        ((span.index + 1,), (Span(row, span.bound), Span(span.index - row, span.bound))),
                        ((span.index,), (Span(row, span.bound),)),
                        ((span.bound - span.index,), (Span(row, span.bound), Span(span.index + row, span.bound))),
                    )
                )
            case 2:
                other = self.random.choice(self.bounds)
                return (bound, other), (Span(row, bound), Span(row, other))
            case 3:
                short = self.random.choice((1, 3))
                return (bound - short,), (Span(row, bound), Span(row + short, bound))
            case 4:
                return (bound // 2,), (Span(row, bound), Span(2 * row, bound), Span(2 * row + 1, bound))
            case _:
                return (bound,), (Span(row, bound),)

    def _guarded(self, here: Here) -> tuple[Condition, Here] | None:
        """A guard that gives an index which would else be out of bounds."""
        spans = [span for span in here.spans if span.index.terms]
        if not spans:
            return None
        span = self.random.choice(spans)
        step = self.random.choice((1, 2))
        if self.chance(0.5):
            condition = Condition(span.index + step, "<", span.bound)
            return condition, here.under(Span(span.index + step, span.bound))
        condition = Condition(span.index, ">=", Affine.constant(step))
        return condition, here.under(Span(span.index - step, span.bound))

    def _through_scalar(self, here: Here, target: Access) -> tuple[Node, ...]:
        """By way of a temporary that each iteration has for itself: a scalar, or an array with no storage."""
        dtype = self.buffers[target.buffer].dtype
        name = f"s{len(self.buffers)}"
        spans = [span for span in here.spans if span.index in target.indices][: len(target.indices)]
        bounds = {span.index: span.bound for span in spans}
        if self.chance(0.5) and all(isinstance(i, Affine) and i in bounds for i in target.indices):
            dims = tuple(bounds[i] for i in target.indices if isinstance(i, Affine))
            self._declare(name, "tmp", dims, dtype, collapsed=len(dims))
            scalar = Access(name, target.indices)
        else:
            self._declare(name, "tmp", (), dtype)
            scalar = Access(name, ())
        inside = replace(here, own=(*here.own, scalar), closed=here.closed | {name})
        nodes = [Statement(scalar, "=", self._start(dtype)), *self._accumulate(inside, scalar)]
        if name in self.inexact and dtype.is_float and dtype.bits < 32:
            inside = here
        return (*nodes, self._assign(inside, target))

    def _through_row(self, here: Here, target: Access) -> tuple[Node, ...]:
        """By way of a row of temporaries that each iteration has for itself."""
        dtype = self.random.choice((F32, F32, F64, I32))
        name = f"e{len(self.buffers)}"
        bound = self.random.choice(self.bounds)
        spans = {span.index: span.bound for span in here.spans}
        outer = [i for i in target.indices if isinstance(i, Affine) and i in spans]
        self._declare(name, "tmp", (*[spans[i] for i in outer], bound), dtype, collapsed=len(outer))
        row = Affine.iterator(here.depth)
        element = Access(name, (*outer, row))
        closed = replace(here, closed=here.closed | {name})
        inner = closed.inside(Span(row, bound))
        fill = self._scope((bound,), (self._assign(inner, element),), here.depth)
        its = self.buffers[target.buffer].dtype
        init = Statement(target, "=", self._start(its))
        ends = (Access(name, (*outer, Affine.constant(0))), Access(name, (*outer, bound - 1)))
        reads = replace(closed, own=(*here.own, *ends))
        summed = its.is_float and its.bits >= 32 and not self.exact and dtype.is_float
        if summed and self.operators.setdefault(target.buffer, "+=") == "+=":
            self.inexact.add(target.buffer)
            total = Statement(target, "+=", element)
            return (fill, init, self._scope((bound,), (total,), here.depth, independent=False))
        return (fill, self._assign(reads, target))


def _walk(node: Node) -> Iterator[Node]:
    yield node
    if not isinstance(node, Statement):
        for child in node.body:
            yield from _walk(child)
