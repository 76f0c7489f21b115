"""Random rewrites of kernels that may fail, the interpreter as judge of what a legal one may do beside its values.

Kernels divide by data, shift by data, index by data, have conditions, guards and scopes that may not run, and an
`inout` of which they touch a part. The rewrites are what moves make without being asked whether they are legal, and
new statements anywhere. A legal one ends in an error only for data for which the kernel before does, gives the same
values else, and touches no element of an `inout` that the kernel before leaves alone (`races.run` says which).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
from drawing.free import Free, Setting, drawn
from races import run

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.format import format_statement
from dojoir.ir.nodes import Access, Const, Kernel, Node, Statement
from dojoir.meaning.interpreter import Interpreter
from dojoir.passes.base.move import Refusal
from dojoir.proof.check import compare
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import find_failure
from dojoir.sets.limits import StepBudget, StepLimitReached

FAMILIES = (
    "extract_subexpression", "hoist", "stage", "extract", "inline", "delete_temporary", "split", "cut", "recompute",
    "split_scopes", "swap_siblings", "unswitch", "inline_subexpression", "unhoist", "unstage", "reuse_dims", "peel",
)  # fmt: skip
STEPS = 1_000_000
SIZES = (1, 2, 4)


def _declare(free: Free) -> list[Node]:
    size, role = free.size("N"), free.random.choice(("inout", "inout", "out"))
    free.bounds = [size]
    for own, name, dtype in (
        ("in", "x", "i32"), ("in", "d", "i32"), ("in", "q", "i64"), ("in", "ok", "bool"), (role, "y", "i32"),
        ("tmp", "t", "i32"),
    ):  # fmt: skip
        free.declare(own, name, dtype, (size + 2,))
    begun = [free.filled(free.buffers["t"], Access("x", (Affine.iterator(0),)))]
    return begun if role == "inout" else [*begun, free.filled(free.buffers["y"], Const(0))]


EFFECTS = Setting(
    "effects", _declare, nests=(1, 2, 2), depths=(2,), children=(1, 1, 2),
    nodes={"scope": 5, "guard": 1.5, "statement": 4}, extents={"bound": 3, "less": 1, "few": 0.5, "row": 0.5},
    conditions={"even": 1, "number": 1, "end": 1}, relations=(">=", "<"),
    indices={"first": 2, "row": 8, "data": 1}, tables=("q",), operators=("+=",), assigns=0.7, mixes=1.0,
    values={"access": 3, "number": 0.7, "risk": 4, "flag": 1}, risks=("d",), fuels=(0, 0, 1), asks=0.3,
    bounded=False, proved=False,
)  # fmt: skip


def rewrites(kernel: Kernel, random: Random, count: int) -> Iterator[tuple[str, Claim]]:
    """Some rewrites, with what they are called."""
    moves = [move for move in dojoir.candidates(kernel) if move.name in FAMILIES]
    random.shuffle(moves)
    order = sorted(moves, key=lambda move: FAMILIES.index(move.name) + 6 * random.random())
    for move in order[:count]:
        try:
            done = move.rewrite(kernel)
        except (dojoir.DojoError, Refusal):
            continue
        yield str(move), Claim(kernel, done.kernel, done.instances)
    free = Free(random, EFFECTS)
    _declare(free)
    for _ in range(2):
        site = random.choice(kernel.sites)
        at = (Affine.iterator(0) if site.scopes else Affine.constant(0),)
        target = Access(random.choice(("fresh", "fresh", "y")), at)
        value = free.plain(DTYPES["i32"], site.scopes[:1], random.choice((0, 1)), ("in", "tmp"))
        text = f'"{format_statement(Statement(target, "=", value))}"'
        line = f'restore_temporary("tmp fresh: i32[N + 2]", 6, {".".join(map(str, site.path))}, {text})'
        try:
            done = dojoir.parse_move(line).rewrite(kernel)
        except (dojoir.DojoError, Refusal):
            continue
        yield line, Claim(kernel, done.kernel, done.instances)


# -- the judge -------------------------------------------------------------------------------------------------
def data(size: int, seed: int) -> dict[str, Any]:
    """Arguments, a share of which end a run: divisors of 0, counts and indices out of range."""
    random, shape = np.random.default_rng(seed), size + 2
    wrong = seed % 3 == 2
    drawn = random.integers(0, 4, shape) if wrong else random.integers(1, 4, shape)
    places = random.integers(-1 if wrong else 0, shape + wrong, shape)
    return {
        "x": random.integers(-3, 4, shape, np.int32),
        "d": drawn.astype(np.int32),
        "q": places,
        "ok": random.random(shape) < 0.6,
        "y": random.integers(-3, 4, shape, np.int32),
    }


class Runs:
    """A kernel with what its runs end in."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.interpreter = kernel, Interpreter(kernel)
        self.known: dict[tuple[int, int], bytes | None] = {}

    def ended(self, size: int, seed: int) -> bytes | None:
        """What a run gives, or None for an error."""
        if (size, seed) not in self.known:
            given = data(size, seed)
            arguments = {
                buffer.name: given[buffer.name] for buffer in self.kernel.arguments if buffer.role != "out"
            }
            try:
                self.known[size, seed] = np.asarray(self.interpreter.run(arguments, {"N": size})["y"]).tobytes()
            except dojoir.DojoError:
                self.known[size, seed] = None
        return self.known[size, seed]


def judged(before: Runs, after: Runs) -> str | None:
    """What the new kernel does that the old one does not, or None."""
    for size in SIZES:
        for seed in range(6):
            was, now = before.ended(size, seed), after.ended(size, seed)
            if was is not None and now != was:
                return f"at N = {size}, seed {seed}: {'an error' if now is None else 'another result'}"
        if before.kernel.buffer("y").role == "inout":
            (wrote, touched), (writes, touches) = (_touched(runs.kernel, size) for runs in (before, after))
            if not (writes <= wrote and touches <= touched):
                return f"at N = {size}: touches {sorted((writes - wrote) | (touches - touched))}"
    return None


def _touched(kernel: Kernel, size: int) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
    """The elements of `y` that may be written, and those that may be touched."""
    touches = run(kernel, {"N": size})
    written = {at for _, _, (name, at), _ in touches if name == "y"}
    return written, written | {at for *_, reads in touches for name, at in reads if name == "y"}


def examine(random: Random, counts: Counter[str]) -> list[tuple[str, str]]:
    """Rewrites of one random kernel: what is wrong with the verdicts on them, and the claims as texts."""
    text = dojoir.to_text(drawn(EFFECTS, random))
    try:
        kernel = dojoir.parse(text)
        dojoir.prove(kernel)
    except dojoir.DojoError:
        counts["not well-formed before"] += 1
        return []
    found, before = [], Runs(kernel)
    for name, claim in rewrites(kernel, random, 8):
        try:
            failure = StepBudget(STEPS).ask(lambda claim=claim: find_failure(Claim(*claim.parts)))  # type: ignore[misc]
        except StepLimitReached:
            counts["undecided"] += 1
            continue
        said = "legal" if failure is None else "illegal"
        quick = compare(*claim.parts).status
        wrong = judged(before, Runs(claim.after))
        counts[f"{said}, {'right' if wrong is None else 'wrong'}"] += 1
        if (said == "legal" and wrong) or (quick == "legal" and said == "illegal"):
            found.append((f"{said} and {quick}, but {wrong}: {name}", f"{text}\n{dojoir.to_text(claim.after)}"))
    return found
