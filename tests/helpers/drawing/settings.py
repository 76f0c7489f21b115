"""The settings of kernels that are drawn freely, by name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import numpy as np

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import FP_MODES, MARKS, STORAGES, Access, Buffer, Condition, Const, Dim, Node, Statement
from drawing.free import ROLES, Free, Setting

NAMES = ("x", "y", "a_1", "softmax", "e", "e5", "N", "M", "_", "p", "v", "lane", "heap", "order", "Inf", "i0", "i1")


def _tangled(self: Free, small: bool = False) -> list[Node]:
    """Full of dependences: nearly all buffers are `inout` integers, so that any order of accesses is well-formed
    and every change of a value shows."""
    choice, body = self.random.choice, list[Node]()
    first = last = self.size("N", (None, None, None, 4, 6))
    if self.chance(1 / 3):
        last = self.size("M", (None, None, None, 4, 6))
    self.bounds = [first, first, last, first, last, first + 1, first * 2, first + last]

    def declare(role: str, name: str, ranks: tuple[int, ...]) -> Buffer:
        dims = tuple(choice(self.bounds) for _ in range(choice(ranks)))
        return self.declare(role, name, "f32" if self.chance(0.15) else "i32", dims, 0.15)

    for name in "abc"[: choice((1, 2) if small else (1, 2, 2, 3))]:
        declare(choice(("inout", "inout", "inout", "in")), name, (1, 1, 2))
    if self.chance(0.3):
        declare("inout", "q", (0,))
    for name in "ts"[: choice((0, 1) if small else (0, 1, 1, 2))]:
        buffer = declare("tmp", name, (0, 1, 1, 2))
        body += [self.filled(buffer)] if self.chance(0.4) else []
    out = declare(choice(("inout", "out")), "y", (0, 1, 1, 2))
    return [*body, self.filled(out)] if out.role == "out" else body


TANGLED = Setting(
    "tangled", _tangled, nests=(1, 2, 2, 3), depths=(1, 2, 2, 3), children=(1, 1, 1, 2, 2, 3),
    nodes={"scope": 15, "guard": 3, "statement": 2},
    extents={"bound": 14, "row": 2, "row + 1": 2, "what is left": 2, "less": 2, "two": 2, "half": 2, "few": 2,
             "tile": 0.5, "one or none": 0.5},
    conditions={"even": 1, "rows": 1, "double": 1, "number": 1, "end": 0.3, "sizes": 0.3},
    indices={"sum": 60, "mirrored": 18, "clamped": 5, "folded": 3, "half": 4, "rest": 4, "end": 3, "nearest": 2,
             "behind": 1},
    values={"access": 8, "row": 1.2, "number": 0.8},
    operations=("add", "add", "sub", "mul", "max"), fuels=(0, 1, 1, 2), mixes=0.1, guards=0.1, wild=(0.1, 0.4, 1.0),
    fp=("reassoc", "reassoc", "strict"),
)  # fmt: skip
SMALL = replace(
    TANGLED, declares=partial(_tangled, small=True), nests=(1, 1, 2), depths=(1, 2), children=(1, 1, 2),
    fuels=(0, 0, 1),
)  # fmt: skip
THREADS = replace(
    SMALL, marks=("gx", "gx", "gy", "gz", "bx", "bx", "by", "bz", "lane", "u", "v"), marked=(0, 1, 1), mixes=0.0,
    extents={**TANGLED.extents, "few": 8, "at most": 4}, wild=(0.1, 0.2),
)  # fmt: skip


def _few(self: Free) -> list[Node]:
    """Statements that meet in a few elements of one array, each by an index of its own: `r[0]`, `r[-{1}]`,
    `r[max({1} - 3, 0)]`, `r[ids[0]]`. What a lowering keeps in a variable, puts off, or asks once outside of a loop
    must see that these are one."""
    choice, size = self.random.choice, self.size("N")
    self.bounds = [size]
    for name, dtype in (("x", "f32"), ("k", "i32"), ("ids", "i32")):
        self.declare("in", name, dtype, (size,))
    dims = tuple(Affine.constant(choice((1, 1, 2))) for _ in range(choice((1, 2, 3))))
    own, dtype = choice(("out", "out", "tmp")), choice(("bf16", "f32", "f16", "i32"))
    self.declare(own, "r", dtype, dims, storage=choice(("stack", "reg", "heap")) if own == "tmp" else "heap")
    if own == "tmp":
        self.declare("out", "y", dtype, ())
    return [self.filled(self.buffers["r"])] if self.chance(0.6) else []


def _few_end(self: Free) -> list[Node]:
    """The result, where the elements are temporaries."""
    zeros = tuple(Affine.constant(0) for _ in self.buffers["r"].dims)
    return [Statement(Access("y", ()), "=", Access("r", zeros))] if "y" in self.buffers else []


FEW_SIZES = ({"N": 1}, {"N": 2}, {"N": 5})
"""The sizes at which these kernels are run."""


def few_inputs(random: Random, n: int) -> dict[str, np.ndarray]:
    """Numbers of which sums and products are small, and indices of the one element that there may be."""
    return {
        "x": np.array([random.choice([-2, 0.5, 1, 3]) for _ in range(n)], np.float32),
        "k": np.array([random.randrange(-3, 4) for _ in range(n)], np.int32),
        "ids": np.zeros(n, np.int32),
    }


FEW = Setting(
    "few", _few, nests=(1, 2, 2, 3), depths=(4,), children=(1, 1, 2, 2, 3), ends=_few_end,
    nodes={"scope": 0.3, "guard": 0.12, "statement": 0.58},
    extents={"few": 3, "at most": 5, "row + 1": 1, "one or none": 1},
    conditions={"number": 3, "sizes": 1}, relations=("<", ">=", "=="),
    indices={"end": 1, "row": 3, "against": 0.5, "negated": 0.5, "nearest": 2, "rest": 2, "behind": 1, "clamped": 1,
             "folded": 0.5, "data": 0.7}, tables=("ids",),
    values={"access": 2, "row": 1, "number": 1}, operators=("+=", "max=", "*="), assigns=0.45, mixes=1.0, asks=0.15,
    marks=("u", "v", "v"), marked=(0, 1, 1), fp=("fast",), reads=(("in",), ("in",), ("in",), ROLES),
)  # fmt: skip


def _loose(self: Free, wide: bool = False) -> list[Node]:
    """Where `wide`, buffers are so large that nearly all indices are in bounds. Temporaries have a value to begin
    with about as often as not."""
    choice, n, m = self.random.choice, self.size("N"), self.size("M")
    big, body, self.bounds = 2 * n + 2 * m, list[Node](), [n, m]
    two, four = Affine.constant(2), Affine.constant(4)
    facts = ((n, ">=", two), (n % 2, "==", Affine.constant(0)), (n, "<=", m), (n, "==", m), (m, "<=", four))
    self.facts += [Condition(*fact) for fact in self.random.sample(facts, choice((0, 0, 1, 1, 2)))]
    role = choice(("out", "inout", "inout"))
    for name, own, rank in (("x", "in", 2), ("z", "inout", 1), ("y", role, 1), ("t", "tmp", 1), ("e", "tmp", 2)):
        dims = (big, big) if wide and own != "out" else (n, m)
        buffer = self.declare(own, name, "f32", dims[:rank], 1 / 3)
        if own == "tmp" and self.chance(0.5):
            body.append(self.filled(buffer, Const(0)))
    return body


TIGHT = Setting(
    "loose", _loose, nests=(1, 2, 3), depths=(3,), children=(1, 2, 3),
    nodes={"scope": 2, "guard": 1, "statement": 3},
    extents={"bound": 5, "less": 1, "few": 1, "half": 1, "row + 1": 1, "what is left": 1,
    "tile": 1, "row": 0.3, "two": 0.5},
    conditions={"even": 1, "rows": 1, "sizes": 1, "end": 1}, relations=("<", "!=", ">", "==", ">="),
    indices={"end": 6, "row": 1, "sum": 0.5, "against": 1}, values={"access": 6, "number": 1},
    operators=("+=", "max="), assigns=0.6, mixes=1.0, fuels=(0, 0, 1), bounded=False, wild=(0.1, 0.15), again=0.5,
    proved=False,
)  # fmt: skip
WIDE = replace(
    TIGHT, declares=partial(_loose, wide=True), wild=(0.5,), indices={"end": 2, "row": 8, "sum": 0.3, "against": 2}
)  # fmt: skip


def _any(self: Free) -> list[Node]:
    """Any sizes, facts and buffers that can be declared."""
    random, chance, names = self.random, self.chance, self.random.sample(NAMES, len(NAMES))
    self.bounds = [self.size(name, (None, None, 0, 1, 7, 2**31 - 1)) for name in names[: random.randrange(4)]]
    for name in names[4 : 4 + random.randrange(6)]:
        role, rank = random.choice(("in", "out", "inout", "tmp", "tmp")), random.choice((0, 1, 1, 2, 2, 3))
        dtype, is_tmp = random.choice(tuple(DTYPES.values())), role == "tmp"
        if not (is_tmp or rank) and dtype.is_nibble:  # a call gives bytes
            dtype = DTYPES["i8"]
        dims = tuple(Dim(self.affine(2, 0), is_tmp and chance(0.2)) for _ in range(rank))
        order = tuple(random.sample(range(rank), rank)) if rank and chance(0.2) else None
        pad = tuple(random.randrange(9) for _ in range(rank)) if rank and chance(0.2) else None
        storage, align = random.choice(STORAGES) if is_tmp else "heap", random.choice((0, 0, 0, 1, 64, 4096))
        buffer = Buffer(role, name, dtype, dims, storage, order, pad, align)
        if not is_tmp and rank > 1 and order is None and pad is None and chance(0.2):
            buffer = replace(buffer, flat=random.choice(((2,),) if rank == 2 else ((3,), (1, 2), (2, 1))))
        self.buffers[name] = buffer
    self.facts += [self.condition(()) for _ in range(random.choice((0, 0, 1, 3)))]
    self.name = random.choice(NAMES)
    return []


ANY = Setting(
    "any", _any, nests=(1, 1, 2, 3), depths=(0, 1, 2, 3), children=(1, 1, 2, 3),
    nodes={"scope": 0.6, "guard": 0.2, "statement": 0.2}, extents={"any": 1}, conditions={"any": 1},
    indices={"any": 6, "data": 1}, values={"any": 1}, assigns=0.3, mixes=1.0, fuels=(0, 1, 2, 3, 4),
    marks=MARKS, marked=(0, 0, 0, 1, 2), labels=0.4, bounded=False, fp=FP_MODES, proved=False,
)  # fmt: skip

SETTINGS = {
    "tangled": TANGLED, "tangled, small": SMALL, "threads": THREADS, "few elements": FEW, "tight": TIGHT,
    "wide": WIDE, "any": ANY,
}  # fmt: skip
