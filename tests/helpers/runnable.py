"""Random kernels that are well-formed by construction, and arguments for them.

A kernel is a row of nests. Each covers the elements of a buffer, so that all of it may be read afterwards, or
accumulates into one that is covered already. What makes an index in bounds is kept beside it: a `Span` says that an
expression runs over [0, bound), and every scope and guard adds those that it gives to what lies below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from random import Random

import numpy as np
import numpy.typing as npt
from expressions import FLOATS, INTEGERS, Expressions

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Condition,
    Const,
    Dim,
    Expr,
    Extent,
    Guard,
    Index,
    Kernel,
    Node,
    Scope,
    Size,
    Statement,
    holds,
)
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.types.rounding import FORMATS

F32, F64, I32, BOOL = DTYPES["f32"], DTYPES["f64"], DTYPES["i32"], DTYPES["bool"]
TYPES = (*[F32] * 9, *[I32] * 3, F64, F64, BOOL, *FLOATS[2:], *INTEGERS)
"""Mostly f32 and i32."""

STACK = 64 * 1024
"""The largest temporary that is put on the stack, in bytes: what the move `place` allows."""

DEEPEST = 6
"""How many scopes are put inside one another."""


@dataclass(frozen=True)
class Span:
    """`index` runs over values in [0, bound)."""

    index: Affine
    bound: Affine


@dataclass(frozen=True)
class Here:
    """What is known at one place of the body: the depth, the spans, and the elements written in this iteration.

    `closed` buffers are being written around here, and only their elements in `own` may be read."""

    depth: int = 0
    spans: tuple[Span, ...] = ()
    own: tuple[Access, ...] = ()
    closed: frozenset[str] = frozenset()

    def inside(self, *spans: Span) -> Here:
        """The body of a scope here whose iterator runs over these spans."""
        return replace(self, depth=self.depth + 1, spans=(*self.spans, *spans))

    def under(self, *spans: Span) -> Here:
        """The body of a guard here that gives these spans."""
        return replace(self, spans=(*self.spans, *spans))


Body = Callable[[Here, tuple[Affine, ...]], tuple[Node, ...]]
"""The nodes that write the elements at some indices."""


def runnable_kernel(random: Random, exact: bool = False, marks: bool = True, small: bool = False) -> Kernel:
    """A well-formed kernel; a `small` one has few buffers and nests.

    Where `exact`, every correct target gives the same bits (NaN for NaN), so it has no
    function whose last bit is free and no float sum whose order is. `marks` allows `p`, `v` and `u`.
    """
    return _Maker(random, exact, marks, small).kernel()


class _Maker(Expressions):
    def __init__(self, random: Random, exact: bool, marks: bool, small: bool) -> None:
        super().__init__(random)
        self.small = small
        self.deepest = 3 if small else DEEPEST
        self.exact = exact
        self.marks = marks
        self.sizes: list[Size] = []
        self.facts: list[Condition] = []
        self.fp = random.choice(("reassoc", "strict") if exact else ("reassoc", "reassoc", "reassoc", "fast"))
        self.fours: list[Affine] = []
        self.buffers: dict[str, Buffer] = {}
        self.inexact: set[str] = set()
        self.operators: dict[str, str] = {}
        self.readable: list[str] = []
        self.here = Here()
        self.labels = 0

    # -- the header --------------------------------------------------------------------------------------
    def kernel(self) -> Kernel:
        random = self.random
        for name in ("N", "M", "K")[: random.choice((1, 2) if self.small else (1, 2, 2, 3))]:
            fixed = (1, 4, 6) if self.small else (1, 4, 6, 16, 17)
            self.sizes.append(Size(name, random.choice((None, None, None, None, *fixed))))
        self.bounds = self._bounds()
        for number in range(random.choice((1, 1, 2) if self.small else (1, 2, 3))):
            self._declare(f"x{number}", "in", self._dims(), readable=True)
        for number in range(random.choice((0, 0, 1))):
            self._declare(f"io{number}", "inout", self._dims(), readable=True)
        if self.chance(0.25):
            self._declare("c", "in", (), random.choice((F32, I32, F64)), readable=True)
        for number in range(random.choice((0, 0, 1))):
            ids = random.choice([t for t in INTEGERS if t.bits > 8])
            self._declare(f"ids{number}", "in", (self.random.choice(self.bounds),), ids, readable=True)
        nests: list[Node] = []
        for number in range(random.choice((1, 1, 2) if self.small else (1, 1, 2, 3, 4))):
            nests += self._nest(number)
        if not any(buffer.role in {"out", "inout"} for buffer in self.buffers.values()):
            nests += self._write("y", "out")
        return Kernel(
            "made",
            tuple(self.sizes),
            tuple(self.buffers.values()),
            tuple(nests),
            tuple(self.facts),
            self.fp,
        )

    def _bounds(self) -> list[Affine]:
        """The extents that dimensions may have: at least 1, by themselves or by a fact."""
        sizes = [Affine.size(s.name) if s.value is None else Affine.constant(s.value) for s in self.sizes]
        bounds = [*sizes, *sizes]
        if self.chance(0.3):
            bounds.append(sizes[0] + self.random.choice((1, 2)))
        if self.chance(0.2):
            bounds.append(sizes[0] * self.random.choice((2, 4)))
        if self.chance(0.2):
            bounds.append((sizes[-1] + 3) // 4)
        if self.chance(0.2):
            bounds.append(Affine.constant(self.random.choice((1, 3, 8, 16))))
        free = [size for size in sizes if not size.is_constant]
        if free and self.chance(0.2):
            self._fact(free[0], ">=", Affine.constant(2))
            bounds.append(free[0] - 1)
        if free and self.chance(0.15):
            self._fact(free[-1] % 4, "==", Affine.constant(0))
            self.fours.append(free[-1])
        if len(free) > 1 and self.chance(0.15):
            self._fact(free[0], "<=", free[1])
        return bounds

    def _fact(self, left: Affine, relation: str, right: Affine) -> None:
        self.facts.append(Condition(left, relation, right))

    def _dims(self) -> tuple[Affine, ...]:
        ranks = (1, 1, 2) if self.small else (1, 1, 2, 2, 2, 3)
        dims = [self.random.choice(self.bounds) for _ in range(self.random.choice(ranks))]
        if len(dims) < 3 and self.chance(0.15):
            dims.insert(self.random.randint(0, len(dims)), Affine.constant(1))
        return tuple(dims)

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
            dtype or self.random.choice(TYPES),
            tuple(Dim(extent, number < collapsed) for number, extent in enumerate(dims)),
        )
        if role == "tmp":
            buffer = self._placed(buffer)
        self.buffers[name] = buffer
        if readable:
            self.readable.append(name)
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

    # -- nests -------------------------------------------------------------------------------------------
    def _nest(self, number: int) -> list[Node]:
        written = [b for b in self.buffers.values() if b.role in {"out", "inout"} and b.dims]
        kind = self.random.random()
        if written and kind < 0.25:
            return self._update(self.random.choice(written))
        if kind < 0.4:
            return self._recurrence(f"r{number}")
        if kind < 0.45:
            return self._lasting(f"k{number}")
        role = self.random.choice(("out", "out", "tmp"))
        return self._write(f"{'y' if role == 'out' else 't'}{number}", role)

    def _write(self, name: str, role: str) -> list[Node]:
        """All elements of a new buffer, or of two of one shape."""
        dims = self._dims()
        buffers = [self._declare(name, role, dims)]
        if self.chance(0.2):
            buffers.append(self._declare(name + "b", role, dims))
        names = frozenset(buffer.name for buffer in buffers)

        def body(here: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
            nodes: list[Node] = []
            for buffer in buffers:
                nodes += self._element(here, Access(buffer.name, indices))
                here = replace(here, own=(*here.own, Access(buffer.name, indices)))
            return tuple(nodes)

        nodes = self._cover(Here(closed=names), dims, body)
        for buffer in buffers:
            self._finish(buffer)
        return list(nodes)

    def _finish(self, buffer: Buffer) -> None:
        """The buffer is wholly written: its elements may be read, unless rounding made them too coarse for that."""
        if not (buffer.name in self.inexact and buffer.dtype.is_float and buffer.dtype.bits < 32):
            self.readable.append(buffer.name)

    def _update(self, buffer: Buffer) -> list[Node]:
        """Elements of a buffer from their own values, in place."""

        def body(here: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
            target = Access(buffer.name, indices)
            here = replace(here, own=(*here.own, target))
            if self.chance(0.3):
                return self._accumulate(here, target)
            return (self._assign(here, target),)

        was_readable = buffer.name in self.readable
        if was_readable:
            self.readable.remove(buffer.name)
        nodes = self._scatter(buffer) if self.chance(0.4) else ()
        if not nodes:
            nodes = self._cover(Here(closed=frozenset({buffer.name})), tuple(d.extent for d in buffer.dims), body)
        if was_readable:
            self._finish(buffer)
        return list(nodes)

    def _scatter(self, buffer: Buffer) -> tuple[Node, ...]:
        """Accumulates at an index from data into some elements of a buffer; nothing where there is no such
        index."""
        tables = [b for b in self.buffers.values() if b.name.startswith("ids")]
        if not tables or not buffer.dims or buffer.dtype == BOOL:
            return ()
        op = self._operator(buffer)
        here = Here(closed=frozenset({buffer.name}))
        bounds, spans = self._range(here, Affine.iterator(0))
        self.here = inner = here.inside(*spans)
        table, chosen = self.random.choice(tables), self.random.randrange(len(buffer.dims))
        index = Access(table.name, tuple(self._index_in(dim.extent, False) for dim in table.dims))
        target = Access(
            buffer.name, tuple(index if d == chosen else Affine.constant(0) for d in range(len(buffer.dims)))
        )
        if op == "+=" and buffer.dtype.is_float:
            self.inexact.add(buffer.name)
        statement = Statement(target, op, self._expression(inner, target))
        return (self._scope(bounds, (statement,), 0, independent=False),)

    def _recurrence(self, name: str) -> list[Node]:
        """Each row of a new buffer from the row before it."""
        dims = self._dims()
        buffer = self._declare(name, self.random.choice(("out", "tmp")), dims, self.random.choice((F32, I32, F64)))
        rows, *rest = dims

        def at(row: Affine, own: bool) -> Body:
            def body(here: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
                if own:
                    here = replace(here, own=(*here.own, Access(name, (row - 1, *indices))))
                # Exact, for an error in one row could grow from row to row.
                return (self._assign(here, Access(name, (row, *indices)), exact=True),)

            return body

        closed = Here(closed=frozenset({name}))
        first = self._cover(closed, tuple(rest), at(Affine.constant(0), False))
        row = Affine.iterator(0)
        inside = closed.inside(Span(row, rows), Span(row + 1, rows))
        step = self._cover(inside, tuple(rest), at(row + 1, True))
        self._finish(buffer)
        return [*first, Scope(Extent((rows - 1,)), step)]

    def _lasting(self, name: str) -> list[Node]:
        """Rows of a new buffer from a scalar that some rows set, and the others find as it was left."""
        rows, *rest = self._dims()
        dtype = self.random.choice((F32, I32, F64))
        buffer = self._declare(name, self.random.choice(("out", "tmp")), (rows, *rest), dtype)
        scalar = self._declare(f"s{len(self.buffers)}", "tmp", (), dtype)
        row, kept = Affine.iterator(0), Access(scalar.name, ())
        closed = Here(closed=frozenset({name, scalar.name}))
        inside = closed.inside(Span(row, rows))
        sets = Condition(row % self.random.choice((2, 3)), "==", Affine.constant(0))
        first = Condition(row, "==", Affine.constant(0))
        chosen = Guard((self.random.choice((sets, first)),), (self._assign(inside, kept, exact=True),))

        def body(here: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
            target = Access(name, (row, *indices))
            if self.chance(0.6):
                return (Statement(target, "=", kept),)
            return (self._assign(replace(here, own=(*here.own, kept)), target),)

        nodes = (chosen, *self._cover(inside, tuple(rest), body))
        self._finish(buffer)
        return [Scope(Extent((rows,)), nodes)]

    # -- covering a box ----------------------------------------------------------------------------------
    def _cover(self, here: Here, dims: tuple[Affine, ...], body: Body) -> tuple[Node, ...]:
        """Scopes in which `body` is given each index tuple of a box exactly once."""
        order = list(range(len(dims)))
        if self.chance(0.3):
            self.random.shuffle(order)
        return self._cover_rest(here, dims, tuple(order), {}, body)

    def _cover_rest(
        self, here: Here, dims: tuple[Affine, ...], order: tuple[int, ...], done: dict[int, Affine], body: Body
    ) -> tuple[Node, ...]:
        if not order:
            return body(here, tuple(done[number] for number in range(len(dims))))
        number, *after = order
        bound = dims[number]
        row = Affine.iterator(here.depth)
        column = Affine.iterator(here.depth + 1)

        def rest(inner: Here, index: Affine, left: tuple[int, ...] = tuple(after)) -> tuple[Node, ...]:
            return self._cover_rest(inner.under(Span(index, bound)), dims, left, {**done, number: index}, body)

        room = here.depth + len(order) < self.deepest
        match self.random.randrange(12) if room else 0:
            case 1:
                index = bound - 1 - row
                return (self._scope((bound,), rest(here.inside(Span(row, bound)), index), here.depth),)
            case 2 | 3:
                size = self.random.choice((2, 4, 8, 16))
                inner = here.inside(Span(row, (bound + size - 1) // size))
                inner = inner.inside(Span(column, Affine.constant(size)))
                last = (Affine.constant(size), bound - size * row)
                scope = self._scope(last, rest(inner, size * row + column), here.depth + 1)
                return (self._scope(((bound + size - 1) // size,), (scope,), here.depth),)
            case 4:
                first = rest(here, Affine.constant(0))
                inner = here.inside(Span(row, bound))
                return (*first, self._scope((bound - 1,), rest(inner, row + 1), here.depth))
            case 5:
                parts = self._parts(row, bound)
                nodes = tuple(Guard((part,), rest(here.inside(Span(row, bound)), row)) for part in parts)
                return (self._scope((bound,), nodes, here.depth),)
            case 6:
                inner = here.inside(Span(row, bound + 3))
                guard = Guard((Condition(row, "<", bound),), rest(inner, row))
                return (self._scope((bound + self.random.choice((1, 3)),), (guard,), here.depth),)
            case 7 if after and dims[after[0]].is_constant and dims[after[0]].offset > 1:
                other, *left = after
                width = dims[other].offset
                done = {**done, other: row % width}
                inner = here.inside(Span(row, bound * width), Span(row % width, dims[other]))
                return (self._scope((bound * width,), rest(inner, row // width, tuple(left)), here.depth),)
            case 8 if bound in self.fours or (bound % 4 == Affine.constant(0) and bound != Affine.constant(4)):
                inner = here.inside(Span(row, bound // 4)).inside(Span(column, Affine.constant(4)))
                scope = self._scope((Affine.constant(4),), rest(inner, 4 * row + column), here.depth + 1)
                return (self._scope((bound // 4,), (scope,), here.depth),)
            case 9 | 10 | 11 if after and dims[after[0]] == Affine.constant(1):
                return (self._cancelling(here, dims, order, done, body),)
            case _:
                return (self._scope((bound,), rest(here.inside(Span(row, bound)), row), here.depth),)

    def _cancelling(
        self, here: Here, dims: tuple[Affine, ...], order: tuple[int, ...], done: dict[int, Affine], body: Body
    ) -> Scope:
        """Two dimensions, the second of one element, in one scope: where its first iteration is, both move, so that
        the strides of lanes may cancel."""
        number, one, *left = order
        bound, row = dims[number], Affine.iterator(here.depth)
        first, others = Condition(row, "<", Affine.constant(1)), Condition(row, ">=", Affine.constant(1))
        index = bound - 1 - row
        inner = here.inside(Span(row, bound), Span(index, bound))
        single = inner.under(*(Span(row * times, Affine.constant(1)) for times in (1, 2, 4, 16)))
        last = self._cover_rest(single, dims, tuple(left), {**done, number: index, one: row}, body)
        rest = self._cover_rest(inner, dims, tuple(left), {**done, number: index, one: Affine.constant(0)}, body)
        return self._scope((bound,), (Guard((first,), last), Guard((others,), rest)), here.depth)

    def _parts(self, row: Affine, bound: Affine) -> tuple[Condition, Condition]:
        """A condition and its opposite."""
        three = Affine.constant(self.random.choice((1, 3)))
        return self.random.choice(
            (
                (Condition(row % 2, "==", Affine.constant(0)), Condition(row % 2, "!=", Affine.constant(0))),
                (Condition(row, "<", three), Condition(row, ">=", three)),
                (Condition(2 * row, "<=", bound), Condition(2 * row, ">", bound)),
            )
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

    # -- one element -------------------------------------------------------------------------------------
    def _element(self, here: Here, target: Access) -> tuple[Node, ...]:
        """Writes a new element."""
        dtype = self.buffers[target.buffer].dtype
        kind = self.random.random()
        if kind < 0.35 or dtype == BOOL or here.depth >= self.deepest:
            return (self._assign(here, target),)
        if kind < 0.7:
            init = Statement(target, "=", self._start(dtype))
            after = replace(here, own=(*here.own, target))
            nodes = (init, *self._accumulate(after, target))
            return (*nodes, self._assign(after, target)) if self.chance(0.3) else nodes
        if kind < 0.85:
            return self._through_scalar(here, target)
        return self._through_row(here, target)

    def _start(self, dtype: DType) -> Expr:
        if dtype.is_float:
            return Const(self.random.choice((0, 0.0, 1.0, float("-inf") if self.exact else 0.25)))
        return Const(self.random.choice((0, 1)))

    def _assign(self, here: Here, target: Access, exact: bool = False) -> Statement:
        while True:
            made = Statement(target, "=", self._expression(here, target, exact))
            if not made.fused or self.operators.setdefault(target.buffer, "+=") == "+=":
                return made

    def _expression(self, here: Here, target: Access, exact: bool = False) -> Expr:
        """A value for an element, which is inexact from then on if the value may be."""
        self.here = here
        dtype = self.buffers[target.buffer].dtype
        if not (self.exact or exact or not dtype.is_float or self.chance(0.3)):
            self.inexact.add(target.buffer)
            return self.value(F32, self._fuel(), False)
        return self.value(F32 if dtype.is_float else dtype, self._fuel(), True)

    def _fuel(self) -> int:
        """How deep an expression is."""
        return self.random.choice((1, 1, 2) if self.small else (1, 2, 2, 3))

    def _accumulate(self, here: Here, target: Access) -> tuple[Node, ...]:
        """Accumulations into an element that has a value: in a scope, or under a guard."""
        dtype = self.buffers[target.buffer].dtype
        if dtype == BOOL:
            return (self._assign(here, target),)
        op = self._operator(self.buffers[target.buffer])
        # While it is accumulated, the element is not for reading: the order of the accumulations is free.
        below = replace(here, own=tuple(own for own in here.own if own != target))

        def statement(inner: Here) -> Statement:
            if op == "+=" and dtype.is_float:
                self.inexact.add(target.buffer)
            return Statement(target, op, self._expression(inner, target))

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
        if buffer.dtype.is_integer:
            free += ["+=", "+=", "*="]
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

    # -- what expressions are made of --------------------------------------------------------------------
    def leaf(self, dtype: DType, exact: bool) -> Expr | None:
        fits = list(self._readable(dtype, exact))
        if fits and self.chance(0.8):
            return self.random.choice(fits)
        if dtype != BOOL and self.here.spans and self.chance(0.7):
            return self._fitting(_index(self.random.choice(self.here.spans).index), dtype)
        if fits:
            return self.random.choice(fits)
        if dtype == BOOL:
            return None
        return self._fitting(_index(self.random.choice(self.bounds)), dtype)

    def _readable(self, dtype: DType, exact: bool) -> Iterator[Access]:
        def goes(name: str) -> bool:
            its = self.buffers[name].dtype
            if name in self.inexact and (exact or its.bits < 32):
                return False
            return its == dtype or (its.is_float and dtype.is_float)

        yield from (own for own in self.here.own if goes(own.buffer))
        names = [name for name in self.readable if goes(name) and name not in self.here.closed]
        for name in self.random.sample(names, min(len(names), 2)):
            yield self._element_of(self.buffers[name])

    def _element_of(self, buffer: Buffer) -> Access:
        return Access(buffer.name, tuple(self._index_in(dim.extent) for dim in buffer.dims))

    def _index_in(self, bound: Affine, gather: bool = True) -> Affine | Access:
        """An index in [0, bound), where the bound is at least 1."""
        if gather and self.chance(0.2):
            tables = [b for b in self.buffers.values() if b.name.startswith("ids")]
            if tables:
                table = self.random.choice(tables)
                return Access(table.name, tuple(self._index_in(dim.extent, False) for dim in table.dims))
        options: list[Affine] = []
        for span in self.here.spans:
            more = bound - span.bound
            if more.is_constant and more.offset >= 0:
                options += [span.index, span.index, span.index + self.random.randint(0, min(more.offset, 3))]
                if not more.offset:
                    options.append(bound - 1 - span.index)
            for times in (2, 4):
                if bound == span.bound * times:
                    options.append(times * span.index + self.random.randrange(times))
                if span.bound == bound * times:
                    options.append(span.index // times)
        if bound.is_constant:
            options += [span.index % bound.offset for span in self.here.spans[-1:]]
        if not options or self.chance(0.08):
            return self.random.choice((Affine.constant(0), bound - 1))
        return self.random.choice(options)

    def tame(self, dtype: DType) -> Expr | None:
        """An element of an input: their numbers are small."""
        names = [
            name for name in self.readable if self.buffers[name].role == "in" and self.buffers[name].dtype.is_float
        ]
        return self._element_of(self.buffers[self.random.choice(names)]) if names else None


def _index(affine: Affine) -> Const | Index:
    return Const(affine.offset) if affine.is_constant else Index(affine)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    if not isinstance(node, Statement):
        for child in node.body:
            yield from _walk(child)


# -- arguments ---------------------------------------------------------------------------------------------
def small_sizes(kernel: Kernel, random: Random) -> dict[str, int]:
    """Runtime sizes that keep the facts of a kernel: small, with at most one beyond a vector or two."""
    for attempt in range(2000):
        most = 8 if attempt < 1500 else 64
        sizes = {name: random.randint(1, most) for name in kernel.runtime_sizes}
        if sizes and random.random() < 0.4:
            sizes[random.choice(kernel.runtime_sizes)] = random.choice((9, 16, 17, 31, 33, 36))
        if all(holds(fact, sizes, ()) for fact in kernel.facts):
            return sizes
    raise AssertionError(f"no small sizes satisfy the facts of {kernel.name}")


def random_arguments(
    kernel: Kernel, sizes: Mapping[str, int], random: Random, special: bool = False
) -> dict[str, npt.NDArray[np.generic]]:
    """An array for each `in` and `inout` of a kernel, in the type that it is stored in (0 dimensions: a scalar).

    Floats are small multiples of 1/8; where `special`, some are infinite, NaN, huge, subnormal or -0.0. Integers
    are mostly small; those that a gather uses as indices are in bounds.
    """
    numbers = np.random.default_rng(random.getrandbits(64))
    limits = _gather_limits(kernel, sizes)
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for buffer in kernel.arguments:
        if buffer.role != "out":
            shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
            arrays[buffer.name] = _random_array(buffer.dtype, shape, limits.get(buffer.name), numbers, special)
    return arrays


def _random_array(
    dtype: DType, shape: tuple[int, ...], limit: int | None, numbers: np.random.Generator, special: bool
) -> npt.NDArray[np.generic]:
    if dtype.is_float:
        values = numbers.integers(-32, 33, shape) / 8
        if special:
            odd = numbers.choice([np.inf, -np.inf, np.nan, -0.0, 1e-40, 3e38, 1e-310, 70000.0, 449.0], shape)
            values = np.where(numbers.random(shape) < 0.15, odd, values)
        stored = from_floats(np.asarray(values), dtype)
        if shape == () and dtype.bits == 4:  # a number, then, and 6 is the largest
            return np.minimum(stored, 6)
        return stored
    if dtype == BOOL:
        return np.asarray(numbers.random(shape) < 0.5)
    if limit is not None:
        return np.asarray(numbers.integers(0, limit, shape)).astype(dtype.stored)
    bits = numbers.integers(-(2**63), 2**63 - 1, shape, endpoint=True)
    values = np.where(numbers.random(shape) < 0.15, bits, numbers.integers(-9, 100, shape))
    return values.astype(dtype.stored)  # wraps


def _gather_limits(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """For each buffer whose elements are used as indices, the smallest dimension that they index."""
    limits: dict[str, int] = {}
    for site in kernel.sites:
        for access in site.statement.accesses:
            for index, dim in zip(access.indices, kernel.buffer(access.buffer).dims, strict=True):
                if isinstance(index, Access):
                    extent = dim.extent.evaluate(sizes)
                    limits[index.buffer] = min(extent, limits.get(index.buffer, extent))
    return limits


def agree(
    kernel: Kernel,
    expected: Mapping[str, npt.NDArray[np.generic]],
    actual: Mapping[str, npt.NDArray[np.generic]],
    exact: bool,
) -> str | None:
    """How two results of a kernel differ beyond what correct targets may, or None.

    Where `exact`, not at all: NaN equals NaN, but 0.0 is not -0.0, except under `fp fast`. Else floats may differ
    by some units in the last place of their type, and by some in the last place of an f32 as large as the largest
    result; under `fp fast` one may be infinite and the other NaN.
    """
    largest = 1.0
    for name in expected:
        dtype = kernel.buffer(name).dtype
        if dtype.is_float:
            finite = np.abs(_numbers(expected[name], dtype))
            largest = max(largest, float(np.max(finite, initial=0.0, where=np.isfinite(finite))))
    for name in expected:
        dtype = kernel.buffer(name).dtype
        a, b = expected[name], actual[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        if dtype.is_float:
            a, b = _numbers(a, dtype), _numbers(b, dtype)
        if exact or not dtype.is_float:
            same = (a == b) | ((a != a) & (b != b))
            if dtype.is_float and kernel.fp != "fast":
                same &= (np.signbit(a) == np.signbit(b)) | (a != a)
        else:
            unit = 2.0 ** -max(FORMATS[dtype.name].precision - 2, 0)
            with np.errstate(all="ignore"):
                same = np.isclose(a, b, rtol=max(unit, 2e-5), atol=2e-5 * largest, equal_nan=True)
            if kernel.fp == "fast":  # what overflows in one order of sums is inf, and NaN in another
                same |= (np.isinf(a) & np.isnan(b)) | (np.isnan(a) & np.isinf(b))
        if not np.all(same):
            where = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
            return f"{name}{list(where)}: {a[where]} and {b[where]}"
    return None


def _numbers(array: npt.NDArray[np.generic], dtype: DType) -> npt.NDArray[np.float64]:
    return to_floats(array, dtype)
