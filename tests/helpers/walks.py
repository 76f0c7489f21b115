"""Random walks: legal moves, one after another, from random kernels; after each the kernel means what it meant.

Also here: quick answers of the checker held against the full comparison, and cached ones against fresh ones.
`tests/helpers/precision.py` makes the moves that are refused.
"""

from __future__ import annotations

import json
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from threading import Thread
from time import process_time

import numpy as np
import numpy.typing as npt
from agreement import agree, random_arguments
from differential import is_bitwise
from drawing import draw
from races import TooLong, distinct_data, race

import dojoir
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Cast, Expr, Kernel, Op, Scope, format_path, holds
from dojoir.passes import MOVES
from dojoir.passes.base.move import Move, Refusal, Rewrite
from dojoir.proof.check import STEP_LIMIT, Verdict, compare, is_exact, is_legal, is_plain, keeps_order
from dojoir.proof.claim import Claim
from dojoir.proof.core.data_writes import claim_without_data_writes
from dojoir.proof.explain.verdicts import check as core_check
from dojoir.proof.patterns.pattern_table import is_plain_both_ways
from dojoir.proof.refute.small_run import seen
from dojoir.sets.limits import StepLimitReached, limited

Arrays = Mapping[str, npt.NDArray[np.generic]]

LIBRARY = (
    "softmax", "log_softmax", "layernorm", "rmsnorm", "batchnorm_training", "groupnorm", "relu", "add", "swiglu",
    "residual_rmsnorm", "reduce_mean_0", "reduce_max", "argmax", "cumsum", "transpose", "dot", "gemv", "matmul",
    "matmul_tn", "bmm", "conv2d", "maxpool2d", "avgpool2d", "attention", "cross_entropy", "embedding", "jacobi2d",
    "heat3d", "matmul_int8",
)  # fmt: skip

QUICK = (
    "softmax", "layernorm", "rmsnorm", "relu", "add", "swiglu", "reduce_mean_0", "reduce_max", "argmax", "cumsum",
    "transpose", "dot", "gemv", "matmul", "jacobi2d", "residual_rmsnorm", "saxpy", "bias_relu",
)  # fmt: skip
"""Kernels of the library with few statements."""

PLAIN = frozenset({
    "label", "unlabel", "place", "pad_dims", "swizzle", "reorder_dims", "unmark", "prefetch", "unprefetch",
    "stream", "stream_large", "unstream",
})  # fmt: skip
"""The moves that have nothing to do with the order of statements: they are drawn less often."""

GROWING = frozenset(
    {
        "unroll", "peel", "cut", "tile", "split", "shift", "skew", "add_scope", "add_guard", "stage",
        "split_reduction", "recompute",
    }
)  # fmt: skip
"""The moves that nearly always can be made, and make kernels larger: large kernels are spared them."""


TOO_LONG = 1800
"""A kernel whose text has more characters is not walked on from: nests of quotients take isl very long."""


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


def runs(kernel: Kernel, random: Random, limits: Sequence[int]) -> list[Run]:
    """Calls of a kernel at small sizes: one for each of `limits`, the largest size that it may have."""
    found = []
    for most in limits:
        sizes = some_sizes(kernel, random, most)
        sizes = some_sizes(kernel, random, 40) if sizes is None else sizes
        if sizes is not None:
            inputs = random_arguments(kernel, sizes, random)
            found.append(Run(sizes, inputs, dojoir.interpret(kernel, inputs, **sizes)))
    return found


def orders_count(kernel: Kernel) -> bool:
    """Whether the order of accumulations can change a result: floats are added or multiplied up."""
    return any(
        site.statement.accumulation in {"+=", "*="} and kernel.buffer(site.statement.target.buffer).dtype.is_float
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
def draw_moves(kernel: Kernel, random: Random, count: int) -> Iterator[Move]:
    """Some candidates, each family as likely as another, and some with parameters that are not listed."""
    large = len(kernel.sites) > 6 or max((len(site.scopes) for site in kernel.sites), default=0) > 3
    grows = 0.02 if large else 0.2
    weights = {kind: 0.3 if kind.name in PLAIN else grows if kind.name in GROWING else 1.0 for kind in MOVES}
    listed: dict[type[Move], list[Move]] = {}
    scopes = [format_path(path) for path, node in kernel.walk() if isinstance(node, Scope)]
    while weights and count > 0:
        if scopes and not large and random.random() < 0.03:
            count -= 1
            yield dojoir.parse_move(f"split({random.choice(scopes)}, {random.randint(1, 7)})")
            continue
        (kind,) = random.choices([*weights], [*weights.values()])
        if kind not in listed:
            listed[kind] = list(kind.candidates(kernel))
        if not listed[kind]:
            del weights[kind]
            continue
        move = listed[kind].pop(random.randrange(len(listed[kind])))
        if kind.name == "tile" and random.random() < 0.7:
            places = move.places()
            sizes = ", ".join(str(random.choice((1, 2, 3, 4, 5))) for _ in places)
            move = dojoir.parse_move(f"tile({', '.join(places)}, {sizes})")
        count -= 1
        yield move


def full_answer(before: Kernel, after: Kernel, done: Rewrite) -> Verdict | None:
    """What the core alone says: the first refusal, or None."""
    with limited(1_000_000):
        verdict = core_check(Claim(before, after, done.instances))
    return None if verdict else verdict


def quick_answer(before: Kernel, done: Rewrite) -> bool:
    if done.instances.rule is not None:
        return False
    with limited(1_000_000):
        claim = claim_without_data_writes(Claim(before, done.kernel, done.instances))
        plain = is_plain_both_ways if done.instances.backward else is_plain
        return isinstance(claim, Claim) and (plain(claim.forth) or keeps_order(claim.forth))


def in_new_thread(before: Kernel, done: Rewrite) -> Verdict:
    """The verdict of a thread of its own, which has cached nothing."""
    found: list[Verdict] = []
    thread = Thread(target=lambda: found.append(compare(before, done.kernel, done.instances)))
    thread.start()
    thread.join()
    return found[0]


def _says_why(verdict: Verdict, in_full: Verdict, before: Kernel, done: Rewrite) -> bool:
    """Whether a verdict gives the reason of the full comparison, or, where that takes long, what a run shows."""
    if verdict.code == in_full.code:
        return True
    instances = done.instances
    shown = seen(before, done.kernel, instances) if instances.rule is None and not instances.backward else None
    return shown is not None and verdict.code == shown.code


# -- a walk --------------------------------------------------------------------------------------------------
@dataclass
class Walk:
    """A kernel, the moves made on it, and what came of them.

    Every walk, at every step: the interpreter gives what it gave, the text is read back in both styles, the kernel
    is well-formed from scratch, marked scopes are independent; at the end: the trace is certified, saved, loaded
    and replayed.
    """

    random: Random
    start: Kernel
    exact: bool = True
    """Whether any two legal kernels must agree bit for bit whatever the moves."""
    depth: float = 0.05
    """How often a verdict is held against the full comparison and against that of a fresh thread."""
    targets: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def go(self, steps: int) -> None:
        began = process_time()
        self.trace = dojoir.Trace(self.start)
        self.calls = runs(self.start, self.random, (1, 2, 3, 5))
        self.judged = 0
        try:
            for _ in range(steps):
                if len(dojoir.to_text(self.trace.kernel)) > TOO_LONG or not self._step():
                    break
            if self.trace.moves and not self.failures:
                self._end()
        except Exception:
            self.fail(traceback.format_exc(limit=-6))
        self.seconds = process_time() - began

    def fail(self, what: str, *more: Move) -> None:
        self.failures.append(Failure(what, self.start, [*self.trace.moves, *more]))

    def _step(self) -> bool:
        """Makes the first legal move of some that are drawn. Whether there was one, and it did what it should."""
        kernel = self.trace.kernel
        for move in draw_moves(kernel, self.random, 10):
            verdict = dojoir.check(kernel, move)
            self.counts[f"verdicts {verdict.status}"] += 1
            if self.random.random() < self.depth:
                self._examine(kernel, move, verdict)
            if self.failures:
                return False
            if verdict:
                return self._make(kernel, move)
        return False

    # -- the checker against itself ------------------------------------------------------------------------
    def _examine(self, kernel: Kernel, move: Move, verdict: Verdict) -> None:
        try:
            done = move.rewrite(kernel)
        except (Refusal, ArgumentError):
            return
        self.counts["held against the full comparison"] += 1
        try:
            quick, full = quick_answer(kernel, done), full_answer(kernel, done.kernel, done)
        except StepLimitReached:
            self.counts["full comparison undecided"] += 1
        else:
            if full is not None and verdict:
                self.fail(f"legal, but in full: {full}", move)
            elif full is not None and quick and full.code not in MARK_CODES:
                self.fail(f"quickly legal, but in full: {full}", move)
            if full is None and verdict.status == "illegal":
                self.fail(f"illegal, but not in full: {verdict}", move)
        listed = is_legal(kernel, done.kernel, done.instances)
        if verdict and not listed and is_legal(kernel, done.kernel, done.instances, 10 * STEP_LIMIT):
            self.counts["undecided by moves()"] += 1
        elif listed != bool(verdict) and verdict.status != "unknown":
            self.fail(f"moves() says {'legal' if listed else 'not legal'}, and check() {verdict}", move)
        fresh = in_new_thread(kernel, done)
        self.counts["held against a fresh thread"] += 1
        if "unknown" in {fresh.status, verdict.status}:
            self.counts["undecided in a fresh thread"] += fresh.status != verdict.status
        elif fresh.status != verdict.status or not _says_why(verdict, fresh, kernel, done):
            self.fail(f"in a new thread: {fresh}\nwith what was cached: {verdict}", move)

    # -- one move ------------------------------------------------------------------------------------------
    def _make(self, kernel: Kernel, move: Move) -> bool:
        try:
            after = self.trace.apply(move)
        except dojoir.DojoError as error:
            self.fail(f"legal, but refused by the trace: {error}", move)
            return False
        self.counts["moves"] += 1
        self.counts[f"made {move.name}"] += 1
        self._read_back(after)
        self._run(after)
        if self.random.random() < self.depth:
            self._take_back(kernel, move, after)
        return not self.failures

    def _read_back(self, kernel: Kernel) -> None:
        again = dojoir.parse(dojoir.to_text(kernel))
        if again != kernel:
            self.fail("the text gives another kernel")
        try:
            dojoir.prove(again)
        except dojoir.DojoError as error:
            if error.diagnostic.code == "undecided":
                self.counts["well-formedness undecided from the text"] += 1
            else:
                self.fail(f"not well-formed afterwards: {error}")

    def _run(self, kernel: Kernel) -> None:
        """Runs the kernel at the smallest sizes and at one of the others, by turns."""
        turn = len(self.trace.moves)
        calls = self.calls[:1] + ([self.calls[1 + turn % (len(self.calls) - 1)]] if len(self.calls) > 1 else [])
        wrong = disagreement(kernel, calls, exact=True)
        if wrong is None:
            self.counts["steps with the same bits"] += 1
        else:
            self._judge(kernel, calls, wrong)
        for call in self.calls[1:2]:
            try:
                found = race(kernel, call.sizes, distinct_data(kernel, call.inputs))
            except TooLong:
                self.counts["too many iterations to look for races"] += 1
                continue
            if found is not None:
                self.fail(f"at {call.sizes}: {found}")

    def _judge(self, kernel: Kernel, calls: Sequence[Run], wrong: str) -> None:
        """Bits differ. That is right only where a move has reordered float accumulations, or replaced algebra, and
        then only within the tolerance."""
        beyond = disagreement(kernel, calls, exact=False)
        if self.exact or beyond is not None:
            self.fail(beyond or wrong)
            return
        self.counts["steps within tolerance"] += 1
        if self.judged < 0:
            return
        before = self.start if not self.judged else self.trace.steps[self.judged - 1].kernel
        for step in self.trace.steps[self.judged :]:
            try:
                with limited(2_000_000):
                    exact = is_exact(before, step.kernel, step.done.instances)
            except StepLimitReached:
                exact = False
            before, self.judged = step.kernel, self.judged + 1
            if not exact:
                self.judged = -1
                return
        self.fail(f"every move is exact, but {wrong}")

    def _take_back(self, before: Kernel, move: Move, after: Kernel) -> None:
        """The inverse of the move is legal and gives the text before it; so does undoing it."""
        if self.trace.undo() != before or self.trace.apply(move) != after:
            self.fail("undone and made again, it gives another kernel")
        try:
            back = move.inverse(before)
        except ArgumentError:
            self.counts["without an inverse"] += 1
            return
        self.counts["taken back"] += 1
        try:
            earlier = dojoir.apply(after, back)
        except dojoir.DojoError as error:
            self.fail(f"{back} does not take {move} back: {error}")
            return
        if earlier.hash != before.hash:
            self.fail(f"{back} takes {move} back to another kernel")

    # -- the end -------------------------------------------------------------------------------------------
    def _end(self) -> None:
        kernel = self.trace.kernel
        if dojoir.parse(dojoir.to_text(kernel, names=True)) != kernel:
            self.fail("the text with names gives another kernel")
        wrong = disagreement(kernel, self.calls, exact=self.exact)
        if wrong is not None:
            self.fail(wrong)
        verdict = dojoir.certify(self.trace)
        self.counts[f"certified {verdict.status}"] += 1
        self.counts["moves certified"] += len(self.trace.moves)
        if not verdict:
            self.fail(f"not certified: {verdict.status}: {verdict}")
        again = dojoir.Trace.from_json(json.loads(json.dumps(self.trace.to_json())), "<string>")
        if again.kernel != kernel:
            self.fail("the trace replays to another kernel")
        if self.random.random() < self.depth:
            self._save_and_load()
        for target in self.targets:
            self.counts[f"run by {target}"] += 1
            wrong = self._compiled(target)
            if wrong is not None:
                self.fail(f"{target}: {wrong}")

    def _save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json")
            self.trace.save(path)
            if dojoir.Trace.load(path).kernel != self.trace.kernel:
                self.fail("the trace that was saved gives another kernel")

    def _compiled(self, target: str) -> str | None:
        kernel = self.trace.kernel
        try:
            compiled = dojoir.compile(kernel, target=target, threads=2)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        exact = self.exact and is_bitwise(kernel)
        for call in self.calls:
            wrong = agree(kernel, call.results, compiled.run(call.inputs, **call.sizes), exact)
            if wrong is not None:
                return f"at {call.sizes}: {wrong}"
        return None


MARK_CODES = frozenset(
    {
        "carried-value", "shared-element", "nested-mark", "mark-clash", "open-extent", "large-extent",
        "lane-extent", "dependent-extent", "bad-hint", "duplicate-hint", "idle-hint", "lost-hint", "unused-hint",
        "not-this-instruction",
    }
)  # fmt: skip
"""The refusals that are about marks and hints, of which the quick answer says nothing."""


# -- kernels -------------------------------------------------------------------------------------------------
def start_kernel(random: Random, small: float = 0.0) -> tuple[Kernel, bool]:
    """A kernel to walk from, and whether all its results must stay the same bit for bit. `small` is how often it
    is one with few statements."""
    is_small = random.random() < small
    match random.random():
        case kind if kind < 0.03:
            kernel = instruction_kernel(random)
            return kernel, _stays_exact(kernel)
        case kind if kind < 0.25:
            kernel = library_kernel(random, is_small)
            return kernel, _stays_exact(kernel)
        case kind if kind < (0.4 if is_small else 0.5):
            exact = random.random() < 0.6
            kernel = draw("runnable", random, exact=exact, marks=random.random() < 0.5, small=is_small)
            return kernel, exact and kernel.fp != "fast" and (kernel.fp == "strict" or not adds_products(kernel))
    kernel = draw("tangled", random, small=is_small)
    return kernel, _stays_exact(kernel)


def library_kernel(random: Random, quick: bool) -> Kernel:
    """A kernel of the library, sometimes at small fixed sizes, sometimes `strict` or `fast`."""
    kernel = dojoir.kernels.load(random.choice(QUICK if quick else LIBRARY))
    if quick and random.random() < 0.4:
        sizes = some_sizes(kernel, random, 6)
        kernel = kernel if sizes is None else kernel.specialize(**sizes)
    mode = random.choice(("reassoc", "reassoc", "strict", "fast", "fast"))
    return replace(kernel, fp=mode)


def instruction_kernel(random: Random) -> Kernel:
    """The body of an instruction by itself, so that `use_instr` finds it."""
    names = [name for name in dojoir.instructions.names() if "reduce" not in name]
    return dojoir.instructions.load(random.choice(names)).body.with_fp(random.choice(("reassoc", "strict")))


def _stays_exact(kernel: Kernel) -> bool:
    return kernel.fp == "strict" or not (kernel.fp == "fast" or orders_count(kernel) or adds_products(kernel))


def adds_products(kernel: Kernel) -> bool:
    """Whether `to_fma` may change how a float is rounded, now or when expressions have been put together."""
    used = {name for site in kernel.sites for name in operations(site.statement.value)}
    return "fma" in used or ("mul" in used and not used.isdisjoint({"add", "sub"}))


def operations(expr: Expr) -> Iterator[str]:
    """The names of the operations in an expression."""
    match expr:
        case Op(name, args):
            yield name
            for arg in args:
                yield from operations(arg)
        case Cast(_, arg):
            yield from operations(arg)
        case _:
            return


def walk(
    random: Random, targets: tuple[str, ...] = (), steps: int | None = None, small: float = 0.0, depth: float = 0.05
) -> Walk:
    """One walk of 1 to 30 moves, or of `steps`."""
    kernel, exact = start_kernel(random, small)
    made = Walk(random, dojoir.parse(dojoir.to_text(kernel)), exact, depth, targets)
    made.go(random.choice((1, 3, 5, 8, 12, 16, 20, 25, 30, 30)) if steps is None else steps)
    return made
