"""Rules of algebra put into random kernels: their left side below outer scopes, with random extents, expressions
for what it reads and places for what it writes."""

from __future__ import annotations

from random import Random

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import F64, DType
from dojoir.ir.nodes import Access, Buffer, Const, Dim, Expr, Extent, Index, Kernel, Node, Op, Scope, Statement
from dojoir.rules.rule import Rule, RuleMatch

ROOM = 8
"""The extent of every dimension. Indices stay below it, whatever the scopes."""


def embedded(rule: Rule, random: Random, dtype: DType = F64) -> tuple[Kernel, tuple[int, ...]]:
    """A kernel under `fp fast` in one type with the left side of a rule in it, and the place where that begins."""
    return _Maker(rule, random, dtype).kernel()


class _Maker:
    def __init__(self, rule: Rule, random: Random, dtype: DType) -> None:
        self.rule, self.random, self.dtype = rule, random, dtype
        self.depth = random.randint(0, 2)
        self.buffers: list[Buffer] = []

    def kernel(self) -> tuple[Kernel, tuple[int, ...]]:
        rule = self.rule
        rooms = {str(dim.extent) for name in rule.fresh for dim in rule.right.buffer(name).dims}
        sizes = tuple(
            (size.name, self._extent(rule.reach[size.name], size.name in rooms)) for size in rule.left.sizes
        )
        inputs = tuple((name, self._expr(len(rule.left.buffer(name).dims))) for name in rule.inputs)
        names = (*rule.results, *rule.scratch)
        elements = tuple((name, self._element(name, len(rule.left.buffer(name).dims))) for name in names)
        match = RuleMatch(self.depth, *(tuple(sorted(part)) for part in (sizes, inputs, elements)))
        before = self.random.randint(0, 1)
        nodes: tuple[Node, ...] = (
            *self._another("before")[:before],
            *match.nodes(rule.left),
            *self._another("after"),
        )
        path: tuple[int, ...] = (before,)
        for _ in range(self.depth):
            extent = Extent((Affine.constant(self.random.randint(1, 3)),))
            nodes, path = (Scope(extent, nodes),), (0, *path)
        return Kernel("embedded", (), tuple(self.buffers), nodes, fp="fast"), path

    def _extent(self, reach: int, is_room: bool) -> Extent:
        """An extent of at most 4, which may depend on the iterators around it, where no temporary has room for as
        many elements."""
        constant = Affine.constant(self.random.randint(1, 4))
        around = [] if is_room else [Affine.iterator(d) for d in range(self.depth + reach)]
        if not around or self.random.random() < 0.4:
            return Extent((constant,))
        one = self.random.choice(around)
        bounds = (one + 1, constant) if self.random.random() < 0.5 else (one * -1 + 4,)
        return Extent(bounds if reach else bounds[:1])

    def _index(self, iterator: Affine) -> Affine:
        """An index that tells the values of an iterator apart, which are below 4."""
        return self.random.choice((iterator, iterator + 1, iterator * 2, iterator * -1 + (ROOM - 1)))

    def _buffer(self, name: str, role: str, rank: int) -> None:
        dims = tuple(Dim(Affine.constant(ROOM)) for _ in range(rank))
        self.buffers.append(Buffer(role, name, self.dtype, dims))

    def _element(self, name: str, dims: int) -> Access:
        """The elements for an array of a rule: each in a dimension of its own, in any order, and the outer ones."""
        own = [self._index(Affine.iterator(self.depth + p)) for p in range(dims)]
        outer = [self._index(Affine.iterator(d)) for d in range(self.depth) if self.random.random() < 0.7]
        indices = [*own, *outer]
        self.random.shuffle(indices)
        self._buffer(f"{name}0", "tmp" if name in self.rule.scratch else "inout", len(indices))
        return Access(f"{name}0", tuple(indices))

    def _expr(self, dims: int) -> Expr:
        """An expression in which the outer iterators and the first `dims` of the rule may occur."""
        iterators = [Affine.iterator(d) for d in range(self.depth + dims)]
        name = f"in{len(self.buffers)}"
        used = [i for i in iterators if self.random.random() < 0.8]
        self._buffer(name, "in", len(used))
        read = Access(name, tuple(map(self._index, used)))
        match self.random.randrange(5):
            case 0 if iterators:
                return Op("add", (read, Index(self.random.choice(iterators))))
            case 1:
                return Op("mul", (read, Op("abs", (read,))))
            case 2:
                return Op("select", (Op("gt", (read, self._number(0.75))), read, self._number(1.5)))
            case 3:
                return self._number(1.25)
        return read

    def _number(self, value: float) -> Const:
        """A number near a value; of an integer type any, the ends of its range before others."""
        if self.dtype.is_float:
            return Const(value)
        least = -(2 ** (self.dtype.bits - 1)) if self.dtype.kind == "i" else 0
        return Const(self.random.choice((least, least + 2**self.dtype.bits - 1, 1, 2, 3)))

    def _another(self, name: str) -> tuple[Node, ...]:
        """A scope that has nothing to do with the rule."""
        self._buffer(name, "inout", 1)
        extent = Extent((Affine.constant(3),))
        element = Access(name, (Affine.iterator(self.depth),))
        return (Scope(extent, (Statement(element, "=", Op("mul", (element, self._number(0.5)))),)),)
