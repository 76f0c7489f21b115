"""Code that is right where it is usually compared and whose time is false, or that does what is not its own: the
evaluator catches each. What is planted is a function of Python on the arrays, in place of machine code."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import dojoir
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.evaluation import bench as bench_module
from dojoir.runtime.evaluation import paired_timing
from dojoir.runtime.evaluation.bench import CandidateBench, Job
from dojoir.runtime.evaluation.build import Built
from dojoir.runtime.evaluation.evaluation import Evaluation
from dojoir.runtime.evaluation.pool import CHANGED, InputCase, Pool, checks

SCALED = dojoir.parse("""
kernel scaled(N)
in  x: f32[N]
out y: f32[N]
N
| y[{0}] = x[{0}] * 2 + 1
""")
ADDED = dojoir.parse("""
kernel added(N)
in  x: f32[N]
inout y: f32[N]
N
| y[{0}] += x[{0}]
""")
SIZE = 5000
SIZES = {"N": SIZE}

LATER = "later"

Array = np.ndarray
Fault = Callable[[Array, Array], object]


pytestmark = pytest.mark.usefixtures("own_lease")


def made(folder: str, kernel: dojoir.Kernel) -> Pool:
    pool = Pool(folder, kernel, "llvm", (SIZES,), (11, 22, 33), 60.0)
    for case in (*job(pool).checks, *job(pool).timed[0]):
        pool.prepare(case)
    return pool


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return made(str(tmp_path_factory.mktemp("scaled")), SCALED)


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return made(str(tmp_path_factory.mktemp("added")), ADDED)


def job(pool: Pool, seed: int = 0) -> Job:
    small = tuple(InputCase(size, distribution, 0) for size, distribution in checks(pool, 0))
    last = len(pool.small)
    timed = InputCase(last, "integers", 0), InputCase(last, "uniform", 0), InputCase(last, CHANGED, 0)
    return Job(pool.reference, small, (timed,), None, "best", seed)


def evaluated(
    pool: Pool, fault: Fault, monkeypatch: pytest.MonkeyPatch, best: dojoir.Kernel | None = None, seed: int = 0
) -> Evaluation:
    """What becomes of a candidate whose code is a function of Python, beside honest code where there is a best."""
    make = bench_module.build

    def call(x: int, y: int, size: int) -> int:
        with np.errstate(all="ignore"):
            fault(*(np.ctypeslib.as_array((ctypes.c_float * size).from_address(at)) for at in (x, y)))
        return 0

    def build(kernel: dojoir.Kernel, *arguments: object, **more: object) -> Built:
        if kernel == best:
            return make(kernel, *arguments, **more)
        return Built(Compiled(pool.reference, "llvm", 1, "", call, None), "planted")

    monkeypatch.setattr(bench_module, "build", build)
    bench, given = CandidateBench(pool, 1, cut=1e9), job(pool, seed)
    found = bench.evaluate(Job(given.kernel, given.checks, given.timed, best, "best", seed))
    for thread in threading.enumerate():
        if thread.name == LATER:
            thread.join()  # while there still is what it writes to
    return found


def right(x: Array, y: Array) -> None:
    with np.errstate(all="ignore"):  # also in a thread
        np.multiply(x, 2, out=y)
        np.add(y, 1, out=y)


def add(x: Array, y: Array) -> None:
    np.add(x, y, out=y)


@pytest.fixture(params=["alone", "raced"])
def is_raced(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "raced")


def rival(pool: Pool, is_raced: bool) -> dojoir.Kernel | None:
    """Honest code on the same arrays, which also leaves right results in them."""
    return dojoir.Trace(pool.reference).then("split(0, 64)").kernel if is_raced else None


@pytest.mark.parametrize("seed", range(4))
def test_what_is_honest_is_timed(
    scaled: Pool, added: Pool, monkeypatch: pytest.MonkeyPatch, is_raced: bool, seed: int
) -> None:
    with monkeypatch.context() as patch:
        assert evaluated(scaled, right, patch, rival(scaled, is_raced), seed).ok
    assert evaluated(added, add, monkeypatch, rival(added, is_raced), seed).ok


# -- work that is not done ---------------------------------------------------------------------------------------
def skips_what_is_right() -> Fault:
    """By its first element."""

    def fault(x: Array, y: Array) -> None:
        if y[0] != x[0] * 2 + 1:
            right(x, y)

    return fault


def remembers_three() -> Fault:
    kept: dict[tuple[float, ...], Array] = {}

    def fault(x: Array, y: Array) -> None:
        key = len(x), x[0], x[len(x) // 2], x[-1]
        if key not in kept or len(x) < SIZE:
            right(x, y)
            kept[key] = y.copy()
        y[:] = kept[key]

    return fault


def on_calls(step: int, first: int = 1) -> Fault:
    """Works on calls `first` modulo `step`: once it is at a large size, where small ones are all right."""
    count = 0

    def fault(x: Array, y: Array) -> None:
        nonlocal count
        count += len(x) == SIZE
        if len(x) < SIZE or count % step == first % step:
            right(x, y)

    return fault


def replays_the_warm_up() -> Fault:
    """What its first calls gave, from then on."""
    kept: list[Array] = []

    def fault(x: Array, y: Array) -> None:
        if len(x) < SIZE or len(kept) < 4:
            right(x, y)
            kept.extend([y.copy()] * (len(x) == SIZE))
        else:
            y[:] = kept[-1]

    return fault


def all_at_once() -> Fault:
    """One call in a hundred does the work of the others too."""
    count = 0

    def fault(x: Array, y: Array) -> None:
        nonlocal count
        count += len(x) == SIZE
        if len(x) < SIZE or count % 100 < 3:
            right(x, y)

    return fault


def later() -> Fault:
    """Another thread does the work, and goes on when the call has returned."""

    def fault(x: Array, y: Array) -> None:
        if len(x) < SIZE:
            right(x, y)
            return
        threading.Thread(target=lambda: (time.sleep(1e-3), right(x, y)), name=LATER).start()

    return fault


SKIPPED = {
    "skips what is right": skips_what_is_right,
    "remembers three elements": remembers_three,
    "calls 1 mod 2": lambda: on_calls(2),
    "calls 0 mod 2": lambda: on_calls(2, 0),
    "calls 1 mod 3": lambda: on_calls(3),
    "calls 1 mod 5": lambda: on_calls(5),
    "replays the warm-up": replays_the_warm_up,
    "all at once": all_at_once,
    "another thread": later,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cheat", SKIPPED.values(), ids=SKIPPED.keys())
def test_work_that_is_not_done_is_found(
    scaled: Pool, monkeypatch: pytest.MonkeyPatch, cheat: Callable[[], Fault], is_raced: bool, seed: int
) -> None:
    found = evaluated(scaled, cheat(), monkeypatch, rival(scaled, is_raced), seed)
    assert found.status == "wrong" and found.seconds is None and "wrong result" in found.reason, found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [0, 1])
def test_a_sum_that_is_added_on_every_second_call_is_found(
    added: Pool, monkeypatch: pytest.MonkeyPatch, is_raced: bool, first: int, seed: int
) -> None:
    count = 0

    def fault(x: Array, y: Array) -> None:
        nonlocal count
        count += len(x) == SIZE
        if len(x) < SIZE or count % 2 == first or count == 1:
            add(x, y)

    found = evaluated(added, fault, monkeypatch, rival(added, is_raced), seed)
    assert found.status == "wrong", found


def test_results_that_are_remembered_whole_are_found(scaled: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are right, so it is the time that tells: on inputs of which two elements have changed."""
    kept: dict[bytes, Array] = {}

    def fault(x: Array, y: Array) -> None:
        key = x.tobytes()
        if key not in kept:
            right(x, y)
            kept[key] = y.copy()
            time.sleep(2e-3)  # the work of the kernel
        y[:] = kept[key]

    found = evaluated(scaled, fault, monkeypatch)
    assert found.status == "wrong" and "does not do its work each time" in found.reason, found


# -- what is not its own -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("at", ["end", "start", "far behind"])
def test_a_write_outside_at_the_timed_size_is_found(scaled: Pool, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def fault(x: Array, y: Array) -> None:
        right(x, y)
        if len(x) == SIZE:
            place = y.ctypes.data + {"end": 4 * SIZE, "start": -4, "far behind": 4 * SIZE + 100}[at]
            ctypes.c_float.from_address(place).value = 1.0

    found = evaluated(scaled, fault, monkeypatch)
    assert found.status == "wrong" and "wrote outside of" in found.reason, found


def test_an_input_that_is_changed_at_the_timed_size_is_found(scaled: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(x: Array, y: Array) -> None:
        right(x, y)
        if len(x) == SIZE:
            x[7] += 1

    found = evaluated(scaled, fault, monkeypatch)
    assert found.status == "wrong" and "changed its input x" in found.reason, found


@pytest.mark.parametrize("when", ["always", "at the timed size", "once"])
def test_a_rounding_mode_that_is_left_changed_is_found(
    scaled: Pool, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    library = ctypes.CDLL(None)
    before, count = library.fegetround(), 0

    def fault(x: Array, y: Array) -> None:
        nonlocal count
        right(x, y)
        count += len(x) == SIZE
        if when == "always" or (when == "at the timed size" and len(x) == SIZE) or count == 9:
            library.fesetround(0xC00 if before == 0 else 0)  # x86's towards zero

    found = evaluated(scaled, fault, monkeypatch)
    assert found.status == "wrong" and "left another rounding mode" in found.reason, found
    assert library.fegetround() == before


# -- clocks ------------------------------------------------------------------------------------------------------
CLOCKS: dict[str, Callable[[], int]] = {
    "ten times too slow": lambda: time.perf_counter_ns() // 10,
    "ten times too fast": lambda: time.perf_counter_ns() * 10,
    "still": lambda: 0,
}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS.keys())
def test_a_wrong_clock_is_not_believed_of_what_is_changed_in_place(
    added: Pool, monkeypatch: pytest.MonkeyPatch, clock: Callable[[], int]
) -> None:
    monkeypatch.setattr(paired_timing, "CLOCK", clock)
    found = evaluated(added, add, monkeypatch)
    assert found.status == "lost" and found.seconds is None, found


def test_a_timer_that_a_candidate_patches_is_not_believed(scaled: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code cannot; what runs in this process could."""
    count, slow = 0, time.perf_counter_ns

    def fault(x: Array, y: Array) -> None:
        nonlocal count
        right(x, y)
        count += len(x) == SIZE
        if count == 2:
            monkeypatch.setattr(paired_timing, "CLOCK", lambda: slow() // 10)
            monkeypatch.setattr(time, "perf_counter_ns", lambda: slow() // 10)

    found = evaluated(scaled, fault, monkeypatch)
    assert found.status == "lost" and "clocks disagree" in found.reason, found
