"""Kernels of any form and damaged texts, by a plain random number generator.

`syntactic_kernel` gives any tree that the grammar and the types permit, whatever it would do; `damage` damages a
text.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from expressions import Expressions, accumulations

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import (
    FP_MODES,
    MARKS,
    RELATIONS,
    STORAGES,
    Access,
    Buffer,
    Condition,
    Dim,
    Expr,
    Extent,
    Guard,
    Kernel,
    Node,
    Scope,
    Size,
    Statement,
    index_value,
)

NAMES = ("x", "y", "a_1", "softmax", "e", "e5", "N", "M", "_", "p", "v", "lane", "heap", "order", "Inf", "i0", "i1")


def syntactic_kernel(random: Random) -> Kernel:
    """One such kernel."""
    return _Syntactic(random).kernel()


class _Syntactic(Expressions):
    wild = True

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        names = random.sample(NAMES, random.randrange(4))
        self.sizes = tuple(Size(n, random.choice((None, None, 0, 1, 7, 2**31 - 1))) for n in names)
        self.buffers: tuple[Buffer, ...] = ()
        self.labels: tuple[str | None, ...] = ()

    def kernel(self) -> Kernel:
        free = [name for name in NAMES if name not in {size.name for size in self.sizes}]
        for name in self.random.sample(free, self.random.randrange(6)):
            self.buffers += (self.buffer(name),)
        facts = [self.condition(()) for _ in range(self.random.choice((0, 0, 1, 3)))]
        writable = any(buffer.role != "in" for buffer in self.buffers)
        return Kernel(
            self.random.choice(NAMES),
            self.sizes,
            self.buffers,
            self.nodes(self.random.randrange(4), ()) if writable else (),
            tuple(fact for fact in facts if not (fact.left.is_constant and fact.right.is_constant)),
            self.random.choice(FP_MODES),
        )

    def buffer(self, name: str) -> Buffer:
        random = self.random
        role = random.choice(("in", "out", "inout", "tmp", "tmp"))
        rank = random.choice((0, 1, 1, 2, 2, 3))
        dims = tuple(Dim(self.affine(2, ()), role == "tmp" and self.chance(0.2)) for _ in range(rank))
        order = tuple(random.sample(range(rank), rank)) if rank and self.chance(0.2) else None
        pad = tuple(random.randrange(9) for _ in dims) if rank and self.chance(0.2) else None
        buffer = Buffer(
            role,
            name,
            random.choice(tuple(DTYPES.values())),
            dims,
            random.choice(STORAGES) if role == "tmp" else "heap",
            order,
            pad,
            random.choice((0, 0, 0, 1, 64, 4096)),
        )
        if role != "tmp" and rank > 1 and buffer.order is None and buffer.pad is None and self.chance(0.2):
            buffer = replace(buffer, flat=random.choice(((2,),) if rank == 2 else ((3,), (1, 2), (2, 1))))
        if role != "tmp" and not rank and buffer.dtype.is_nibble:  # a call gives bytes
            buffer = replace(buffer, dtype=DTYPES["i8"])
        return buffer

    # -- the body ----------------------------------------------------------------------------------------
    def nodes(self, depth: int, labels: tuple[str | None, ...]) -> tuple[Node, ...]:
        return tuple(self.node(depth, labels) for _ in range(self.random.choice((1, 1, 2, 3))))

    def node(self, depth: int, labels: tuple[str | None, ...]) -> Node:
        if depth == 0 or self.chance(0.2):
            return self.statement(labels)
        if self.chance(0.25):
            conditions = tuple(self.condition(labels) for _ in range(self.random.choice((1, 1, 2, 3))))
            return Guard(conditions, self.nodes(depth - 1, labels))
        free = [name for name in NAMES if name not in labels]
        label = self.random.choice(free) if self.chance(0.4) else None
        marks = tuple(self.random.sample(MARKS, self.random.choice((0, 0, 0, 1, 2))))
        return Scope(self.extent(labels), self.nodes(depth - 1, (*labels, label)), marks, label)

    def extent(self, labels: tuple[str | None, ...]) -> Extent:
        return Extent(tuple(self.affine(2, labels) for _ in range(self.random.choice((1, 1, 1, 2, 3)))))

    def condition(self, labels: tuple[str | None, ...]) -> Condition:
        return Condition(self.affine(2, labels), self.random.choice(RELATIONS), self.affine(1, labels))

    def statement(self, labels: tuple[str | None, ...]) -> Statement:
        self.labels = labels
        buffer = self.random.choice([buffer for buffer in self.buffers if buffer.role != "in"])
        target = Access(buffer.name, tuple(self.index(labels) for _ in buffer.dims))
        op = self.random.choice(("=", "=", *accumulations(buffer.dtype)))
        dtype = DTYPES["f32"] if buffer.dtype.is_float else buffer.dtype
        return Statement(target, op, self.value(dtype, self.random.randrange(5), False))

    # -- expressions -------------------------------------------------------------------------------------
    def index(self, labels: tuple[str | None, ...]) -> Affine:
        """An affine expression, or one with a min or a max in it."""
        index = self.affine(2, labels)
        for _ in range(self.random.choice((1, 1, 2)) if self.chance(0.15) else 0):
            others = [self.affine(1, labels) for _ in range(self.random.choice((1, 1, 2)))]
            index = Affine.smallest(index, *others) if self.chance(0.5) else Affine.largest(index, *others)
            index = self.random.choice((index, index, index * 2 - others[0], index // 3, -index % 4))
        return index

    def affine(self, fuel: int, labels: tuple[str | None, ...]) -> Affine:
        """A sum, difference, multiple, quotient or remainder of sizes and iterators."""
        random = self.random
        if fuel == 0 or self.chance(0.2):
            atoms = [Affine.constant(random.choice((0, 1, 2, 16, -1, 10**9)))]
            atoms += [Affine.size(size.name) for size in self.sizes if size.value is None] * 2
            atoms += [Affine.iterator(depth) for depth in range(len(labels))] * 2
            return random.choice(atoms)
        left = self.affine(fuel - 1, labels)
        match random.randrange(5):
            case 0:
                return left + self.affine(fuel - 1, labels)
            case 1:
                return left - self.affine(fuel - 1, labels)
            case 2:
                return left * random.choice((2, 3, -1, -4, 16))
            case 3:
                return left // random.choice((1, 2, 4, 6, 16, 100))
            case _:
                return left % random.choice((1, 2, 4, 6, 16, 100))

    def leaf(self, dtype: DType, exact: bool) -> Expr | None:
        fitting = [b for b in self.buffers if b.dtype == dtype or (b.dtype.is_float and dtype.is_float)]
        if fitting and self.chance(0.7):
            return self.access(self.random.choice(fitting), 2)
        return None if dtype.kind == "b" else self._fitting(index_value(self.affine(2, self.labels)), dtype)

    def access(self, buffer: Buffer, gathers: int) -> Access:
        ids = [b for b in self.buffers if b.dtype.is_integer and not b.dtype.is_nibble]
        return Access(
            buffer.name,
            tuple(
                self.access(self.random.choice(ids), gathers - 1)
                if ids and gathers and self.chance(0.15)
                else self.index(self.labels)
                for _ in buffer.dims
            ),
        )

    def tame(self, dtype: DType) -> Expr | None:
        return None


# -- damage ------------------------------------------------------------------------------------------------
PIECES = (
    "|", "| ", "\n", "\t", "\r\n", "\x00", "\ufeff", "\u2028", "é", "{", "}", "{0}", "{9}", "[", "]", "(",
    ")", "@i", "@", "~", ":", ",", "=", "+=", "max=", "^=", "|=", "==", "<", "//", "%", "-", "*", "/",
    "and", "or", "not", "if", "in", "tmp", "kernel", "where", "fp", "inf", "nan", "min(", "exp(", "f16(", "N", "x",
    "0", "1e5", "1.", ".5", "9" * 30, "1e999", "#", " ", "order(1, 0)", "pad", "align 64",
)  # fmt: skip


def damage(text: str, random: Random) -> str:
    """A text with one to four damages."""
    for _ in range(random.choice((1, 1, 2, 4))):
        a, b = sorted((random.randrange(len(text) + 1), random.randrange(len(text) + 1)))
        near = min(a + random.randrange(8), len(text))
        match random.randrange(7):
            case 0:
                text = text[:a] + random.choice(PIECES) + text[a:]
            case 1:
                text = text[:a] + text[near:]
            case 2:
                text = text[:a] + text[a:near] + text[a:]
            case 3:
                text = text[:a] + chr(random.randrange(random.choice((128, 0x3000)))) + text[a + 1 :]
            case 4:
                lines = text.split("\n")
                i, j = random.randrange(len(lines)), random.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
                text = "\n".join(lines)
            case 5:
                text = text[:b]
            case _:
                text = text[:a] + random.choice(PIECES) + text[near:]
    return text
