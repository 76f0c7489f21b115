"""Random claims: two small kernels and a certificate, most of them false, with the interpreter as judge.

The new kernel is the old one after some edits that no move makes: statements doubled, dropped, copied through
temporaries, accumulated in parts, in other orders and by other operators, run past their ends, with certificates to
match or not. A claim that is called legal must compute what the old kernel computes, in integers, or bit for bit
under `fp strict`.

    python tests/helpers/fuzz.py --claims 100000 --jobs 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import numpy.typing as npt
from agreement import random_arguments
from claim_trees import Block, Line, Tree, moved, node_of, numbered, origins, renamed, tree_of
from drawing.free import Free, Setting
from races import TooLong, race

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import (
    Access,
    Condition,
    Const,
    DataFact,
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
)
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import find_failure
from dojoir.sets.limits import StepBudget, StepLimitReached
from dojoir.types.elaborate import check
from dojoir.types.identities import neutral

OPERATORS = ("+=", "+=", "*=", "max=", "min=")
SIZES = (1, 2, 3, 4, 7)
STEPS = 1_000_000
"""The steps that a claim may take: past that it is undecided."""


CLAIMS = Setting(
    "claim", lambda free: [], nests=(1, 1, 2, 2, 3), depths=(2,), children=(1, 1, 2, 3),
    nodes={"scope": 6, "guard": 1, "statement": 4},
    extents={"bound": 3, "few": 2, "less": 2, "one or none": 1, "row + 1": 1, "row": 1},
    conditions={"number": 2, "end": 1, "rows": 0.5, "sizes": 0.5, "even": 0.3},
    indices={"first": 2, "row": 6, "half": 2, "rest": 1}, values={"access": 6, "number": 2, "row": 0.5},
    operations=("add", "mul"), fuels=(0, 0, 0, 1), assigns=0.35, mixes=1.0, asks=0.12, bounded=False, proved=False,
)  # fmt: skip
"""A loop nest beside others, or, without loops, two to six statements."""


class Maker:
    """Draws a kernel, edits it, and says of which statements the new ones are."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.mode, self.dtype = random.choices(
            (("reassoc", "i64"), ("strict", "f32"), ("strict", "f4e2m1"), ("strict", "i32")), (8, 3, 1, 1)
        )[0]
        self.looped = self.chance(0.6)
        self.data = self.looped and self.chance(0.45)
        self.ops = random.sample(OPERATORS, random.choice((1, 2, 2, 3)))
        self.free = free = Free(random, self._setting())
        size = free.size("N")
        free.bounds, shape = [size], (size + 2,) if self.looped else ()
        for name in "pq" if self.data else "":
            free.declare("in", name, "i64", shape)
        if self.data:
            free.buffers["p"] = replace(free.buffers["p"], facts=(DataFact("distinct"),))
        free.tables, free.buffers = free.buffers, {}
        roles = {"x": "in", "v": "in", "y": random.choice(("inout", "out")), "t": "tmp", "c": "tmp", "z": "tmp"}
        for name, role in roles.items():
            free.declare(role, name, self.dtype, shape if name in "xvy" or self.chance(0.5) else ())
        self.dims = {name: len(buffer.dims) for name, buffer in free.buffers.items()}
        self.beyond = self.chance(0.05)

    def _setting(self) -> Setting:
        setting = replace(CLAIMS, operators=tuple(self.ops), fp=(self.mode,))
        if not self.looped:
            setting = replace(setting, depths=(0,), nests=(2, 3, 4, 5, 6))
        if self.data:
            setting = replace(setting, indices={**CLAIMS.indices, "data": 4}, tables=("p", "p", "p", "q"))
        return replace(setting, operations=("add", "mul", "div")) if self.dtype == "f4e2m1" else setting

    # -- parts ---------------------------------------------------------------------------------------------
    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def around(self, depth: int) -> tuple[Scope, ...]:
        return (Scope(Extent(tuple(self.free.bounds)), ()),) * depth

    def access(self, name: str, depth: int) -> Access:
        return self.free.access(self.free.buffers[name], self.around(depth))

    def value(self, depth: int) -> Expr:
        return self.free.valued(self.free.buffers["y"], self.around(depth))

    def index(self, depth: int) -> Affine:
        found = self.free.index(self.free.bounds[0], self.around(depth))
        return found if isinstance(found, Affine) else Affine.constant(0)

    def guard(self, depth: int) -> Guard:
        return Guard((self.free.condition(self.around(depth)),), ())

    def old(self) -> Tree:
        """The first tree; what it accumulates into it begins with a value, mostly."""
        begin = list[Node]()
        for name in ("t", "c", "z", "y"):
            number = Const(self.random.randint(0, 2))
            first = self.random.choice((number, number, number, self.access("x", 0), self.access("v", 0)))
            if self.chance(0.98):
                begin.append(self.free.filled(self.free.buffers[name], first))
        end = Statement(self.access("y", 0), "=", self.access(self.random.choice("tcz"), 0))
        met = (self.meeting(),) if self.data and self.chance(0.5) else ()
        body = [] if met and self.chance(0.3) else self.free.nests()
        return (*map(tree_of, begin), *map(tree_of, body), *met, tree_of(end))

    def meeting(self) -> Block:
        """A loop of several statements that write one buffer at indices from data, some of them where an element of
        an argument, one that is distinct or one that is not, is the number of the iteration."""
        name = self.random.choice([name for name in "yyyytcz" if self.dims[name]])
        own, extent = Affine.iterator(0), Affine.size("N") + (2 if self.chance(0.4) else 0)
        lines, alike = list[Line](), self.random.choice(("=", "=", *self.ops))
        for number in range(self.random.choice((1, 2, 2, 2, 3))):
            place = Access(self.random.choice("pq"), (own if self.chance(0.9) else self.index(1),))
            op = alike if self.chance(0.9) else self.random.choice(("=", *self.ops))
            value: Expr = Const(number + 1) if self.chance(0.6) else self.access(self.random.choice("xv"), 1)
            if self.chance(0.6):
                at = place if self.chance(0.9) else Access(self.random.choice("pq"), (own,))
                asked, turn = Access(self.random.choice("pq"), (at,)), own if self.chance(0.9) else self.index(1)
                value = Op("when", (Op("eq", (asked, index_value(turn))), value))
            lines.append(Line(Statement(Access(name, (place,)), op, value), None))
        return Block(Scope(Extent((extent,)), ()), tuple(lines))

    # -- edits ---------------------------------------------------------------------------------------------
    def edited(self, tree: Tree) -> Tree:
        adding = [at for at, node in enumerate(tree) if isinstance(node, Line) and node.statement.op != "="]
        if adding and self.chance(0.2):
            at = self.random.choice(adding)
            return (*tree[: at + 1], *self._doubled(tree[at], tree[at + 1 :], 0))
        loops = [at for at, node in enumerate(tree) if isinstance(node, Block) and len(node.body) > 1]
        if self.data and loops and self.chance(0.6):
            return self._edit(tree, loops[-1], 0, self.random.choice((8, 9, 14)))
        if self.looped and self.chance(0.15):
            self.beyond = self.chance(0.95)
            tree = tuple(self._padded(node) for node in tree)
            if self.chance(0.6):
                return tree
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 4))):
            tree = self._within(tree, 0)
        return tree

    def _within(self, tree: Tree, depth: int) -> Tree:
        """An edit somewhere in a tree."""
        if not tree:
            return tree
        at = self.random.randrange(len(tree))
        node = tree[at]
        if isinstance(node, Block) and self.chance(0.7):
            inner = self._within(node.body, depth + isinstance(node.node, Scope))
            return (*tree[:at], replace(node, body=inner), *tree[at + 1 :])
        return self._edit(tree, at, depth)

    def _edit(self, tree: Tree, at: int, depth: int, kind: int | None = None) -> Tree:
        """An edit of the child of a tree that has the number `at`, of a `kind` if given."""
        before, node, after = tree[:at], tree[at], tree[at + 1 :]
        match self.random.randrange(16) if kind is None else kind:
            case 0 if after:
                return (*before, after[0], node, *after[1:])
            case 1:
                return (*before, node, node, *after)
            case 2 if len(tree) > 1:
                return (*before, *after)
            case 3:
                return self._through_copy(tree, at, depth)
            case 4 if isinstance(node, Line):
                return (*before, node, *self._doubled(node, after, depth))
            case 5 | 6 if isinstance(node, Line):
                return (*before, *self._in_parts(node, depth), *after)
            case 7 if isinstance(node, Line):
                return (*before, self._changed(node, depth), *after)
            case 8 | 9 if isinstance(node, Block) and isinstance(node.node, Scope):
                return (*before, *self._other_order(node, depth), *after)
            case 10 if isinstance(node, Block) and after and isinstance(after[0], Block):
                return (*before, Block(node.node, (*node.body, *after[0].body)), *after[1:])
            case 11:
                step = self.random.choice(("y", "t", "c", "z"))
                target, source = (self.access(step, depth) for _ in range(2))
                op = self.random.choice(("=", *self.ops))
                return (*before, Line(Statement(target, op, source), None), node, *after)
            case 12 if isinstance(node, Line) and node.origin is not None:
                other = None if self.chance(0.5) else Origin(max(0, node.origin.site - 1), node.origin.iterators)
                return (*before, replace(node, origin=other), *after)
            case 13 if depth:
                return (*before, Block(self.guard(depth), (node,)), *after)
            case 14 if isinstance(node, Block) and isinstance(node.node, Scope):
                marked = replace(node.node, marks=(self.random.choice("pv"),))
                return (*before, replace(node, node=marked), *after)
            case _:
                places = (*before, *after)
                to = self.random.randrange(len(places) + 1)
                return (*places[:to], node, *places[to:])

    def _padded(self, node: Line | Block) -> Line | Block:
        """A tree some of whose scopes run further, and some of whose guards hold back nothing."""
        if isinstance(node, Line):
            return node
        inner = tuple(map(self._padded, node.body))
        match node.node:
            case Scope(Extent((bound,))) if self.chance(0.3):
                longer = Extent((self.random.choice((bound + 1, bound + 2, Affine.size("N") + 2)),))
                return Block(replace(node.node, extent=longer), inner)
            case Guard() if self.chance(0.7):
                return Block(Guard((Condition(Affine.size("N"), ">=", Affine.constant(1)),), ()), inner)
        return Block(node.node, inner)

    def _through_copy(self, tree: Tree, at: int, depth: int) -> Tree:
        """What follows works on a copy of an element, that is written back or not."""
        own = self.random.choice(("t", "c", "z"))
        other = self.random.choice([name for name in ("t", "c", "z") if self.dims[name] == self.dims[own]])
        end = self.random.randint(at, len(tree))
        where = self.access(own, depth)
        copy = replace(where, buffer=other)
        inside = tuple(renamed(node, own, other, self.chance(0.9)) for node in tree[at:end])
        first = (Line(Statement(copy, "=", where), None),)
        last = (Line(Statement(where, "=", copy), None),) if self.chance(0.6) else ()
        return (*tree[:at], *first, *inside, *last, *tree[end:])

    def _doubled(self, line: Line | Block, rest: Tree, depth: int) -> Tree:
        """What comes after a statement: the same again, on a copy of what it wrote, which the rest reads."""
        assert isinstance(line, Line)
        own = line.statement.target.buffer
        other = self.random.choice([name for name in ("t", "c", "z") if name != own])
        if self.dims[own] != self.dims[other]:
            return (line, *rest)
        copy = Line(Statement(replace(line.statement.target, buffer=other), "=", line.statement.target), None)
        return (copy, *(renamed(node, own, other, self.chance(0.7)) for node in (line, *rest)))

    def _in_parts(self, line: Line, depth: int) -> Tree:
        """An accumulation into a partial result, that is accumulated afterwards."""
        op, target = line.statement.op, line.statement.target
        if op == "=":
            return (line,)
        own = self.random.choice(("t", "c", "z"))
        part = self.access(own, depth)
        begin = neutral(op, DTYPES[self.dtype]) if self.chance(0.9) else 0
        assert begin is not None
        lines = [
            Line(Statement(part, "=", Const(begin)), None),
            replace(line, statement=replace(line.statement, target=part)),
            Line(Statement(target, op if self.chance(0.9) else "+=", part), None),
        ]
        if self.chance(0.2):
            lines.insert(2, lines[1])
        if self.chance(0.2):
            link = self.access(own, depth)
            lines.insert(2, Line(Statement(link, op, part), None))
        return tuple(lines)

    def _changed(self, line: Line, depth: int) -> Line:
        statement = line.statement
        match self.random.randrange(3):
            case 0:
                return replace(
                    line, statement=replace(statement, target=self.access(statement.target.buffer, depth))
                )
            case 1 if statement.op != "=":
                return replace(line, statement=replace(statement, op=self.random.choice(self.ops)))
            case _:
                return replace(line, statement=replace(statement, value=self.value(depth)))

    def _other_order(self, block: Block, depth: int) -> Tree:
        """A scope that runs backwards, in two parts, or once for each of its children."""
        assert isinstance(block.node, Scope)
        (extent,) = block.node.extent.bounds
        match self.random.randrange(3):
            case 0:
                return (moved(block, depth, extent - 1 - Affine.iterator(depth)),)
            case 1:
                first = Block(Scope(Extent((Affine.constant(1),)), ()), block.body)
                rest = moved(block, depth, Affine.iterator(depth) + 1)
                return (first, Block(Scope(Extent((extent - 1,)), ()), rest.body))
            case _:
                return tuple(Block(block.node, (child,)) for child in block.body)

    # -- the claim -----------------------------------------------------------------------------------------
    def claim(self) -> Claim | None:
        """A claim whose kernels are texts, or None where a kernel cannot be written."""
        old = self.old()
        before = self.kernel(old)
        if before is None:
            return None
        first, _ = numbered(old, 0, 0)
        new = self.edited(first)
        after = self.kernel(new)
        certificate = InstanceMap(tuple(origins(new)), beyond=self.beyond)
        return None if after is None else Claim(before, after, certificate)

    def kernel(self, tree: Tree) -> Kernel | None:
        """The kernel of a tree, or None where its types do not fit, or where an iterator is of no scope around."""
        buffers = {**self.free.tables, **self.free.buffers}
        kernel = Kernel("claim", (Size("N"),), tuple(buffers.values()), tuple(map(node_of, tree)), (), self.mode)
        try:
            check(kernel)
        except dojoir.DojoError:
            return None
        named = [(index, len(s.scopes)) for s in kernel.sites for index in s.statement.affine_parts]
        named += [(b, d) for s in kernel.sites for d, scope in enumerate(s.scopes) for b in scope.extent.bounds]
        return None if any(depth >= d for affine, d in named for depth in affine.iterators) else kernel


# -- the judge -----------------------------------------------------------------------------------------------
Results = Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


def arguments(kernel: Kernel, size: int, seed: int) -> dict[str, npt.NDArray[np.generic]]:
    """Random arguments. Where there are indices, those in `q` are, at odd sizes, the inverse of those in `p`."""
    drawn = random_arguments(kernel, {"N": size}, Random(seed))
    if "q" in drawn and size % 2:
        drawn["q"] = np.argsort(drawn["p"]).astype(drawn["q"].dtype)
    return drawn


def results(kernel: Kernel, size: int, given: Results) -> Results | None:
    """What the interpreter gives, or None where it finds an error."""
    try:
        with np.errstate(all="ignore"):
            return dojoir.interpret(kernel, {**given}, N=size)
    except dojoir.DojoError:
        return None


def same(one: Results, other: Results) -> bool:
    return all(np.asarray(one[name]).tobytes() == np.asarray(other[name]).tobytes() for name in one)


def judged(claim: Claim) -> str | None:
    """How the new kernel of a claim differs from the old one at some size, or None."""
    for size in SIZES if any(isinstance(node, Scope) for _, node in claim.before.walk()) else SIZES[:1]:
        given = arguments(claim.before, size, size)
        was = results(claim.before, size, given)
        if was is None:
            continue
        now = results(claim.after, size, given)
        if now is None:
            return f"at N = {size}: an error"
        if not same(was, now):
            return f"at N = {size}: another result"
        found = None
        with suppress(TooLong):
            found = race(claim.after, {"N": size}, given)
        if found is not None:
            return f"at N = {size}: {found}"
    return None


def verdict(claim: Claim) -> str:
    """What the core says of a claim: legal, illegal or undecided."""
    try:
        failure = StepBudget(STEPS).ask(lambda: find_failure(Claim(*claim.parts)))
    except StepLimitReached:
        return "undecided"
    return "legal" if failure is None else "illegal"


def examine(random: Random, counts: Counter[str]) -> list[tuple[str, str]]:
    """One random claim: what is wrong with the verdict on it, and the claim as text."""
    claim = Maker(random).claim()
    if claim is None:
        counts["not written"] += 1
        return []
    try:
        dojoir.prove(claim.before)
    except dojoir.DojoError:
        counts["not well-formed before"] += 1
        return []
    said = verdict(claim)
    wrong = judged(claim)
    counts[f"{said}, {'right' if wrong is None else 'wrong'}"] += 1
    return [(f"legal, but {wrong}", described(claim))] if said == "legal" and wrong is not None else []


def described(claim: Claim) -> str:
    origins = ", ".join(
        "-" if o is None else f"{o.site}[{', '.join(map(str, o.iterators))}]" for o in claim.certificate.origins
    )
    return f"{dojoir.to_text(claim.before)}\n{dojoir.to_text(claim.after)}\n# stands for {origins}"
