"""Kernels drawn freely: any scopes, guards and statements, of which a setting keeps those that pass.

A `Setting` says how often each form of an extent, a condition, an index and a value is drawn, what is declared, and
which kernels are kept. All forms are here; a form that a setting does not name is not drawn by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from dojoir.errors import DojoError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import (
    RELATIONS,
    Access,
    Buffer,
    Condition,
    Const,
    Dim,
    Expr,
    Extent,
    Guard,
    Kernel,
    Node,
    Op,
    Scope,
    Size,
    Statement,
    index_value,
    make_op,
)
from dojoir.proof.wellformed import prove
from dojoir.sets.ranges import is_nonnegative
from drawing.expressions import Expressions, accumulations
from drawing.table import pick

ROLES = ("in", "inout", "out", "tmp")
Weights = Mapping[str, float]
Scopes = tuple[Scope, ...]


@dataclass(frozen=True)
class Setting:
    """How often each form is drawn. A tuple is drawn from evenly."""

    name: str
    declares: Callable[[Free], list[Node]]
    """Gives a kernel its sizes and buffers; what its body begins with."""
    nests: tuple[int, ...]
    depths: tuple[int, ...]
    children: tuple[int, ...]
    nodes: Weights
    extents: Weights
    indices: Weights
    values: Weights
    conditions: Weights = field(default_factory=dict)
    relations: tuple[str, ...] = RELATIONS
    operators: tuple[str, ...] = ()
    """Beside `=`, of those that a type has; all where there are none."""
    assigns: float = 0.67
    mixes: float = 0.0
    """How often a buffer of a kernel is accumulated into by several operators."""
    reads: tuple[tuple[str, ...], ...] = (ROLES,)
    """The roles of the buffers that the value of a statement reads."""
    operations: tuple[str, ...] = ("add",)
    fuels: tuple[int, ...] = (0,)
    risks: tuple[str, ...] = ()
    """What numbers are divided and shifted by, for which a run may end in an error."""
    asks: float = 0.0
    """How often a statement has a condition on data."""
    marks: tuple[str, ...] = ()
    marked: tuple[int, ...] = (0,)
    """How many marks a scope has."""
    labels: float = 0.0
    tables: tuple[str, ...] = ()
    """Whose elements are indices; of all integers where there are none."""
    bounded: bool = True
    """Whether an index is seen to be in bounds, by itself or by a guard that is added."""
    guards: float = 0.0
    wild: tuple[float, ...] = (1.0,)
    """How often an index is another one than the iterator of a scope with the extent of the dimension."""
    again: float = 0.0
    """How often an access is one that was assigned before."""
    fp: tuple[str, ...] = ("reassoc",)
    proved: bool = True
    ends: Callable[[Free], list[Node]] | None = None
    """What its body ends with."""


class Free(Expressions):
    """A kernel that is being drawn."""

    def __init__(self, random: Random, setting: Setting) -> None:
        super().__init__(random)
        self.setting, self.name = setting, setting.name
        self.wild = "any" in setting.values
        self.sizes: list[Size] = []
        self.facts: list[Condition] = []
        self.bounds: list[Affine] = []
        self.buffers: dict[str, Buffer] = {}
        self.tables: Mapping[str, Buffer] = self.buffers
        self.operators: dict[str, str] = {}
        self.assigned: list[tuple[Access, int]] = []
        self.scopes: Scopes = ()
        self.nested = 0
        """How many indices from data are around."""
        self.guards: list[Condition] | None = None
        """What an index of the statement at hand needs to be in bounds; None where there is no room for it."""
        self.mixes, self.how_wild = self.chance(setting.mixes), random.choice(setting.wild)
        self.fp = random.choice(setting.fp)

    def form(self, weights: Weights) -> str:
        (found,) = self.random.choices([*weights], [*weights.values()])
        return found

    def kernel(self) -> Kernel:
        """One kernel, that need not pass."""
        body = self.setting.declares(self)
        body += self.nests() if any(buffer.role != "in" for buffer in self.buffers.values()) else []
        body += [] if self.setting.ends is None else self.setting.ends(self)
        facts = tuple(fact for fact in self.facts if not (fact.left.is_constant and fact.right.is_constant))
        return Kernel(self.name, tuple(self.sizes), tuple(self.buffers.values()), tuple(body), facts, self.fp)

    # -- the header --------------------------------------------------------------------------------------
    def size(self, name: str, values: tuple[int | None, ...] = (None,)) -> Affine:
        self.sizes.append(Size(name, self.random.choice(values)))
        value = self.sizes[-1].value
        return Affine.size(name) if value is None else Affine.constant(value)

    def declare(
        self,
        role: str,
        name: str,
        dtype: str,
        dims: tuple[Affine, ...],
        collapses: float = 0.0,
        storage: str = "heap",
    ) -> Buffer:
        made = tuple(Dim(extent, role == "tmp" and self.chance(collapses)) for extent in dims)
        self.buffers[name] = Buffer(role, name, DTYPES[dtype], made, storage)
        return self.buffers[name]

    def filled(self, buffer: Buffer, value: Expr | None = None) -> Node:
        """A nest that assigns all of a buffer."""
        rows = [Affine.iterator(d) for d in range(len(buffer.dims))]
        scopes = tuple(Scope(Extent((dim.extent,)), ()) for dim in buffer.dims)
        index = tuple(
            dim.extent - 1 - row if self.chance(0.2) and value is None else row
            for row, dim in zip(rows, buffer.dims, strict=True)
        )
        mine = self.plain(buffer.dtype, scopes, 1, ("in", "inout")) if value is None else value
        node: Node = Statement(Access(buffer.name, index), "=", mine)
        for scope in reversed(scopes):
            node = Scope(scope.extent, (node,))
        return node

    # -- the body ----------------------------------------------------------------------------------------
    def nests(self) -> list[Node]:
        """What stands between the begin and the end."""
        count, depths = self.random.choice(self.setting.nests), self.setting.depths
        return [node for _ in range(count) for node in self.nest((), self.random.choice(depths))]

    def nest(self, scopes: Scopes, depth: int) -> list[Node]:
        """A scope or a guard with nodes in it, or a statement."""
        kind = self.form(self.setting.nodes) if depth else "statement"
        if kind == "statement" or (kind == "guard" and not self.setting.conditions):
            return [self.statement(scopes)]
        if kind == "guard":
            conditions = tuple(self.condition(scopes) for _ in range(self.random.choice((1, 1, 1, 2))))
            return [Guard(conditions, self._body(scopes, depth))]
        marks = tuple(self.random.sample(self.setting.marks, self.random.choice(self.setting.marked)))
        taken = {scope.label for scope in scopes}
        free = [name for name in ("i", "j", "e5", "lane", "N0", "_") if name not in taken]
        label = self.random.choice(free) if self.chance(self.setting.labels) else None
        scope = Scope(self.extent(scopes), (), marks, label)
        return [replace(scope, body=self._body((*scopes, scope), depth - 1))]

    def _body(self, scopes: Scopes, depth: int) -> tuple[Node, ...]:
        return tuple(n for _ in range(self.random.choice(self.setting.children)) for n in self.nest(scopes, depth))

    def extent(self, scopes: Scopes) -> Extent:
        choice, depth = self.random.choice, len(scopes)
        bound = choice(self.bounds or (Affine.constant(3),))
        row = Affine.iterator(self.random.randrange(depth)) if depth else bound
        match self.form(self.setting.extents):
            case "row":
                return Extent((row,))
            case "row + 1":
                return Extent((row + 1,))
            case "what is left":
                return Extent((bound - row,) if depth else (bound - 1,))
            case "less":
                return Extent((bound - choice((1, 1, 2, 3)),))
            case "two":
                return Extent((bound, choice(self.bounds)))
            case "half":
                return Extent(((bound + choice((0, 0, 1))) // 2,))
            case "tile":
                return Extent((Affine.constant(2), bound - 2 * row) if depth else (bound // 2,))
            case "one or none":
                return Extent((Affine.constant(1) - row if depth else Affine.constant(choice((0, 1))),))
            case "few":
                return Extent((Affine.constant(choice((1, 1, 2, 3, 4, 4, 5))),))
            case "at most":
                return Extent((Affine.constant(choice((1, 4, 4, 8))), bound))
            case "any":
                return Extent(tuple(self.affine(2, depth) for _ in range(choice((1, 1, 1, 2, 3)))))
        return Extent((bound,))

    def condition(self, scopes: Scopes) -> Condition:
        choice, depth, relation = self.random.choice, len(scopes), self.random.choice(self.setting.relations)
        size = choice(self.bounds or (Affine.constant(3),))
        row, other = (Affine.iterator(self.random.randrange(depth)) if depth else size for _ in range(2))
        match self.form(self.setting.conditions):
            case "even":
                return Condition(row % 2, choice(("==", "!=")), Affine.constant(0))
            case "rows" if row != other:
                return Condition(row, relation, other)
            case "double":
                return Condition(row * 2, relation, size)
            case "end":
                return Condition(row, relation, size - 1)
            case "sizes":
                return Condition(size, relation, choice((*self.bounds, Affine.constant(choice((1, 2))))))
            case "any":
                return Condition(self.affine(2, depth), relation, self.affine(1, depth))
        return Condition(row, relation, Affine.constant(self.random.randrange(3)))

    def statement(self, scopes: Scopes) -> Node:
        buffer = self.random.choice([buffer for buffer in self.buffers.values() if buffer.role != "in"])
        self.guards = []
        target = self.access(buffer, scopes)
        op = self.operator(buffer)
        made = Statement(target, op, self.valued(buffer, scopes))
        guards, self.guards = tuple(self.guards), None
        if self.chance(self.setting.asks) and not made.fused:
            numbers = [b for b in self.buffers.values() if b.dtype.kind != "b"]
            asked = self.access(self.random.choice(numbers), scopes)
            relation = self.random.choice(("lt", "le", "gt", "ge", "eq", "ne"))
            asks = make_op(relation, (asked, Const(self.random.randint(0, 2))))
            made = replace(made, value=Op("when", (asks, made.value)))
        if op == "=" and not guards:
            self.assigned.append((target, len(scopes)))
        return Guard(guards, (made,)) if guards else made

    def operator(self, buffer: Buffer) -> str:
        """One for all of a buffer beside `=`, if kernels of this setting do not mix them."""
        free = [op for op in accumulations(buffer.dtype) if op in (self.setting.operators or (op,))]
        if not free or self.chance(self.setting.assigns):
            return "="
        op = pick(self.random, "operator", free)
        return op if self.mixes else self.operators.setdefault(buffer.name, op)

    # -- accesses ----------------------------------------------------------------------------------------
    def access(self, buffer: Buffer, scopes: Scopes) -> Access:
        again = [a for a, depth in self.assigned if a.buffer == buffer.name and depth <= len(scopes)]
        if again and self.chance(self.setting.again):
            return self.random.choice(again)
        return Access(buffer.name, tuple(self.index(dim.extent, scopes) for dim in buffer.dims))

    def index(self, extent: Affine, scopes: Scopes) -> Affine | Access:
        """An index into a dimension; of a setting that is bounded one that is seen to be in it, or guarded."""
        rows = [Affine.iterator(d) for d in range(len(scopes))]
        fits = [row for row, scope in zip(rows, scopes, strict=True) if extent in scope.extent.bounds]
        if fits and not self.chance(self.how_wild):
            return fits[-1] if self.chance(0.5) else self.random.choice(fits)
        for _ in range(10):
            form = self.form(self.setting.indices)
            if form == "data":
                if (found := self._data(scopes)) is not None:
                    return found
                continue
            index = self._index(form, extent, rows)
            if not self.setting.bounded:
                return index
            if is_nonnegative(index, scopes) and is_nonnegative(extent - 1 - index, scopes):
                return index
            room = self.guards is not None and index.iterators and not index.is_clamped
            if room and self.guards is not None and self.chance(self.setting.guards * self.how_wild):
                self.guards += [Condition(index, ">=", Affine.constant(0)), Condition(index, "<", extent)]
                return index
        return self.random.choice((Affine.constant(0), extent - 1))

    def _index(self, form: str, extent: Affine, rows: list[Affine]) -> Affine:
        choice, zero = self.random.choice, Affine.constant(0)
        row = choice(rows) if rows else zero
        match form:
            case "end":
                return choice((zero, extent - 1))
            case "first":
                return choice((zero, zero + 1))
            case "row":
                return row + choice((0, 0, 1))
            case "against":
                return extent - 1 - row
            case "negated":
                return -row
            case "half":
                return (row + choice((0, 1, 2))) // 2
            case "rest":
                return row % (extent.offset if extent.is_constant and extent.offset > 0 else 2)
            case "nearest":
                return choice((Affine.smallest(row, extent - 1), extent - 1 - Affine.smallest(row, extent - 1)))
            case "behind":
                return Affine.largest(row - 3, zero)
            case "any":
                return self._any_index(len(rows))
        index = Affine.constant(choice((0, 0, 0, 1, -1, 2)))
        for one in self.random.sample(rows, min(len(rows), choice((1, 1, 1, 1, 2)))):
            index = index + one * choice((1, 1, 1, 1, -1, 2))
        match form:
            case "mirrored":
                return extent - 1 - index
            case "clamped":
                return Affine.smallest(Affine.largest(index, zero), extent - 1)
            case "folded":
                return Affine.smallest(Affine.largest(index, -index), extent - 1)
        return index

    def _data(self, scopes: Scopes) -> Access | None:
        """An element of a table as an index."""
        integers = [b for b in self.buffers.values() if b.dtype.is_integer and not b.dtype.is_nibble]
        tables = [self.tables[name] for name in self.setting.tables] or integers
        if not tables or self.nested > 1:
            return None
        self.nested += 1
        found = self.access(self.random.choice(tables), scopes)
        self.nested -= 1
        return found

    def _any_index(self, depth: int) -> Affine:
        """An affine expression, or one with a min or a max in it."""
        index = self.affine(2, depth)
        for _ in range(self.random.choice((1, 1, 2)) if self.chance(0.15) else 0):
            others = [self.affine(1, depth) for _ in range(self.random.choice((1, 1, 2)))]
            index = Affine.smallest(index, *others) if self.chance(0.5) else Affine.largest(index, *others)
            index = self.random.choice((index, index, index * 2 - others[0], index // 3, -index % 4))
        return index

    def affine(self, fuel: int, depth: int) -> Affine:
        """A sum, difference, multiple, quotient or remainder of sizes and iterators."""
        choice = self.random.choice
        if fuel == 0 or self.chance(0.2):
            atoms = [Affine.constant(choice((0, 1, 2, 16, -1, 10**9)))]
            atoms += [Affine.size(size.name) for size in self.sizes if size.value is None] * 2
            return choice(atoms + [Affine.iterator(d) for d in range(depth)] * 2)
        left = self.affine(fuel - 1, depth)
        match self.random.randrange(5):
            case 0:
                return left + self.affine(fuel - 1, depth)
            case 1:
                return left - self.affine(fuel - 1, depth)
            case 2:
                return left * choice((2, 3, -1, -4, 16))
            case 3:
                return left // choice((1, 2, 4, 6, 16, 100))
        return left % choice((1, 2, 4, 6, 16, 100))

    # -- values ------------------------------------------------------------------------------------------
    def valued(self, buffer: Buffer, scopes: Scopes) -> Expr:
        """A value for an element of a buffer."""
        fuel, self.scopes = self.random.choice(self.setting.fuels), scopes
        if "any" in self.setting.values:
            return self.value(DTYPES["f32"] if buffer.dtype.is_float else buffer.dtype, fuel, False)
        return self.plain(buffer.dtype, scopes, fuel, self.random.choice(self.setting.reads))

    def plain(self, dtype: DType, scopes: Scopes, fuel: int, only: tuple[str, ...] = ROLES) -> Expr:
        """A value of few words, which has the same bits in any order."""
        if fuel:
            left, right = (self.plain(dtype, scopes, fuel - 1, only) for _ in range(2))
            return make_op(self.random.choice(self.setting.operations), (left, right))
        likes = [b for b in self.buffers.values() if b.dtype == dtype or (b.dtype.is_float and dtype.is_float)]
        readable = [b for b in likes if b.role in only]
        flags = [b for b in self.buffers.values() if b.dtype.kind == "b"]
        match self.form(self.setting.values):
            case "access" if readable:
                return self.access(self.random.choice(readable), scopes)
            case "risk" if self.nested < 2:
                self.nested += 1
                op, by = (
                    self.random.choice(("floordiv", "mod", "shl", "shr")),
                    self.random.choice(self.setting.risks),
                )
                found = make_op(op, (self.plain(dtype, scopes, 0, only), self.access(self.buffers[by], scopes)))
                self.nested -= 1
                return found
            case "flag" if flags:
                sides = (self.plain(dtype, scopes, 0, only), self.plain(dtype, scopes, 0, only))
                return make_op("select", (self.access(self.random.choice(flags), scopes), *sides))
            case "row" if scopes:
                return index_value(Affine.iterator(self.random.randrange(len(scopes))))
        return Const(self.random.choice((0, 1, 2, 3, 5)))

    def leaf(self, dtype: DType, exact: bool) -> Expr | None:
        likes = [b for b in self.buffers.values() if b.dtype == dtype or (b.dtype.is_float and dtype.is_float)]
        if likes and self.chance(0.7):
            return self.access(self.random.choice(likes), self.scopes)
        return None if dtype.kind == "b" else self._fitting(index_value(self.affine(2, len(self.scopes))), dtype)

    def tame(self, dtype: DType) -> Expr | None:
        return None


def drawn(setting: Setting, random: Random) -> Kernel:
    """A kernel of a setting that passes, if it says so."""
    while True:
        kernel = Free(random, setting).kernel()
        if not setting.proved:
            return kernel
        try:
            prove(kernel)
        except DojoError:
            continue
        return kernel
