"""Random kernels that are well-formed by construction.

A kernel is a row of nests. Each covers the elements of a buffer, so that all of it may be read afterwards, or
accumulates into one that is covered already. What makes an index in bounds is kept beside it: a `Span` says that an
expression runs over [0, bound), and every scope and guard adds those that it gives to what lies below.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from dojoir.grammar.sugar.keys_of_pairs import written_out
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Access, Buffer, Condition, DataFact, Extent, Guard, Kernel, Node, Scope, Size, Statement
from dojoir.ir.packing import has_packed
from dojoir.proof.core.independence import find_conflict
from dojoir.sets.data_writes import without_data_writes
from drawing.elements import assigned_only
from drawing.expressions import INTEGERS
from drawing.last_kept import last_kept
from drawing.leaves import Body, Here, Span
from drawing.paired import Paired
from drawing.ragged import Ragged
from drawing.single import CPU_MARKS, run_once

F32, I32, F64 = DTYPES["f32"], DTYPES["i32"], DTYPES["f64"]


def runnable_kernel(
    random: Random,
    exact: bool = False,
    marks: bool = True,
    small: bool = False,
    converts: bool = False,
    strided: bool = False,
    failing: bool = False,
) -> Kernel:
    """A well-formed kernel; a `small` one has few buffers and nests.

    Where `exact`, every correct target gives the same bits (NaN for NaN), so it has no
    function whose last bit is free and no float sum whose order is. `marks` allows `p`, `v` and `u`. Most
    operations of one that `converts` are conversions. Some arguments of a `strided` one are that: GPUs take none.
    A `failing` one has parts that are errors of the run for some data, most of them behind lengths and conditions:
    divisors and shifts by elements of `risk0`, indices from tables (`failing_calls` draws the data).
    """
    maker = _Maker(random, exact, marks, small)
    maker.converts, maker.strided = converts, strided
    maker.failing = maker.at_risk = failing
    return maker.kernel()


def independent(kernel: Kernel) -> Kernel:
    """The kernel without the marks under which iterations would share an element, or a byte of a packed buffer."""
    found = kernel
    for path, node in kernel.walk():
        if isinstance(node, Scope):
            marks = tuple(
                m for m in node.marks if m == "u" or not find_conflict(without_data_writes(kernel), path, m)
            )
            now = found.at(path)
            assert isinstance(now, Scope)
            found = found.replace_node(path, replace(now, marks=marks)) if marks != node.marks else found
    return found


class _Maker(Paired, Ragged):
    """The header of a kernel, and its nests."""

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
        if self.failing:
            kind = DTYPES[random.choice(("i32", "i32", "i64", "i16", "u8"))]
            self._declare("risk0", "in", (random.choice(self.bounds),), kind, readable=True)
        for number in range(random.choice((0, 0, 1)) or int(self.failing)):
            ids = random.choice([t for t in INTEGERS if t.bits > 8])
            table = self._declare(f"ids{number}", "in", (self.random.choice(self.bounds),), ids, readable=True)
            facts = (DataFact("distinct"),) if self.chance(0.4) else ()
            self.buffers[table.name] = replace(table, facts=facts)
        nests: list[Node] = []
        for number in range(random.choice((1, 1, 2) if self.small else (1, 1, 2, 3, 4))):
            nests += self._nest(number)
        if not any(buffer.role in {"out", "inout"} for buffer in self.buffers.values()):
            nests += self._write("y", "out")
        written = [b for b in self.buffers.values() if b.role in {"out", "inout"} and not assigned_only(b)]
        if written and self.chance(0.5):
            nests += self._scatter(self.random.choice(written))
        buffers = tuple(self.buffers.values())
        made = written_out(Kernel("made", tuple(self.sizes), buffers, tuple(nests), tuple(self.facts), self.fp))
        if has_packed(made) or any(b.distinct for b in made.buffers):
            made = independent(made)
        if any(site.statement.scatters and site.statement.op == "=" for site in made.sites) and self.chance(0.6):
            made = independent(last_kept(made, random, "p" if self.marks else None))
        return run_once(made, random, CPU_MARKS) if self.marks and self.chance(0.15) else made

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

    # -- nests -------------------------------------------------------------------------------------------
    def _nest(self, number: int) -> list[Node]:
        written = [b for b in self.buffers.values() if b.role in {"out", "inout"} and b.dims]
        kind = self.random.random()
        if written and kind < 0.3:
            return self._update(self.random.choice(written))
        if kind < 0.4:
            return self._recurrence(f"r{number}")
        if kind < 0.45:
            return self._lasting(f"k{number}")
        if kind < 0.53:
            return self._pairs(number)
        if kind < 0.6:
            return self._running(f"v{number}")
        if kind < (0.85 if self.failing else 0.67):
            return self._ragged(number)
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
            if self.chance(0.3) and not assigned_only(buffer):
                return self._accumulate(here, target)
            return (self._perhaps(here, self._assign(here, target), 0.3),)

        was_readable = buffer.name in self.readable
        if was_readable:
            self.readable.remove(buffer.name)
        nodes = self._scatter(buffer) if self.chance(0.4) and not assigned_only(buffer) else ()
        if not nodes and not assigned_only(buffer) and self.chance(0.5):
            nodes = self._partly(buffer)
        if not nodes:
            nodes = self._cover(Here(closed=frozenset({buffer.name})), tuple(d.extent for d in buffer.dims), body)
        if was_readable:
            self._finish(buffer)
        return list(nodes)

    def _scatter(self, buffer: Buffer) -> tuple[Node, ...]:
        """Assigns or accumulates at an index from data into some elements of a buffer; nothing where there is no
        such index."""
        tables = [b for b in self.buffers.values() if b.name.startswith("ids")]
        if not tables or not buffer.dims:
            return ()
        table = self.random.choice(tables)
        if table.distinct and all(dim.extent != table.dims[0].extent for dim in buffer.dims):
            return ()  # there might be more indices than places
        op = "=" if self.chance(0.7 if table.distinct else 0.3) else self._operator(buffer)
        here = Here(closed=frozenset({buffer.name}))
        bounds, spans = self._range(here, Affine.iterator(0))
        if table.distinct and self.chance(0.7):
            extent = table.dims[0].extent
            bounds, spans = (extent,), (Span(Affine.iterator(0), extent),)
        self.here = inner = here.inside(*spans)
        fits = [d for d, dim in enumerate(buffer.dims) if not table.distinct or dim.extent == table.dims[0].extent]
        chosen = self.random.choice(fits)
        index = Access(table.name, tuple(self._index_in(dim.extent, False) for dim in table.dims))
        if table.distinct and bounds == (table.dims[0].extent,) and self.chance(0.8):
            index = Access(table.name, (Affine.iterator(0),))
        target = Access(
            buffer.name, tuple(index if d == chosen else Affine.constant(0) for d in range(len(buffer.dims)))
        )
        if op == "+=" and buffer.dtype.is_float:
            self.inexact.add(buffer.name)
        statement = self._perhaps(inner, Statement(target, op, self._expression(inner, target)), 0.3)
        if table.distinct:
            return (self._scope(bounds, (statement,), 0),)  # without marks in the end, if iterations meet
        if op == "=":  # the last one stays
            return (Scope(Extent(bounds), (statement,)),)
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
        """Rows of a new buffer from a scalar, or from a few elements, that some rows set, and the others find as
        they were left; perhaps of each of several planes, which know nothing of each other."""
        dims = self._dims()
        apart = min(len(dims) - 1, self.random.choice((0, 0, 1)))
        planes, rows, rest = dims[:apart], dims[apart], dims[apart + 1 :]
        dtype = self.random.choice((F32, I32, F64))
        buffer = self._declare(name, self.random.choice(("out", "tmp")), dims, dtype)
        few = self.random.choice((0, 0, 1, 2, 4, 8))
        kept_dims = (Affine.constant(few),) if few else ()
        place = self._declare(f"s{len(self.buffers)}", "tmp", kept_dims, dtype).name
        row = Affine.iterator(apart)
        sets = Condition(row % self.random.choice((2, 3)), "==", Affine.constant(0))
        chosen = self.random.choice((sets, Condition(row, "==", Affine.constant(0))))
        within = self.chance(0.5)
        kept = Access(place, tuple(row % dim.offset for dim in kept_dims))

        def setting(here: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
            made = self._assign(here, Access(place, indices), exact=True)
            return (Guard((chosen,), (made,)),) if within else (made,)

        def along(here: Here, plane: tuple[Affine, ...]) -> tuple[Node, ...]:
            def body(here: Here, indices: tuple[Affine, ...]) -> tuple[Node, ...]:
                target = Access(name, (*plane, row, *indices))
                if self.chance(0.6):
                    return (Statement(target, "=", kept),)
                return (self._assign(replace(here, own=(*here.own, kept)), target),)

            inside = here.inside(Span(row, rows))
            begin = self._cover(inside, kept_dims, setting)
            begin = begin if within else (Guard((chosen,), begin),)
            return (Scope(Extent((rows,)), (*begin, *self._cover(inside, rest, body))),)

        here = Here(closed=frozenset({name, place}))
        if planes:
            plane = Affine.iterator(0)
            nodes = along(here.inside(Span(plane, planes[0])), (plane,))
            made = self._scope(planes, nodes, 0)
        else:
            (made,) = along(here, ())
        self._finish(buffer)
        return [made]

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
