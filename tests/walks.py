"""Random walks: legal moves, one after another, from random kernels; after each the kernel means what it meant.

Also here: quick answers of the checker held against the full comparison, cached ones against fresh ones, and
refused moves made all the same to see whether they would have done harm.
"""

from __future__ import annotations

import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Thread

import numpy as np
import numpy.typing as npt
from differential import is_bitwise
from races import race
from runnable import agree, random_arguments, runnable_kernel
from tangled import tangled_kernel

import dojoir
from dojoir import dataflow
from dojoir.correspondence import Correspondence
from dojoir.dataflow import Verdict, compare, keeps_order, limited
from dojoir.ir import Kernel, Scope, format_path, holds
from dojoir.limits import StepLimitReached
from dojoir.passes.move import Move, Refusal, Rewrite

Arrays = Mapping[str, npt.NDArray[np.generic]]

LIBRARY = (
    "softmax", "log_softmax", "layernorm", "rmsnorm", "batchnorm_training", "groupnorm", "relu", "add", "swiglu",
    "residual_rmsnorm", "reduce_mean_0", "reduce_max", "argmax", "cumsum", "transpose", "dot", "gemv", "matmul",
    "matmul_tn", "bmm", "conv2d", "maxpool2d", "avgpool2d", "attention", "cross_entropy", "embedding", "jacobi2d",
    "heat3d", "matmul_int8",
)  # fmt: skip


@dataclass
class Failure:
    """What went wrong, the kernel it began with and the moves made from there, the last of them the wrong one."""

    what: str
    start: Kernel
    moves: list[Move]

    def text(self) -> str:
        return dojoir.to_text(self.start) + "\n# " + "; ".join(map(str, self.moves))


@dataclass(frozen=True)
class Run:
    """Sizes, arguments, and what a kernel made of them."""

    sizes: dict[str, int]
    inputs: Arrays
    results: Arrays


def some_sizes(kernel: Kernel, random: Random, most: int) -> dict[str, int] | None:
    """Runtime sizes up to `most` that keep the facts of the kernel, or None if none were found."""
    for _ in range(300):
        sizes = {name: random.randint(1, most) for name in kernel.runtime_sizes}
        if all(holds(fact, sizes, ()) for fact in kernel.facts):
            return sizes
    return None


def runs(kernel: Kernel, random: Random, count: int, most: int = 6) -> list[Run]:
    """Calls of a kernel at small sizes; the first at the smallest that were found."""
    found = []
    for n in range(count):
        sizes = some_sizes(kernel, random, min(1 + n, most) if n < 2 else most)
        sizes = some_sizes(kernel, random, 40) if sizes is None else sizes
        if sizes is not None:
            inputs = random_arguments(kernel, sizes, random)
            found.append(Run(sizes, inputs, dojoir.interpret(kernel, inputs, **sizes)))
    return found


def orders_count(kernel: Kernel) -> bool:
    """Whether the order of accumulations can change a result: floats are added or multiplied up."""
    return any(
        site.statement.op in {"+=", "*="} and kernel.buffer(site.statement.target.buffer).dtype.is_float
        for site in kernel.sites
    )


def disagreement(kernel: Kernel, calls: Sequence[Run], exact: bool) -> str | None:
    """How the interpreter's results of a kernel differ from those that the calls had, or None."""
    for call in calls:
        try:
            results = dojoir.interpret(kernel, call.inputs, **call.sizes)
        except dojoir.DojoError as error:
            return f"at {call.sizes}: {error}"
        wrong = agree(kernel, call.results, results, exact)
        if wrong is not None:
            return f"at {call.sizes}: {wrong}"
    return None


# -- moves ---------------------------------------------------------------------------------------------------
def draw_moves(kernel: Kernel, random: Random, count: int) -> list[Move]:
    """Some candidates, each family as likely as another, and some with parameters that are not listed."""
    families: dict[str, list[Move]] = {}
    for move in dojoir.candidates(kernel):
        families.setdefault(move.name, []).append(move)
    scopes = [format_path(path) for path, node in kernel.walk() if isinstance(node, Scope)]
    drawn: list[Move] = []
    while families and len(drawn) < count:
        if scopes and random.random() < 0.15:
            drawn.append(dojoir.parse_move(f"split({random.choice(scopes)}, {random.randint(1, 7)})"))
            continue
        name = random.choice(sorted(families))
        move = families[name].pop(random.randrange(len(families[name])))
        if not families[name]:
            del families[name]
        if name == "tile" and random.random() < 0.7:
            places = move.places()
            sizes = ", ".join(str(random.choice((1, 2, 3, 4, 5))) for _ in places)
            move = dojoir.parse_move(f"tile({', '.join(places)}, {sizes})")
        drawn.append(move)
    return drawn


def full_answer(before: Kernel, after: Kernel, done: Rewrite) -> Verdict | None:
    """What the checker says with none of its quick answers: the first refusal, or None."""
    strict = before.fp == "strict"
    before, after, instances = done.instances.forth(before, after)
    with limited(1_000_000):
        answers = (
            dataflow._declarations(before, after),
            dataflow._shape(before, after, instances),
            Correspondence(before, after, instances, strict).refusal(),
            dataflow._well_formed(before, after, instances),
            dataflow._marks(after),
        )
    return next((answer for answer in answers if answer is not None), None)


def quick_answer(before: Kernel, done: Rewrite) -> bool:
    with limited(1_000_000):
        return keeps_order(*done.instances.forth(before, done.kernel))


def in_new_thread(before: Kernel, done: Rewrite) -> Verdict:
    """The verdict of a thread of its own, which has cached nothing."""
    found: list[Verdict] = []
    thread = Thread(target=lambda: found.append(compare(before, done.kernel, done.instances)))
    thread.start()
    thread.join()
    return found[0]


def is_harmless(after: Kernel, calls: Sequence[Run]) -> bool:
    """Whether a kernel gives the same bits at all these calls, and its marked scopes are independent there."""
    return disagreement(after, calls, exact=True) is None and all(race(after, call.sizes) is None for call in calls)


# -- a walk --------------------------------------------------------------------------------------------------
@dataclass
class Walk:
    """A kernel, the moves made on it, and what came of them."""

    random: Random
    start: Kernel
    exact: bool = True
    """Whether any two legal kernels must agree bit for bit whatever the moves."""
    precision: bool = False
    targets: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def go(self, steps: int) -> None:
        self.trace = dojoir.Trace(self.start)
        self.calls = runs(self.start, self.random, 3)
        self.more = runs(self.start, self.random, 8) if self.precision else []
        self.bitwise = True
        try:
            for _ in range(steps):
                if not self._step():
                    break
            if self.trace.moves and not self.failures:
                self._end()
        except Exception:
            self.fail(traceback.format_exc(limit=-6))

    def fail(self, what: str, *more: Move) -> None:
        self.failures.append(Failure(what, self.start, [*self.trace.moves, *more]))

    def _step(self) -> bool:
        """Makes the first legal move of some that are drawn. Whether there was one, and it did what it should."""
        kernel = self.trace.kernel
        for move in draw_moves(kernel, self.random, 10):
            try:
                done = move.rewrite(kernel)
            except Refusal:
                self.counts["not possible"] += 1
                continue
            verdict = compare(kernel, done.kernel, done.instances)
            self.counts[f"verdicts {verdict.status}"] += 1
            self._examine(kernel, move, done, verdict)
            if self.failures:
                return False
            if verdict and (move.name != "place" or self.random.random() < 0.3):
                return self._make(kernel, move, done)
        return False

    def _examine(self, kernel: Kernel, move: Move, done: Rewrite, verdict: Verdict) -> None:
        if self.random.random() < 0.4:
            self.counts["held against the full comparison"] += 1
            try:
                quick, full = quick_answer(kernel, done), full_answer(kernel, done.kernel, done)
            except StepLimitReached:
                self.counts["full comparison undecided"] += 1
                return
            if full is not None and verdict:
                self.fail(f"legal, but in full: {full}", move)
            if full is not None and quick and full.code not in MARK_CODES:
                self.fail(f"quickly legal, but in full: {full}", move)
            if full is None and verdict.status == "illegal":
                self.fail(f"illegal, but not in full: {verdict}", move)
        if self.random.random() < 0.15:
            self.counts["held against a fresh thread"] += 1
            fresh = in_new_thread(kernel, done)
            if str(fresh) != str(verdict):
                self.fail(f"in a new thread: {fresh}\nwith what was cached: {verdict}", move)
        if self.precision and verdict.status == "illegal":
            self._harm(move, done, verdict)

    def _harm(self, move: Move, done: Rewrite, verdict: Verdict) -> None:
        """Counts a refusal, and whether the move would have done harm."""
        if not self.more:
            return
        key = f"{move.name}/{verdict.code}"
        self.counts[f"refused/{key}"] += 1
        if is_harmless(done.kernel, self.more):
            self.counts[f"harmless/{key}"] += 1

    def _make(self, kernel: Kernel, move: Move, done: Rewrite) -> bool:
        try:
            after = self.trace.apply(move)
        except dojoir.DojoError as error:
            self.fail(f"legal, but refused by the trace: {error}", move)
            return False
        self.counts["moves"] += 1
        self.counts[f"made {move.name}"] += 1
        if after != done.kernel:
            self.fail("the trace made another kernel")
        text = dojoir.to_text(after)
        if dojoir.parse(text) != after or dojoir.parse(dojoir.to_text(after, names=True)) != after:
            self.fail("the text gives another kernel")
        try:
            dojoir.prove(dojoir.parse(text))
        except dojoir.DojoError as error:
            self.fail(f"not well-formed afterwards: {error}")
        if not self.exact and self.bitwise:
            try:
                with limited(2_000_000):
                    strict = Correspondence(*done.instances.forth(kernel, after), True).refusal() is None
            except StepLimitReached:
                strict = False
            self.bitwise = strict
        wrong = disagreement(after, self.calls, self.exact or self.bitwise)
        if wrong is not None:
            self.fail(wrong)
        for call in self.calls:
            found = race(after, call.sizes)
            if found is not None:
                self.fail(f"at {call.sizes}: {found}")
        return not self.failures

    def _end(self) -> None:
        verdict = dojoir.certify(self.trace)
        self.counts[f"certified {verdict.status}"] += 1
        if not verdict:
            self.fail(f"not certified: {verdict.status}: {verdict}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json")
            self.trace.save(path)
            loaded = dojoir.Trace.load(path)
            if loaded.kernel != self.trace.kernel or loaded.replay() != self.trace.kernel:
                self.fail("the trace replays to another kernel")
        for target in self.targets:
            wrong = self._compiled(target)
            if wrong is not None:
                self.fail(f"{target}: {wrong}")

    def _compiled(self, target: str) -> str | None:
        kernel = self.trace.kernel
        try:
            compiled = dojoir.compile(kernel, target=target, threads=2)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        exact = (self.exact or self.bitwise) and is_bitwise(kernel)
        for call in self.calls:
            wrong = agree(kernel, call.results, compiled.run(call.inputs, **call.sizes), exact)
            if wrong is not None:
                return f"at {call.sizes}: {wrong}"
        return None


MARK_CODES = frozenset(
    {"carried-value", "shared-element", "nested-mark", "mark-clash", "open-extent", "large-extent", "lane-extent"}
)
"""The refusals that are about marks, of which the quick answer says nothing."""


def start_kernel(random: Random) -> tuple[Kernel, bool]:
    """A kernel to walk from, and whether all its results must stay the same bit for bit."""
    kind = random.random()
    if kind < 0.25:
        kernel = dojoir.kernels.load(random.choice(LIBRARY))
        return kernel, not orders_count(kernel) and kernel.fp != "fast"
    if kind < 0.5:
        exact = random.random() < 0.6
        return runnable_kernel(random, exact, marks=random.random() < 0.5), exact
    kernel = tangled_kernel(random)
    return kernel, not orders_count(kernel) or kernel.fp == "strict"


def walk(random: Random, targets: tuple[str, ...], precision: bool, longest: int = 30) -> Walk:
    """One walk of 1 to `longest` moves."""
    kernel, exact = start_kernel(random)
    steps = min(random.choice((1, 2, 3, 5, 8, 8, 12, 20, 30)), longest)
    its_targets = targets if random.random() < 0.15 else targets[:1]
    made = Walk(random, kernel, exact, precision, its_targets)
    made.go(steps)
    return made
