"""The end of a search: the answer without the moves that do not matter, verified, certified and timed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.search.budget import OF_MODELS
from dojoir.search.idle import without_idle
from dojoir.search.play import Play
from dojoir.search.storing import Racing, by_estimate, stored
from dojoir.search.tuned import Gain, Race, Tuned
from dojoir.search.variation import prefix

SECONDS = 30.0
"""How long the answer is made smaller at most."""

STEPS = 1_000_000_000
"""The steps within which the core of the checker certifies the answer, some tens of seconds. Each of its moves was
proved when it was made, so that running out of steps here does not refute it."""

STEPS_TAKE = 30.0
"""About how many seconds that is: fewer steps are taken where little is left of a budget."""

BUDGET = 1.0
"""The seconds for the last timing, at each size; fewer where little is left of a budget."""

LONGEST, TIME_LIMIT, LEAST_LEFT = 3600.0, 60.0, 2.0
"""Seconds of the last timing: how long it waits for the machine's lease and how long it may take where the budget
has no limit of seconds, and the least that it is given."""

REST = 8.0
"""About how many seconds the last checks take behind making the answer smaller."""

WAITED = 1.0
"""Seconds of waits for others that time from which on they are told."""

EQUAL = Gain(1.0, 1.0, 1.0)
"""How many times as fast a kernel is as itself."""

FAR = 0.15
"""By what share the last ratio may differ from that of the search for nothing to be said of it."""


def close(
    play: Play,
    evaluator: Any,
    states: Sequence[runtime.Evaluation],
    traces: Mapping[str, dojoir.Trace],
    stopped: str,
    timer: str,
    store: str | None,
    told: float | None = None,
) -> Tuned:
    """The answer of a search: the fastest that stands up to a last check; at worst the start. `told` is how many
    times as fast as the start the best was held to be."""
    ledger = play.ledger
    notes: list[str] = []
    digests = {one.hash: one.digest for one in states}
    ranked = sorted(traces.values(), key=play.speed, reverse=True)
    first = max((play.best, *play.known), key=play.speed)
    measured = timer == "measure" and bool(states)
    here = measured and not getattr(evaluator, "remote", False)
    plan, to_optimize = _plan_instead(play, first) if here else (None, None)
    others = [first, *(t for t in ranked if 0 < play.speed(t) <= play.speed(first))]
    for trace in others if plan is None else [plan, *others]:
        answer = smaller(play, evaluator, trace, digests) if states and trace is not plan else trace
        if len(answer.moves) < len(trace.moves):
            notes.append(f"{len(trace.moves) - len(answer.moves)} moves that did not matter are left out")
        wrong = _fault(play, evaluator, answer, timer if states else "static", notes)
        if wrong is None:
            break
        notes.append(f"a faster state did not stand up to the last check: {wrong}")
    else:
        trace = answer = play.starts[0]
    to_optimize = to_optimize if trace is (first if plan is None else plan) else None
    ratio: Gain | None = None
    best = answer if first is play.best else None
    if measured:
        if answer is plan:
            notes.append("what was found is not faster than what optimize gives: that is the answer")
        elif here:
            timed, answer = answer, _not_below(play, evaluator, answer, notes)
            to_optimize = to_optimize if answer is timed else None
        found, answer = answer, _busy(play, answer, notes)
        ratio, to_optimize = compared(play, answer, evaluator, notes, to_optimize)
        notes += _in_full(evaluator, answer) if play.ledger.seconds_left > 0 else []
        notes += _otherwise(ratio, told) if found is best else []
    if store is not None:
        race = by_estimate(play) if timer == "static" else _race(play, evaluator)
        notes.append(stored(play, answer, store, timer, race))
    spent = {name: getattr(ledger, name) for name in ("moves", "states", "builds", "measurements", "seconds")}
    lost = next((one.reason for one in reversed(states) if one.status == "lost" and "lease" in one.stages), "")
    by = play.busy or lost or (getattr(evaluator, "waited_for", "") if ledger.waited > WAITED else "")
    if ledger.waited > WAITED or by:
        notes.append(f"{ledger.waited:.3g} s went into waiting for others that time{f': {by}' if by else ''}")
        spent["waited"] = ledger.waited
    spent |= {name: getattr(ledger, name) for name in OF_MODELS if getattr(ledger, name)}
    return Tuned(answer, ratio, to_optimize, stopped, tuple(states), spent, tuple(notes))


def _otherwise(ratio: Gain | None, told: float | None) -> list[str]:
    """The note where the search reported another ratio: the machine was busy at one of the times."""
    if ratio is None or not told or abs(math.log(ratio.median / told)) <= math.log(1 + FAR):
        return []
    return [f"under way it was timed to be {told:.2f}x as fast as the start: the machine was busy then or now"]


def _busy(play: Play, answer: dojoir.Trace, notes: list[str]) -> dojoir.Trace:
    """The answer without the moves that change nothing of its code, unless its certificate refutes that."""
    shorter = without_idle(answer, play.target, min(SECONDS, max(2.0, play.ledger.seconds_left - REST)))
    if len(shorter.moves) == len(answer.moves) or _certified(play, shorter).status == "illegal":
        return answer
    notes.append(f"{len(answer.moves) - len(shorter.moves)} moves that changed nothing of the code are left out")
    return shorter


def _not_below(play: Play, evaluator: Any, answer: dojoir.Trace, notes: list[str]) -> dojoir.Trace:
    """The answer, or what is faster when both are built in full: a start, or what a database knew."""
    if is_slower_than_a_start(play, answer):
        answer = max(play.starts, key=play.speed)
        notes.append("what was found is slower than a start when both are built in full: that start is the answer")
    for known in play.known:
        if is_slower(play, answer, known) and _fault(play, evaluator, known, "measure", notes) is None:
            answer = known
            notes.append(
                "what was found is slower than what the database knew: the trace of the database is the answer"
            )
    return answer


def _plan_instead(play: Play, found: dojoir.Trace) -> tuple[dojoir.Trace | None, Gain | None]:
    """Compares `found` with what `optimize` gives: both are timed in turn, as `compile` builds them.

    Returns the trace of `optimize` if `found` is not faster beyond noise, else None; and the speed-up of the better
    one over that trace, or None if it is not known."""
    one = play.sizes[0] if len(play.sizes) == 1 else None
    try:
        plan = dojoir.optimize(play.kernel, play.target, sizes=one, threads=play.threads)
    except dojoir.DojoError:  # of a folder of schedules: `compared` says so
        return None, None
    equal = EQUAL if one is not None else None
    if not play.hints or plan.kernel == found.kernel:
        return None, equal if plan.kernel == found.kernel else None
    gains = [_gain(play, sizes, found, plan) for sizes in play.sizes]
    known = [gain for gain in gains if gain is not None]
    gain = _mean(known) if len(known) == len(gains) else None
    if play.speed(found) > play.speed(plan) > 0 if gain is None else gain.low > 1:
        return None, gain if one is not None else None
    return plan, equal


def _fault(play: Play, evaluator: Any, trace: dojoir.Trace, timer: str, notes: list[str]) -> str | None:
    """Why a trace cannot be the answer; None where it is certified, and right on seeds of its own."""
    try:
        verdict = _certified(play, trace)
    except dojoir.DojoError as error:
        return error.diagnostic.message
    if verdict.status == "illegal":
        return verdict.reason
    wrong = _wrong(play, evaluator, trace, timer)
    if wrong is None and verdict.status == "unknown":
        notes.append(f"every move was proved, but not all certified: {verdict.reason}")
    return wrong


def _certified(play: Play, trace: dojoir.Trace) -> dojoir.Verdict:
    """The certificate of a trace, in steps for which there is time."""
    share = min(1.0, max(play.ledger.seconds_left, 2.0) / 2 / STEPS_TAKE)
    return dojoir.certify(trace, max(1, int(STEPS * share)))


def _in_full(evaluator: Any, answer: dojoir.Trace) -> list[str]:
    """How far the build of the search is from that with all passes, where they differ."""
    if not hasattr(evaluator, "beside_full"):
        return []
    try:
        found = evaluator.beside_full(answer.kernel)
    except dojoir.DojoError as error:
        return [f"it was not timed as the search built it: {error.diagnostic.message}"]
    if found.ratio is None or found.ratio_interval is None:
        return []
    low, high = (1 / end if end else math.inf for end in reversed(found.ratio_interval))
    return [f"built in full it is {Gain(1 / found.ratio, low, high)} as fast as the search built it"]


def smaller(play: Play, evaluator: Any, trace: dojoir.Trace, digests: dict[str, str]) -> dojoir.Trace:
    """The trace without the moves that turn out not to matter, from the last one to the first: what is left out is
    proved legal without, and not slower."""
    end = time.monotonic() + min(SECONDS, max(0.0, play.ledger.seconds_left - REST))
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
    """The error of a trace in runs on seeds that the search did not use."""
    if timer != "measure":
        return None
    if getattr(evaluator, "remote", False):
        with contextlib.suppress(dojoir.DojoError):  # nobody is left to ask; it was right when it was timed
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
    builds them. A search builds more quickly, and what is left out of its answer may add up."""
    return is_slower(play, answer, max(play.starts, key=play.speed))


def is_slower(play: Play, answer: dojoir.Trace, other: dojoir.Trace) -> bool:
    """Whether the answer is slower beyond noise than another trace, at some size, both as `compile` builds them."""
    if other.kernel == answer.kernel or play.speed(other) <= 0:
        return False
    gains = (_gain(play, sizes, answer, other) for sizes in play.sizes)
    return any(gain is not None and gain.high < 1 for gain in gains)


def _gain(
    play: Play, sizes: Mapping[str, int], answer: dojoir.Trace, other: dojoir.Trace, threads: int | None = None
) -> Gain | None:
    """How many times as fast the answer is as another, timed in turn; None where one does not come to its end, or
    others time on the machine until there are no seconds left."""
    if answer.kernel == other.kernel:
        return EQUAL
    left = play.ledger.seconds_left
    if left <= 0:
        return None
    try:
        together = dojoir.measure_together(
            [answer.kernel, other.kernel],
            play.target,
            threads=play.threads if threads is None else threads,
            sizes=sizes,
            with_ceilings=False,
            budget=min(BUDGET, max(BUDGET / 10, left / REST)),
            time_limit=max(left, LEAST_LEFT) if isfinite(left) else TIME_LIMIT,
            longest_wait=min(left / 2, LONGEST),  # the other half is for the checks
        )
    except dojoir.DojoError as error:
        if error.diagnostic.code == "busy":
            play.busy, play.ledger.waited = error.diagnostic.message, play.ledger.waited + min(left / 2, LONGEST)
        return None
    found = runtime.ratio_of(together.measurements[1], together.measurements[0])
    return Gain.of(found, Race(answer.kernel.hash, dict(sizes), together))


def compared(
    play: Play, answer: dojoir.Trace, evaluator: Any, notes: list[str], to_optimize: Gain | None = None
) -> tuple[Gain | None, Gain | None]:
    """How many times as fast the answer is as the start, and as what `optimize` gives: timed in turn in one run,
    the geometric mean over the sizes. None where one of them does not come to its end. The second is
    `to_optimize`, where that is known."""
    race, remote = _race(play, evaluator), getattr(evaluator, "remote", False)
    gains: list[list[Gain | None]] = [[], []]
    for sizes in play.sizes:
        gains[0].append(race(answer, play.starts[0], sizes, play.threads))
        if to_optimize is not None:
            gains[1].append(to_optimize)
            continue
        of = None if remote and len(play.sizes) > 1 else sizes
        try:
            known = dojoir.optimize(play.kernel, play.target, sizes=of, threads=play.threads)
        except dojoir.DojoError as error:  # of a folder of schedules, which is the caller's
            notes.append(f"optimize gives nothing to compare with: {error.diagnostic.message}")
            gains[1].append(None)
        else:
            gains[1].append(race(answer, known, sizes, play.threads))
        if remote:  # a worker times at all sizes
            break
    first, second = (_mean([gain for gain in each if gain is not None]) if all(each) else None for each in gains)
    return first, second


def _race(play: Play, evaluator: Any) -> Racing:
    """The ratio of two traces timed in turn: here, or some worker of a cluster, which knows the search's sizes
    only."""

    def here(one: dojoir.Trace, other: dojoir.Trace, sizes: Mapping[str, int], threads: int) -> Gain | None:
        return _gain(play, sizes, one, other, threads)

    def there(one: dojoir.Trace, other: dojoir.Trace, sizes: Mapping[str, int], threads: int) -> Gain | None:
        is_known = sizes in play.sizes and threads == play.threads
        return _raced(evaluator, one, other) if is_known else None

    return there if getattr(evaluator, "remote", False) else here


def _raced(evaluator: Any, answer: dojoir.Trace, other: dojoir.Trace) -> Gain | None:
    """How many times as fast one trace is as another, as some worker of a cluster finds it."""
    with contextlib.suppress(dojoir.DojoError):
        (found,) = evaluator.evaluate([answer.kernel], other.kernel)
        if found.ratio is not None and found.ratio_interval is not None:
            return Gain(found.ratio, *found.ratio_interval)
    return None


def _mean(gains: Sequence[Gain]) -> Gain:
    """The geometric means of medians and of both ends."""
    return Gain.of(runtime.mean_of(gains), *(race for gain in gains for race in gain.races))
