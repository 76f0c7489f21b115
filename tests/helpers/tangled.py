"""Random kernels full of dependences, for moves to be tried on: updates in place, recurrences, reversed and strided
accesses, triangles, scopes that may run zero times, temporaries that live on, several reductions.

Where `runnable_kernel` builds what every target must run, this draws statements at random and keeps what passes the
proof. Nearly all buffers are `inout` integers, so that any order of accesses is well-formed and every change of a
value shows.
"""

from __future__ import annotations

from random import Random

from expressions import accumulations

from dojoir.errors import KernelError
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
    make_op,
)
from dojoir.proof.wellformed import prove
from dojoir.sets.ranges import is_nonnegative

I32, F32 = DTYPES["i32"], DTYPES["f32"]


def tangled_kernel(random: Random, small: bool = False) -> Kernel:
    """A well-formed kernel whose statements depend on each other in every way; a `small` one has few of them."""
    while True:
        kernel = _Tangle(random, small).kernel()
        try:
            prove(kernel)
        except KernelError:
            continue
        return kernel


class _Tangle:
    def __init__(self, random: Random, small: bool) -> None:
        self.random = random
        self.small = small
        self.sizes: tuple[Size, ...] = ()
        self.buffers: list[Buffer] = []
        self.operators: dict[str, str] = {}
        self.fp = random.choice(("reassoc", "reassoc", "strict"))
        self.mixes = self.chance(0.1)
        self.wild = random.choice((0.1, 0.4, 1.0))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def kernel(self) -> Kernel:
        random = self.random
        names = ("N", "M")[: random.choice((1, 1, 2))]
        self.sizes = tuple(Size(name, random.choice((None, None, None, 4, 6))) for name in names)
        first, last = (
            Affine.size(s.name) if s.value is None else Affine.constant(s.value)
            for s in (self.sizes[0], self.sizes[-1])
        )
        self.bounds = [first, first, last, first + 1, first * 2, first + last]
        body: list[Node] = []
        for name in ("a", "b", "c")[: random.choice((1, 2) if self.small else (1, 2, 2, 3))]:
            self._declare(name, random.choice(("inout", "inout", "inout", "in")))
        if self.chance(0.3):
            self._declare("q", "inout", 0)
        for name in ("t", "s")[: random.choice((0, 1) if self.small else (0, 1, 1, 2))]:
            buffer = self._declare(name, "tmp", random.choice((0, 1, 1, 2)))
            if self.chance(0.4):
                body.append(self._fill(buffer))
        out = self._declare("y", random.choice(("inout", "out")), random.choice((0, 1, 1, 2)))
        if out.role == "out":
            body.append(self._fill(out))
        nests = random.choice((1, 1, 2) if self.small else (1, 2, 2, 3))
        body += [self._nest((), random.choice((1, 2) if self.small else (1, 2, 2, 3))) for _ in range(nests)]
        return Kernel("tangled", self.sizes, tuple(self.buffers), tuple(body), (), self.fp)

    def _declare(self, name: str, role: str, rank: int | None = None) -> Buffer:
        if rank is None:
            rank = self.random.choice((1, 1, 2))
        dims = tuple(Dim(self.random.choice(self.bounds), role == "tmp" and self.chance(0.15)) for _ in range(rank))
        dtype = F32 if self.chance(0.15) else I32
        buffer = Buffer(role, name, dtype, dims)
        self.buffers.append(buffer)
        return buffer

    def _fill(self, buffer: Buffer) -> Node:
        """A nest that assigns all of a buffer."""
        row = tuple(Affine.iterator(d) for d in range(len(buffer.dims)))
        index = tuple(
            dim.extent - 1 - i if self.chance(0.2) else i for i, dim in zip(row, buffer.dims, strict=True)
        )
        scopes = tuple(Scope(Extent((dim.extent,)), ()) for dim in buffer.dims)
        value = self._value(buffer.dtype, scopes, 1, only=("in", "inout"))
        node: Node = Statement(Access(buffer.name, index), "=", value)
        for scope in reversed(scopes):
            node = Scope(scope.extent, (node,))
        return node

    def _nest(self, around: tuple[Scope, ...], depth: int) -> Node:
        random = self.random
        if depth == 0 or (around and self.chance(0.12)):
            return self._statement(around)
        scope = Scope(self._extent(len(around)), ())
        inside = (*around, scope)
        count = random.choice((1, 1, 2) if self.small else (1, 1, 1, 2, 2, 3))
        body = tuple(self._nest(inside, depth - 1) for _ in range(count))
        if self.chance(0.15):
            body = (Guard((self._condition(inside),), body),)
        return Scope(scope.extent, body)

    def _extent(self, depth: int) -> Extent:
        random = self.random
        bound = random.choice(self.bounds[:3])
        outer = Affine.iterator(random.randrange(depth)) if depth else bound
        match random.randrange(12):
            case 0:
                return Extent((outer,))
            case 1:
                return Extent((outer + 1,))
            case 2:
                return Extent((bound - outer,)) if depth else Extent((bound - 1,))
            case 3:
                return Extent((bound - random.choice((1, 2, 3)),))
            case 4:
                return Extent((random.choice(self.bounds), random.choice(self.bounds[:3])))
            case 5:
                return Extent((bound // 2,))
            case 6:
                return Extent((Affine.constant(random.choice((1, 2, 4, 4, 5))),))
            case _:
                return Extent((bound,))

    def _condition(self, scopes: tuple[Scope, ...]) -> Condition:
        random = self.random
        row = Affine.iterator(random.randrange(len(scopes)))
        match random.randrange(4):
            case 0:
                return Condition(row % 2, random.choice(("==", "!=")), Affine.constant(0))
            case 1 if len(scopes) > 1:
                other = Affine.iterator(random.randrange(len(scopes)))
                return Condition(row, random.choice(("<", "<=", "==", "!=", ">=")), other)
            case 2:
                return Condition(row * 2, random.choice(("<", ">=")), random.choice(self.bounds))
            case _:
                return Condition(row, random.choice((">=", "<", "==", "!=")), Affine.constant(random.randrange(3)))

    def _statement(self, scopes: tuple[Scope, ...]) -> Node:
        random = self.random
        writable = [buffer for buffer in self.buffers if buffer.role != "in"]
        buffer = random.choice(writable)
        guards: list[Condition] = []
        target = self._access(buffer, scopes, guards)
        if self.mixes:
            op = random.choice(("=", "=", *accumulations(buffer.dtype)))
        else:
            op = self.operators.setdefault(buffer.name, random.choice(("+=", *accumulations(buffer.dtype))))
            op = random.choice(("=", "=", op))
        value = self._value(buffer.dtype, scopes, random.choice((0, 0, 1) if self.small else (0, 1, 1, 2)), guards)
        statement = Statement(target, op, value)
        return Guard(tuple(guards), (statement,)) if guards else statement

    def _access(self, buffer: Buffer, scopes: tuple[Scope, ...], guards: list[Condition]) -> Access:
        return Access(buffer.name, tuple(self._index(dim.extent, scopes, guards) for dim in buffer.dims))

    def _index(self, extent: Affine, scopes: tuple[Scope, ...], guards: list[Condition]) -> Affine:
        """An index that stays in bounds, by itself or by a guard that is added."""
        random = self.random
        rows = [Affine.iterator(d) for d in range(len(scopes))]
        plain = [r for r, scope in zip(rows, scopes, strict=True) if extent in scope.extent.bounds]
        if plain and not self.chance(self.wild):
            return plain[-1] if self.chance(0.5) else random.choice(plain)
        for _ in range(10):
            index = Affine.constant(random.choice((0, 0, 0, 1, -1, 2)))
            for row in random.sample(rows, min(len(rows), random.choice((1, 1, 1, 1, 2)))):
                index = index + row * random.choice((1, 1, 1, 1, -1, 2))
            if self.chance(0.2):
                index = extent - 1 - index
            elif self.chance(0.06):
                index = Affine.smallest(Affine.largest(index, Affine.constant(0)), extent - 1)
            elif self.chance(0.03):
                index = Affine.smallest(Affine.largest(index, -index), extent - 1)
            elif self.chance(0.05):
                index = index // 2
            elif self.chance(0.05) and extent.is_constant:
                index = index % extent.offset
            if is_nonnegative(index, scopes) and is_nonnegative(extent - 1 - index, scopes):
                return index
            if index.iterators and not index.is_clamped and self.chance(0.1 * self.wild):
                guards += [Condition(index, ">=", Affine.constant(0)), Condition(index, "<", extent)]
                return index
        return random.choice((Affine.constant(0), extent - 1))

    def _value(
        self,
        dtype: DType,
        scopes: tuple[Scope, ...],
        fuel: int,
        guards: list[Condition] | None = None,
        only: tuple[str, ...] = ("in", "inout", "out", "tmp"),
    ) -> Expr:
        random = self.random
        if fuel:
            left, right = (self._value(dtype, scopes, fuel - 1, guards, only) for _ in range(2))
            return make_op(random.choice(("add", "add", "sub", "mul", "max")), (left, right))
        readable = [b for b in self.buffers if b.role in only and b.dtype == dtype]
        if guards is None:
            plain: list[Condition] = []
            if readable and self.chance(0.7):
                access = self._access(random.choice(readable), scopes, plain)
                if not plain:
                    return access
        elif readable and self.chance(0.8):
            return self._access(random.choice(readable), scopes, guards)
        if scopes and self.chance(0.6):
            return Index(Affine.iterator(random.randrange(len(scopes))))
        return Const(random.choice((0, 1, 2, 3, 5)))
