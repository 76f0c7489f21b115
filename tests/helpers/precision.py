"""How often a move that the checker refuses would have done no harm.

    python tests/helpers/precision.py --kernels 400 --seed 0 --show 3

Takes small random kernels, some after a few legal moves; makes every candidate that is refused all the same, and
runs both kernels at several sizes, those of the witness among them, on inputs that expose order: integers that all
differ, and floats whose sums are exact (or, in `fp strict` kernels, are not). A refusal is *harmless* if nothing
can be told at any of these calls: no other bit, no element read before it is written or outside of its buffer, no
two iterations of a marked scope on one element. Of these, a *coincidence* does harm as soon as every statement
instance computes a value of its own (`exposed`): an assignment that is repeated, a maximum of the same element, two
statements that write the same. A *dead* one changes only values that reach nothing that is returned. What is *left*
was refused for no reason that these calls show; as a refusal speaks of all sizes, others may.
`tests/helpers/PRECISION.md` explains each move that has more than 5 %.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random

import numpy as np
import numpy.typing as npt
from agreement import random_arguments
from drawing import draw
from enumeration import Element
from races import race
from races import run as touches
from walks import QUICK, Run, disagreement, draw_moves, some_sizes

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, I64
from dojoir.ir.nodes import Access, Const, Expr, Index, Kernel, Op, Path, Statement, holds
from dojoir.ir.operations import ACCUMULATIONS
from dojoir.meaning.bits import from_floats
from dojoir.passes.base.move import Move
from dojoir.sets.kernel_sets import sets_of

RULES = frozenset(
    {
        "open-extent", "large-extent", "lane-extent", "nested-mark", "mark-clash", "dependent-extent",
        "empty-dimension", "bad-hint", "duplicate-hint", "idle-hint", "lost-hint", "unused-hint",
    }
)  # fmt: skip
"""Refusals of what the language does not allow, whatever it would compute: they are counted apart."""

MOST = 40_000
"""How many elements a buffer may have at the sizes that are tried."""


def telling_arguments(
    kernel: Kernel, sizes: Mapping[str, int], random: Random
) -> dict[str, npt.NDArray[np.generic]]:
    """Arguments whose elements all differ, in any order. What is used as an index is in bounds."""
    arguments = random_arguments(kernel, sizes, random)
    gathers = gathered(kernel)
    for name, plain in arguments.items():
        dtype = kernel.buffer(name).dtype
        if name in gathers or dtype == BOOL or kernel.buffer(name).packed:
            continue
        order = np.array(random.sample(range(plain.size), plain.size), np.int64).reshape(plain.shape)
        if dtype.is_float:
            scale = 10.0 ** np.array([random.randint(-3, 3) for _ in range(plain.size)]).reshape(plain.shape)
            values = (order - plain.size / 3) * scale if kernel.fp == "strict" else order - plain.size // 3
            arguments[name] = from_floats(np.asarray(values, np.float64), dtype)
        else:
            arguments[name] = (order * 7 - plain.size * 2).astype(dtype.stored)
    return arguments


def calls(kernel: Kernel, random: Random, sizes: Sequence[Mapping[str, int]]) -> Iterator[Run]:
    """A call at each of the sizes that the kernel allows, one after another."""
    for given in sizes:
        values = {name: given.get(name, 1) for name in kernel.runtime_sizes}
        shapes = [[d.extent.evaluate(values) for d in buffer.dims] for buffer in kernel.buffers]
        if all(holds(fact, values, ()) for fact in kernel.facts) and max(map(prod, shapes), default=0) <= MOST:
            inputs = telling_arguments(kernel, values, random)
            yield Run(values, inputs, dojoir.interpret(kernel, inputs, **values))


# -- every instance a value of its own -----------------------------------------------------------------------
def exposed(kernel: Kernel) -> Kernel:
    """The same accesses in the same scopes on integers that wrap, every statement with a value that tells which
    instance computed it from what: all its reads and iterators, each times a number that no other has."""
    random = Random(kernel.name)
    gathers = gathered(kernel)

    def number() -> Const:
        return Const(2 * random.getrandbits(60) + 1)

    values: list[tuple[Path, Statement]] = []
    for number_of, site in enumerate(kernel.sites):
        value: Expr = number()
        for access in site.statement.reads:
            if access.buffer not in gathers:
                value = Op("add", (value, Op("mul", (access, number()))))
        for depth in range(len(site.scopes)):
            term = Op("mul", (Index(Affine.iterator(depth)), Index(Affine.iterator(depth))))
            value = Op("add", (value, Op("mul", (Op("add", (term, number())), number()))))
        target, op = site.statement.target, "="
        if site.statement.accumulation is not None:
            op = accumulating(kernel, site.statement)
            if sets_of(kernel).is_ordered(number_of, kernel.fp == "strict"):
                op, value = "=", Op("add", (value, Op("mul", (target, number()))))
            elif op == "*=":
                value = Op("add", (Op("mul", (value, Const(2))), Const(1)))  # an odd factor loses nothing
        values.append((site.path, Statement(target, op, value)))
    for path, statement in values:
        kernel = kernel.replace_node(path, statement)
    for buffer in kernel.buffers:
        if buffer.name not in gathers:
            kernel = kernel.replace_buffer(replace(buffer, dtype=I64, packed=False))
    return kernel


def accumulating(kernel: Kernel, statement: Statement) -> str:
    """The operator that stands for that of an accumulation: of those into the buffer the first adds,
    and the second multiplies, so that nothing is lost and the two do not commute; others stay as they are."""
    name = statement.target.buffer
    operators = {site.statement.op for site in kernel.sites if site.statement.target.buffer == name} - {"="}
    place = sorted(operators, key=tuple(ACCUMULATIONS).index).index(statement.op)
    return ("+=", "*=")[place] if place < 2 else statement.op


def gathered(kernel: Kernel) -> frozenset[str]:
    """The buffers whose elements are used as indices, if by way of temporaries too."""
    found = {
        index.buffer
        for site in kernel.sites
        for access in site.statement.accesses
        for index in access.indices
        if isinstance(index, Access)
    }
    for site in reversed(kernel.sites):
        if site.statement.target.buffer in found:
            found |= site.statement.buffers_read
    return frozenset(found)


@dataclass(frozen=True)
class Seen:
    """What a kernel returns, and all values that its statements assigned or added, in any order."""

    returned: dict[Element, int | None]
    computed: Counter[int | None]


def observe(kernel: Kernel, run: Run) -> Seen:
    """Runs an exposed kernel: elements begin as different numbers, and what was never written is None."""
    held: dict[Element, int | None] = {}
    computed: Counter[int | None] = Counter()
    roles = {buffer.name: buffer.role for buffer in kernel.buffers}

    def load(element: Element) -> int | None:
        if element not in held and roles[element[0]] in {"in", "inout"}:
            held[element] = hash(("begin", element)) % 2**64
        return held.get(element)

    def evaluate(expr: Expr, at: tuple[int, ...], reads: Iterator[int | None]) -> int | None:
        match expr:
            case Access():
                return next(reads)
            case Index(affine):
                return affine.evaluate(run.sizes, at)
            case Const(value):
                return int(value)
            case Op(name, (left, right)):
                a, b = evaluate(left, at, reads), evaluate(right, at, reads)
                if a is None or b is None:
                    return None
                return (a + b if name == "add" else a * b) % 2**64
        raise AssertionError(expr)

    for number, at, target, reads in touches(kernel, run.sizes):
        statement = kernel.sites[number].statement
        value = evaluate(statement.value, at, map(load, reads))
        computed[value] += 1
        before = load(target)
        if statement.op == "=":
            held[target] = value
        else:
            held[target] = None if value is None or before is None else (before + value) % 2**64
    return Seen({e: v for e, v in held.items() if roles[e[0]] in {"out", "inout"}}, computed)


def kind_of(kernel: Kernel, move: Move, runs: Sequence[Run]) -> str:
    """What kind of harmless refusal a move is: coincidence, dead or left; `?` where data are used as indices or
    in conditions, or the exposed kernel has another form."""
    if gathered(kernel) or any(site.statement.condition is not None for site in kernel.sites):
        return "?"
    before = exposed(kernel)
    try:
        after = dojoir.apply(before, move, unsafe=True)
    except dojoir.IllegalMove:
        return "?"
    seen = [(observe(before, run), observe(after, run)) for run in runs]
    if any(old.returned != new.returned for old, new in seen):
        return "coincidence"
    return "dead" if any(old.computed != new.computed for old, new in seen) else "left"


def is_harmless(after: Kernel, runs: Sequence[Run]) -> bool:
    """Whether a kernel gives the same bits at all these calls, and its marked scopes are independent there."""
    return disagreement(after, runs, exact=True) is None and all(
        race(after, run.sizes, in_bytes=True) is None for run in runs
    )


def start(random: Random) -> Kernel:
    """A small kernel, half of the time after some legal moves."""
    match random.randrange(10):
        case 0:
            kernel = replace(dojoir.kernels.load(random.choice(QUICK)), fp=random.choice(("reassoc", "strict")))
        case 1 | 2 | 3:
            kernel = draw("runnable", random, exact=True, marks=random.random() < 0.5, small=True)
        case _:
            kernel = draw("tangled", random, small=True)
    for _ in range(random.choice((0, 0, 1, 2, 3))):
        move = next((m for m in draw_moves(kernel, random, 10) if dojoir.check(kernel, m)), None)
        kernel = kernel if move is None else dojoir.apply(kernel, move)
    return kernel


class Table:
    """Refusals and how many of them were harmless, by move and by code."""

    def __init__(self, show: int) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()
        self.harmless: Counter[tuple[str, str]] = Counter()
        self.undecided: Counter[str] = Counter()
        self.by_rule: Counter[str] = Counter()
        self.kinds: Counter[tuple[str, str]] = Counter()
        self.show = show

    def kernel(self, random: Random, each: int) -> None:
        """Tries up to `each` candidates of every family on one kernel."""
        kernel = start(random)
        if kernel.fp == "fast":
            return
        common = [
            sizes for most in (1, 2, 3, 4, 5, 6, 9) if (sizes := some_sizes(kernel, random, most)) is not None
        ]
        if max((len(site.scopes) for site in kernel.sites), default=0) < 3:
            common += [sizes for most in (20, 40) if (sizes := some_sizes(kernel, random, most)) is not None]
        runs = list(calls(kernel, random, common))
        families: dict[str, list[Move]] = {}
        for move in dojoir.candidates(kernel):
            families.setdefault(move.name, []).append(move)
        for moves in families.values():
            for move in random.sample(moves, min(each, len(moves))):
                self._refusal(kernel, move, runs, random)

    def _refusal(self, kernel: Kernel, move: Move, runs: list[Run], random: Random) -> None:
        verdict = dojoir.check(kernel, move)
        if verdict:
            return
        if verdict.status == "unknown":
            self.undecided[move.name] += 1
            return
        try:
            after = dojoir.apply(kernel, move, unsafe=True)
        except dojoir.DojoError:
            return  # the tree does not allow it
        if verdict.code in RULES:
            self.by_rule[move.name] += 1
            return
        key = move.name, verdict.code
        self.refused[key] += 1
        witness = list(calls(kernel, random, [dict(verdict.diagnostic.sizes)])) if verdict.diagnostic.sizes else []
        if is_harmless(after, [*witness, *runs]):
            kind = kind_of(kernel, move, [*witness, *runs])
            self.harmless[key] += 1
            self.kinds[move.name, kind] += 1
            if kind == "left" and self.kinds[move.name, kind] <= self.show:
                print(f"--- {verdict}\n{kernel}\n{after}\n")

    def __str__(self) -> str:
        lines = [
            f"{'move':<18} {'refused':>8} {'harmless':>9} {'':>7} {'chance':>7} {'dead':>6} {'left':>6} {'':>7}"
        ]
        lines[0] += f" {'by rule':>8}  harmless of refused, by code"
        for name in sorted({name for name, _ in self.refused} | set(self.by_rule)):
            codes = sorted(code for move, code in self.refused if move == name)
            refused, harmless = (sum(c[name, code] for code in codes) for c in (self.refused, self.harmless))
            shown = ", ".join(f"{code} {self.harmless[name, code]}/{self.refused[name, code]}" for code in codes)
            share = harmless / max(refused, 1)
            chance, dead = (self.kinds[name, kind] for kind in ("coincidence", "dead"))
            left = harmless - chance - dead
            line = f"{name:<18} {refused:>8} {harmless:>9} {share:>7.1%} {chance:>7} {dead:>6} {left:>6}"
            lines.append(f"{line} {left / max(refused, 1):>7.1%} {self.by_rule[name]:>8}  {shown}".rstrip())
        refused, harmless = self.refused.total(), self.harmless.total()
        chance, dead = (sum(n for (_, k), n in self.kinds.items() if k == kind) for kind in ("coincidence", "dead"))
        left, share = harmless - chance - dead, harmless / max(refused, 1)
        line = f"{'all':<18} {refused:>8} {harmless:>9} {share:>7.1%} {chance:>7} {dead:>6} {left:>6}"
        lines.append(f"{line} {left / max(refused, 1):>7.1%} {self.by_rule.total():>8}")
        if self.undecided:
            lines.append("undecided: " + ", ".join(f"{n} {c}" for n, c in sorted(self.undecided.items())))
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=6, help="candidates of a family that are tried on a kernel")
    parser.add_argument("--show", type=int, default=0, help="harmless refusals printed for each move and code")
    options = parser.parse_args()
    table = Table(options.show)
    for number in range(options.kernels):
        table.kernel(Random(f"{options.seed}:{number}"), options.each)
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
