"""The end of a search: the answer without the moves that do not matter, verified, certified and timed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import dojoir
from dojoir.search.play import Play
from dojoir.search.tuned import Gain, Tuned
from dojoir.search.variation import prefix

SECONDS = 30.0
"""How long the answer is made smaller at most."""

STEPS = 1_000_000_000
"""The steps within which the core of the checker certifies the answer, some tens of seconds: each of its moves was
proved when it was made, so that no answer here is not a no."""

BUDGET = 1.0
"""The seconds for the last timing, at each size."""


def close(
    play: Play,
    evaluator: Any,
    states: Sequence[dojoir.Evaluation],
    traces: Mapping[str, dojoir.Trace],
    stopped: str,
    timer: str,
    store: str | None,
) -> Tuned:
    """The answer of a search: the fastest that stands up to a last check; at worst the start."""
    ledger = play.ledger
    spent = {name: getattr(ledger, name) for name in ("moves", "states", "builds", "measurements", "seconds")}
    notes = []
    digests = {one.hash: one.digest for one in states}
    ranked = sorted(traces.values(), key=play.speed, reverse=True)
    for trace in [play.best, *(t for t in ranked if 0 < play.speed(t) <= play.speed(play.best))]:
        answer = smaller(play, evaluator, trace, digests) if states else trace
        if len(answer.moves) < len(trace.moves):
            notes.append(f"{len(trace.moves) - len(answer.moves)} moves that did not matter are left out")
        verdict = dojoir.certify(answer, STEPS)
        wrong = (
            verdict.reason
            if verdict.status == "illegal"
            else _wrong(play, evaluator, answer, timer if states else "static")
        )
        if wrong is None:
            if verdict.status == "unknown":
                notes.append(f"every move was proved, but not all certified: {verdict.reason}")
            break
        notes.append(f"a faster state did not stand up to the last check: {wrong}")
    else:
        answer = play.starts[0]
    ratio = to_optimize = None
    if timer == "measure" and states:
        if not getattr(evaluator, "remote", False) and is_slower_than_a_start(play, answer):
            answer = max(play.starts, key=play.speed)
            notes.append("what was found is slower than a start when both are built in full: that is the answer")
        ratio, to_optimize = compared(play, answer, evaluator)
        notes += _in_full(evaluator, answer)
    if store is not None:
        path = dojoir.schedules.store(answer, play.target.partition("@")[0], store)
        notes.append(f"stored as {path}")
    return Tuned(answer, ratio, to_optimize, stopped, tuple(states), spent, tuple(notes))


def _in_full(evaluator: Any, answer: dojoir.Trace) -> list[str]:
    """How far the build of the search is from that with all passes, where they differ."""
    if not hasattr(evaluator, "beside_full"):
        return []
    found = evaluator.beside_full(answer.kernel)
    if found.ratio is None or found.ratio_interval is None:
        return []
    low, high = (1 / end for end in reversed(found.ratio_interval))
    return [f"built in full it is {1 / found.ratio:.2f}x ({low:.2f} to {high:.2f}) as fast as the search built it"]


def smaller(play: Play, evaluator: Any, trace: dojoir.Trace, digests: dict[str, str]) -> dojoir.Trace:
    """The trace without the moves that turn out not to matter, from the last one to the first: what is left out is
    proved legal without, and not slower."""
    end = time.monotonic() + SECONDS
    at = len(trace.moves) - 1
    while at >= 0 and time.monotonic() < end:
        shorter = prefix(trace, at)
        with contextlib.suppress(dojoir.DojoError):
            for move in trace.moves[at + 1 :]:
                shorter.apply(move)
            if shorter.kernel == trace.kernel or _is_as_fast(play, evaluator, shorter, trace, digests):
                trace = shorter
        at -= 1
    return trace


def _is_as_fast(
    play: Play, evaluator: Any, shorter: dojoir.Trace, trace: dojoir.Trace, digests: dict[str, str]
) -> bool:
    for found in evaluator.evaluate([shorter.kernel], trace.kernel):
        digests[found.hash] = found.digest
        if found.status == "ok" and found.ratio is None:  # it is not raced against its own machine code
            return bool(found.digest) and found.digest == digests.get(trace.kernel.hash)
        if found.status == "ok" and found.ratio is not None:
            return bool(found.ratio > 1 - play.noise / 4 and min(found.ratios) > 1 - play.noise)
    return False


def _wrong(play: Play, evaluator: Any, trace: dojoir.Trace, timer: str) -> str | None:
    """What runs on seeds that the search did not use say against a trace."""
    if timer != "measure":
        return None
    if getattr(evaluator, "remote", False):
        with contextlib.suppress(dojoir.ToolchainError):  # nobody is left to ask; it was right when it was timed
            (found,) = evaluator.evaluate([trace.kernel], play.starts[0].kernel)
            return None if found.status in ("ok", "cut", "lost") else str(found.reason)
        return None
    seeds = [play.rng.randrange(1 << 31, 1 << 32) for _ in range(3)]
    try:
        report = dojoir.verify(trace.kernel, play.kernel, target=play.target, threads=play.threads, seeds=seeds)
    except dojoir.DojoError as error:
        return error.diagnostic.message
    return report.reason


def is_slower_than_a_start(play: Play, answer: dojoir.Trace) -> bool:
    """Whether the answer is slower beyond noise, at some size, than the fastest of the starts, both as `compile`
    builds them: a search builds more quickly, and what is left out of its answer may add up."""
    start = max(play.starts, key=play.speed)
    if start.kernel == answer.kernel or play.speed(start) <= 0:
        return False
    gains = (_gain(play, sizes, answer, start) for sizes in play.sizes)
    return any(gain is not None and gain.high < 1 for gain in gains)


def _gain(play: Play, sizes: Mapping[str, int], answer: dojoir.Trace, other: dojoir.Trace) -> Gain | None:
    """How many times as fast the answer is as another, timed in turn; None where one does not come to its end."""
    try:
        together = dojoir.measure_together(
            [answer.kernel, other.kernel],
            play.target,
            threads=play.threads,
            sizes=sizes,
            with_ceilings=False,
            budget=BUDGET,
        )
    except dojoir.DojoError:
        return None
    found = together.ratios[1]
    return Gain(found.median, found.low, found.high)


def compared(play: Play, answer: dojoir.Trace, evaluator: Any) -> tuple[Gain | None, Gain | None]:
    """How many times as fast the answer is as the start, and as what `optimize` gives: timed in turn in one run,
    the geometric mean over the sizes. None where one of them does not come to its end."""
    if getattr(evaluator, "remote", False):
        sizes = play.sizes[0] if len(play.sizes) == 1 else None
        known = dojoir.optimize(play.kernel, play.target, sizes=sizes, threads=play.threads)
        return _raced(evaluator, answer, play.starts[0]), _raced(evaluator, answer, known)
    gains: list[list[Gain]] = [[], []]
    for sizes in play.sizes:
        known = dojoir.optimize(play.kernel, play.target, sizes=sizes, threads=play.threads)
        for number, other in enumerate((play.starts[0], known)):
            gain = _gain(play, sizes, answer, other)
            if gain is not None:
                gains[number].append(gain)
    first, second = (_mean(each) if len(each) == len(play.sizes) else None for each in gains)
    return first, second


def _raced(evaluator: Any, answer: dojoir.Trace, other: dojoir.Trace) -> Gain | None:
    """How many times as fast one trace is as another, as some worker of a cluster finds it."""
    with contextlib.suppress(dojoir.ToolchainError):
        (found,) = evaluator.evaluate([answer.kernel], other.kernel)
        if found.ratio is not None and found.ratio_interval is not None:
            return Gain(found.ratio, *found.ratio_interval)
    return None


def _mean(gains: Sequence[Gain]) -> Gain:
    """The geometric means of medians and of both ends."""

    def mean(values: Sequence[float]) -> float:
        return math.exp(sum(math.log(value) for value in values) / len(values))

    return Gain(mean([g.median for g in gains]), mean([g.low for g in gains]), mean([g.high for g in gains]))
