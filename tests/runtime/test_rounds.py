"""How contestants are timed in turn: on one set of arrays, by clocks that are not real."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

import dojoir
from dojoir.runtime import ForTarget, ratio_of
from dojoir.runtime.measurement import timing
from dojoir.runtime.measurement.clocks import Clocks
from dojoir.runtime.measurement.ratio import ratio_of_samples
from dojoir.runtime.measurement.spread import bootstrap
from dojoir.runtime.measurement.timing import CpuContestant
from dojoir.runtime.process.subject import KernelSubject, PythonCode

RELU = dojoir.kernels.load("relu")
JOB = {"precision": 0.01, "confidence": 0.95, "budget": 2.0, "fewest": 30, "caches": "warm"}


class Time:
    """A clock that moves only when a call takes its time."""

    def __init__(self) -> None:
        self.now = 0.0

    def taking(self, seconds: float, log: list[float]) -> Callable[[], object]:
        def call() -> None:
            self.now += seconds
            log.append(seconds)

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(timing, "perf_counter", lambda: made.now)
    monkeypatch.setattr(timing, "perf_counter_ns", lambda: round(made.now * 1e9))
    monkeypatch.setattr(timing, "second_clock", lambda: round(made.now * 1e9))
    monkeypatch.setattr(timing, "_let_rest", lambda: 0.0)
    return made


def test_a_text_of_ten_seconds_is_called_once(clock: Time) -> None:
    slow: list[float] = []
    quick: list[float] = []
    both = [CpuContestant([{}], [clock.taking(t, log)], {}) for t, log in ((10.0, slow), (1e-3, quick))]
    for one in both:
        timing._warm(one, JOB["budget"], JOB["fewest"])
    timing._sample(both, JOB)
    assert slow == [10.0] and both[0].samples == [10.0]
    assert len(both[1].samples) >= 30 and len(quick) > 30
    found, true = ratio_of_samples(both[0].samples, both[1].samples, 0.95), 1e4
    assert found.median == pytest.approx(true) and found.low < true < found.high


def test_the_samples_are_as_many_as_is_asked_where_there_is_time(clock: Time) -> None:
    one = CpuContestant([{}], [clock.taking(1e-3, [])], {})
    timing._warm(one, 2.0, 30)
    timing._sample([one], JOB)
    assert len(one.samples) == 30
    one.samples.clear()
    timing._sample([one], {**JOB, "fewest": 7})
    assert len(one.samples) == 7


def test_all_take_the_same_arrays_and_what_writes_nothing_is_seen() -> None:
    inputs = {"x": np.linspace(-1, 1, 64, dtype=np.float32)}
    arena = timing.SharedArrays({"N": 64}, inputs, "warm")
    kernel, idle = (
        arena.contestant(subject, RELU) for subject in (KernelSubject(RELU, "llvm", 1), PythonCode("pass"))
    )
    assert kernel.sets is idle.sets
    kernel.bound[0]()
    results = {"y": np.array(kernel.sets[0]["y"])}
    timing._poison(RELU, idle)
    idle.bound[0]()
    assert timing._difference(RELU, results, idle) > 1
    kernel.bound[0]()
    assert timing._difference(RELU, results, kernel) == 0


def test_cold_writes_a_buffer_before_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "last_level_cache", lambda: 4096)
    arena = timing.SharedArrays({"N": 8}, {"x": np.zeros(8, np.float32)}, "flushed")
    seen: list[int] = []
    one = arena.contestant(KernelSubject(RELU, "llvm", 1), RELU)
    one.bound = [lambda: seen.append(int(arena.flushed[-1]))]
    one.calls = 3
    one.sample()
    assert len(arena.flushed) == 8192 and seen == [1, 2, 3]


def test_the_bootstrap_covers_the_median_and_is_the_same_each_time() -> None:
    random = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        samples = np.exp(random.normal(0, 0.03, 30))
        low, high = bootstrap(samples, 0.95)
        assert (low, high) == bootstrap(samples, 0.95)
        inside += low <= 1 <= high
    assert 180 <= inside <= 200
    assert bootstrap([2.0], 0.95) == (2.0, 2.0)


def test_pairs_take_out_what_the_machine_does_in_a_round() -> None:
    drift = np.exp(np.random.default_rng(2).normal(0, 0.5, 40))
    found = ratio_of_samples(tuple(2 * drift), tuple(drift), 0.95)
    assert (found.low, found.median, found.high) == pytest.approx((2, 2, 2))


def test_one_that_fails_is_left_out_where_that_is_asked() -> None:
    code = PythonCode("raise_it()", name="bad")
    quick = {"budget": 0.05, "with_ceilings": False, "threads": 1}
    found = dojoir.measure_together([RELU, code, RELU], N=64, leave_out=True, **quick)
    assert len(found.measurements) == 2 and set(found.left_out) == {1}
    with pytest.raises(dojoir.DojoError):
        dojoir.measure_together([RELU, code], N=64, **quick)


def test_a_contestant_has_a_target_of_its_own() -> None:
    found = dojoir.measure_together([RELU, ForTarget(RELU, "c")], N=64, budget=0.05, with_ceilings=False, threads=1)
    assert [m.target for m in found.measurements] == ["llvm", "c"]


def test_times_of_two_protocols_are_not_compared() -> None:
    quick = {"budget": 0.05, "with_ceilings": False, "threads": 1}
    warm, cold = (
        dojoir.measure_together([RELU], N=64, cold=cold, **quick).measurements[0] for cold in (False, True)
    )
    with pytest.raises(dojoir.ArgumentError, match="two protocols") as refused:
        ratio_of(warm, cold)
    assert refused.value.diagnostic.code == "other-protocol"


@pytest.mark.parametrize(("factor", "agree"), [(1.0, True), (0.1, False), (10.0, False)])
def test_a_clock_that_another_one_gainsays_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, factor: float, agree: bool
) -> None:
    true = time.perf_counter_ns
    monkeypatch.setattr(timing, "perf_counter_ns", lambda: int(true() * factor))
    monkeypatch.setattr(timing, "WARM_SECONDS", 0.0)
    one = CpuContestant([{}], [lambda: time.sleep(2e-3)], {})
    for _ in range(20):
        one.sample()
    assert one.clocks.readings == 20 and (one.clocks.disagreement() is None) == agree


def test_a_processor_taken_away_between_two_readings_is_no_wrong_clock() -> None:
    clocks = Clocks()
    for pause in (0.0, 0.0, 0.4e-3):
        clocks.read(0.1e-3, 0.1e-3 + pause)
    assert clocks.disagreement() is None
    for pause in (0.4e-3, 0.4e-3):
        clocks.read(0.1e-3, 0.1e-3 + pause)
    assert clocks.disagreement() == "the clocks disagree: 0.5 ms and 1.7 ms"


def test_that_is_the_end_of_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clocks, "disagreement", lambda _: "the clocks disagree")
    job = {**JOB, "budget": 0.01, "seed": 0, "sizes": {"N": 64}, "hot": True}
    job["subjects"] = [KernelSubject(RELU, "llvm", 1).to_json()]
    with pytest.raises(dojoir.RunError) as refused:
        timing.run_timing(job, lambda _: None)
    assert refused.value.diagnostic.code == "bad-clock"
