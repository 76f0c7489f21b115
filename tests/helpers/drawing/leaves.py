"""What the expressions of a random kernel are made of: elements of buffers at indices that are in bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Access, Buffer, Condition, Const, Expr, Index, Node, Size
from dojoir.ir.packing import packed_dim
from drawing.expressions import BOOL, Expressions

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


class Leaves(Expressions):
    """A kernel that is being made, and what may be read at a place of it."""

    def __init__(self, random: Random, exact: bool, marks: bool, small: bool) -> None:
        super().__init__(random)
        self.small = small
        self.deepest = 3 if small else DEEPEST
        self.exact = self.signs = exact
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
        self.strided = False
        self.failing = False

    def risk(self) -> Access | None:
        tables = [buffer for buffer in self.buffers.values() if buffer.name.startswith("risk")]
        return self._element_of(self.random.choice(tables)) if tables else None

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
        halves = packed_dim(buffer) if buffer.packed else None  # which half it is must be known
        return Access(
            buffer.name, tuple(self._index_in(dim.extent, d != halves) for d, dim in enumerate(buffer.dims))
        )

    def _index_in(self, bound: Affine, gather: bool = True) -> Affine | Access:
        """An index in [0, bound), where the bound is at least 1."""
        if gather and (self.at_risk or not self.failing) and self.chance(0.2):
            tables = [
                b
                for b in self.buffers.values()
                if b.name.startswith("ids") and (not b.distinct or b.dims[0].extent == bound)
            ]
            if tables:
                table = self.random.choice(tables)
                return Access(table.name, tuple(self._index_in(dim.extent, False) for dim in table.dims))
        if self.here.spans and self.chance(0.06):
            return self._clamped(self.random.choice(self.here.spans).index, bound)
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

    def _clamped(self, index: Affine, bound: Affine) -> Affine:
        """An index brought into [0, bound): the nearest there, or as often mirrored first."""
        index = index * self.random.choice((1, 1, 1, -1, 2)) + self.random.randint(-3, 3)
        if self.chance(0.3):
            index = Affine.largest(index, -index - self.random.choice((0, 1)))
        if self.chance(0.2):
            index = bound - 1 - Affine.largest(bound - 1 - index, index + 1 - bound)
        if self.chance(0.1):
            index = index // 2
        if self.chance(0.5):
            return Affine.smallest(Affine.largest(index, Affine.constant(0)), bound - 1)
        return Affine.largest(Affine.smallest(index, bound - 1), Affine.constant(0))

    def tame(self, dtype: DType) -> Expr | None:
        """An element of an input: their numbers are small."""
        names = [
            name for name in self.readable if self.buffers[name].role == "in" and self.buffers[name].dtype.is_float
        ]
        return self._element_of(self.buffers[self.random.choice(names)]) if names else None


def _index(affine: Affine) -> Const | Index:
    return Const(affine.offset) if affine.is_constant else Index(affine)
