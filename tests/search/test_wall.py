"""A budget of seconds is a wall: nothing is begun that cannot end before it, and nobody waits beyond it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import dojoir
from dojoir.runtime import Evaluation
from dojoir.runtime.measurement.lease import timing_lease
from dojoir.search import Gain, Play, closing
from dojoir.search.budget import BUILT_AGAIN, Budget, Ledger
from dojoir.search.idle import code_of

SIZES = {"N": 64, "M": 96}
SOFTMAX = dojoir.kernels.load("softmax")


@pytest.fixture(autouse=True)
def own_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield


def state(seconds: float) -> Evaluation:
    return Evaluation("a", "ok", seconds=1e-3, stages={"build": seconds / 2, "lease": seconds / 2})


def test_no_state_is_begun_that_would_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ledger = Ledger(Budget(seconds=100))
    assert ledger.has_time
    for _ in range(3):
        ledger.note(state(10.0))  # a wait for others is a part of what it takes
    now = 89.0
    assert ledger.has_time and ledger.spent() is None
    now = 91.0
    assert not ledger.has_time and ledger.spent() is None
    ledger.is_over = True
    assert ledger.spent() == "seconds (100)"


def test_what_takes_long_to_build_leaves_more_for_the_last_comparison() -> None:
    ledger = Ledger(Budget(seconds=100))
    ledger.keep_for_the_end()
    before = ledger.reserve
    ledger.note(state(4.0))
    assert ledger.reserve == before + BUILT_AGAIN * 4.0 and ledger.end < ledger.last_end
    ledger.note(state(40.0))
    assert ledger.reserve < 0.5 * 100
    without = Ledger(Budget())
    without.keep_for_the_end()
    without.note(state(4.0))
    assert without.has_time and without.reserve == 0


def test_an_evaluator_gives_up_what_is_under_way_at_its_end() -> None:
    with dojoir.Evaluator(SOFTMAX, "llvm", SIZES) as evaluator:
        evaluator.until = time.monotonic()
        (found,) = evaluator.evaluate(SOFTMAX)
        assert found.status == "lost" and "the time for it ended" in found.reason
        evaluator.until = float("inf")
        (found,) = evaluator.evaluate(SOFTMAX)
        assert found.status == "ok"
        with timing_lease():
            evaluator.lease_until = time.monotonic()
            (found,) = evaluator.evaluate(dojoir.apply(SOFTMAX, "join_scopes(0, 1)"))
        assert found.status == "lost" and found.reason is not None
        assert "while it waited for others that time" in found.reason


def test_a_search_ends_though_others_hold_the_lease() -> None:
    """It waited for them an hour; what it cannot compare is no answer in the place of what `optimize` gives."""
    with timing_lease():
        tuned = dojoir.tune(SOFTMAX, sizes=SIZES, budget=dojoir.Budget(seconds=3))
    assert {one.status for one in tuned.states} == {"lost"} and "seconds (3)" in tuned.stopped
    plan = dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1)
    assert code_of(tuned.trace.kernel, "llvm") == code_of(plan.kernel, "llvm") and tuned.ratio is None
    (note,) = [one for one in tuned.notes if "waiting for others that time" in one]
    assert f"process {os.getpid()}" in note and tuned.spent["waited"] > 0


@pytest.mark.parametrize(
    ("gain", "hints", "kept"),
    [
        (Gain(1.1, 1.05, 1.15), True, True),
        (Gain(1.02, 0.99, 1.05), True, False),
        (Gain(0.9, 0.85, 0.95), True, False),
        (Gain(0.9, 0.85, 0.95), False, True),
        (None, True, False),
    ],
)
def test_a_tie_goes_to_what_optimize_gives(
    gain: Gain | None, hints: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "_gain", lambda *given: gain)
    play = Play(SOFTMAX, "llvm", [SIZES], Random(0), Ledger(Budget()))
    play.hints, play.starts = hints, [dojoir.Trace(SOFTMAX)]
    plan, ratio = closing._plan_instead(play, dojoir.Trace(SOFTMAX).then("join_scopes(0, 1)"))
    if kept:
        assert plan is None and ratio == (gain if hints else None)
    else:
        assert plan is not None and plan.kernel == dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1).kernel
        assert ratio == closing.EQUAL
