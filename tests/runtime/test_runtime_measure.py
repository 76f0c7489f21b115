"""Timing: what is reported, what is compared, and what becomes of contestants that misbehave. No figure here
depends on how fast the machine is."""

from __future__ import annotations

import os
import random
import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dojoir
from dojoir import ArgumentError, KernelError, RunError
from dojoir.runtime import Ceilings, PythonCode, measure, measure_together
from dojoir.runtime.measurement import roofline, timing
from dojoir.runtime.measurement.memory import HUGE_PAGE, last_level_cache, touched
from dojoir.runtime.measurement.roofline import ThreadCeilings
from dojoir.runtime.measurement.spread import spread
from dojoir.runtime.measurement.stream_loops import BLOCK_BYTES, WAYS, Loops

SAXPY = """
kernel saxpy(N)
in  a: f32
in  x: f32[N]
inout y: f32[N]

N
| y[{0}] = a * x[{0}] + y[{0}]
"""

CUBE = """
kernel cube(N)
in  x: f64[N]
out y: f64[N]

N
| y[{0}] = x[{0}] * x[{0}] * x[{0}]
"""

QUICK = {"budget": 0.05, "with_ceilings": False, "threads": 1}


@pytest.fixture(scope="module")
def cube() -> dojoir.Kernel:
    return dojoir.parse(CUBE)


def cubes(x: np.ndarray, y: np.ndarray) -> None:
    """A function that another process finds."""
    np.power(x, 3, out=y)


# -- what is reported --------------------------------------------------------------------------------------
@pytest.mark.parametrize("hot", [True, False])
def test_a_measurement(cube: dojoir.Kernel, hot: bool) -> None:
    found = measure(cube, hot=hot, N=1000, **QUICK)
    assert 0 < found.low <= found.seconds <= found.high
    assert found.quartiles[0] <= found.seconds <= found.quartiles[1]
    assert found.repeats >= 7
    assert found.flops == 2000
    assert found.bytes == 16000
    assert found.gflops == pytest.approx(2000 / found.seconds / 1e9)
    assert found.gbytes == pytest.approx(16000 / found.seconds / 1e9)
    assert found.sizes == {"N": 1000}
    assert found.hot == hot
    assert found.fraction is None
    assert found.bound_by is None
    assert found.ratio is None
    text = str(found)
    assert text.startswith("cube(N=1000) on llvm, 1 thread: ")
    assert "GB/s" in text
    assert "ceiling" not in text


def test_values_that_change_in_place_start_anew_in_every_call() -> None:
    code = PythonCode("assert abs(y).max() <= 1; y *= 1e30", name="grows")
    found = measure_together([dojoir.parse(SAXPY), code], N=16, **QUICK)
    assert found.measurements[1].repeats >= 7


def test_a_baseline(cube: dojoir.Kernel) -> None:
    found = measure(cube, baseline=PythonCode("y[:] = x ** 3", name="NumPy"), N=1000, **QUICK)
    assert found.baseline is not None
    assert found.baseline.name == "NumPy"
    assert found.baseline.target == "Python"
    assert found.baseline.difference < 1e-12
    assert found.ratio is not None
    assert 0 < found.ratio.low <= found.ratio.median <= found.ratio.high
    assert f"NumPy takes {found.ratio.median:.2f}x" in str(found)


def test_a_library_that_compiles_in_its_first_call_is_not_slow(cube: dojoir.Kernel) -> None:
    setup = "import time\n_pause = [3.0]\n"
    code = PythonCode("time.sleep(_pause.pop() if _pause else 0.0); y[:] = x ** 3", setup, "compiles")
    found = measure_together([cube, code], N=100, **QUICK).measurements[1]
    assert found.repeats >= 7  # and not 1, as of what is too slow


def test_every_kind_of_contestant(cube: dojoir.Kernel) -> None:
    reversed_cube = dojoir.parse(CUBE.replace("{0}]", "N - 1 - {0}]"))
    contestants = [cube, reversed_cube, "y[:] = x * x * x", "test_runtime_measure:cubes", cubes]
    found = measure_together(contestants, N=100, **QUICK)
    assert [m.name for m in found.measurements] == [
        "cube", "cube", "y[:] = x * x * x", "test_runtime_measure:cubes", "cubes",
    ]  # fmt: skip
    assert all(m.difference < 1e-12 for m in found.measurements)
    assert len({m.repeats for m in found.measurements}) == 1, "all take part in every round"
    assert found.ratios[0].median == 1
    assert str(found).count("\n") == 4


def test_another_result_is_seen(cube: dojoir.Kernel) -> None:
    found = measure(cube, baseline="y[:] = x * x * x + 1", N=100, **QUICK)
    assert found.baseline is not None
    assert found.baseline.difference > 0.5


@pytest.mark.parametrize(
    ("statement", "wrong"), [("y += a * x", False), ("y += 2 * a * x", True), ("a * x + y", False)]
)
def test_results_in_place_are_compared_where_there_are_any(statement: str, wrong: bool) -> None:
    found = measure(dojoir.parse(SAXPY), baseline=statement, N=1000, **QUICK)
    assert found.baseline is not None
    assert (found.baseline.difference > 1e-3) is wrong


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not tell what threads do")
def test_contestants_wait_until_the_threads_of_others_rest() -> None:
    work = np.random.default_rng(0).random(1 << 22)
    busy = threading.Thread(target=lambda: work.sort())
    busy.start()
    seen = False
    while busy.is_alive() and not seen:
        seen = timing._others_work()
    waited = timing._let_rest()
    assert seen
    assert not timing._others_work() or waited >= timing.REST_SECONDS
    busy.join()


def test_ceilings_are_compared_with() -> None:
    measured = measure(dojoir.parse(CUBE), N=100, **QUICK)
    known = replace(measured, samples=(1e-6,) * 9, memory_ceiling=3.2, arithmetic_ceiling=0.1)
    assert known.fraction == pytest.approx(2.0)
    assert known.bound_by == "arithmetic"
    assert "200% of the arithmetic ceiling" in str(known)
    assert replace(known, arithmetic_ceiling=10.0).bound_by == "memory"
    assert replace(known, arithmetic_ceiling=10.0).fraction == pytest.approx(0.5)
    sums = replace(known, arithmetic_ceiling=10.0, integer=8000, integer_ceiling=10.0)
    assert (sums.gops, sums.bound_by) == (pytest.approx(8.0), "arithmetic")
    assert sums.fraction == pytest.approx(0.8)


# -- what goes wrong ---------------------------------------------------------------------------------------
def failure(kernel: dojoir.Kernel, *others: PythonCode, **given: object) -> RunError:
    with pytest.raises(RunError) as caught:
        measure_together([kernel, *others], N=100, **{**QUICK, **given})
    return caught.value


def test_a_hang_is_an_error_that_says_where(cube: dojoir.Kernel) -> None:
    error = failure(cube, PythonCode("while True: pass", name="endless"), time_limit=3.0)
    assert error.diagnostic.code == "time-limit"
    assert "hung (stopped after 3 s) in the first call of endless" in error.diagnostic.message


def test_a_crash_is_an_error_that_says_where(cube: dojoir.Kernel) -> None:
    error = failure(cube, PythonCode("ctypes.string_at(0)", "import ctypes", "wild"))
    assert error.diagnostic.code == "crash"
    assert "crashed (SIG" in error.diagnostic.message
    assert "in the first call of wild" in error.diagnostic.message


def test_an_exception_in_a_baseline_shows_its_last_lines(cube: dojoir.Kernel) -> None:
    error = failure(cube, PythonCode("y[:] = z", name="typo"))
    assert error.diagnostic.code == "crash"
    assert "NameError: name 'z' is not defined" in str(error)


def test_a_kill_is_an_error(cube: dojoir.Kernel) -> None:
    error = failure(cube, PythonCode("os.kill(os.getpid(), 9)", "import os"))
    assert error.diagnostic.code == "out-of-memory"
    assert "SIGKILL" in error.diagnostic.message


def test_indices_in_the_inputs_are_in_range() -> None:
    text = "kernel f(N)\nin i: i32[N]\nin x: f32[N]\ninout y: f32[N]\n\nN\n| y[{0}] += x[i[{0}]]\n"
    assert measure(dojoir.parse(text), N=100, **QUICK).repeats >= 7


def test_functions_that_are_not_there(cube: dojoir.Kernel) -> None:
    for name in ("no_such_module:f", "test_runtime_measure:no_such_function"):
        with pytest.raises(ArgumentError, match=name):
            measure(cube, baseline=name, N=10, **QUICK)
    with pytest.raises(ArgumentError, match="not Python"):
        measure(cube, baseline="y[:] = x **", N=10, **QUICK)
    with pytest.raises(ArgumentError, match="from another process"):
        measure(cube, baseline=lambda x, y: None, N=10, **QUICK)


def test_wrong_requests_are_refused(cube: dojoir.Kernel) -> None:
    def refused(code: str, contestants: list[object], **given: object) -> None:
        with pytest.raises(ArgumentError) as caught:
            measure_together(contestants, **{**QUICK, **given})
        assert caught.value.diagnostic.code == code

    refused("no-kernel", [], N=10)
    refused("no-kernel", ["y[:] = x"], N=10)
    refused("not-a-kernel", [cube, 3], N=10)
    refused("other-arguments", [cube, dojoir.parse(SAXPY)], N=10)
    refused("size-missing", [cube])
    refused("unknown-size", [cube], N=10, M=3)
    refused("bad-size", [cube], N=0)
    refused("unknown-target", [cube], N=10, target="opencl")
    refused("bad-threads", [cube], N=10, threads=-1)
    refused("bad-confidence", [cube], N=10, confidence=1.0)
    with pytest.raises(KernelError):
        measure(dojoir.parse(CUBE.replace("= x[{0}]", "= x[{0} + 1]")), N=10, **QUICK)


# -- statistics --------------------------------------------------------------------------------------------
def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    source = random.Random(1)
    hits = 0
    for _ in range(1000):
        found = spread([source.expovariate(1.0) for _ in range(41)], 0.9)
        hits += found.low <= 0.6931471805599453 <= found.high
    assert 0.88 <= hits / 1000 <= 0.97


def test_spread_of_few_and_equal_samples() -> None:
    one = spread([2.0], 0.95)
    assert (one.median, one.low, one.high, one.first_quartile, one.third_quartile) == (2, 2, 2, 2, 2)
    two = spread([3.0, 1.0], 0.95)
    assert (two.median, two.low, two.high) == (2, 1, 3)
    assert spread([5.0] * 50, 0.95).uncertainty == 0
    assert spread([1.0, 2.0] * 50, 0.99).uncertainty > 0


# -- memory and ceilings -----------------------------------------------------------------------------------
def test_touched_memory() -> None:
    for size in (0, 1, 4096, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 17):
        memory = touched(size)
        assert memory.size == size
        assert not memory.any()
        assert memory.flags.writeable
        assert size < HUGE_PAGE or memory.ctypes.data % HUGE_PAGE == 0
        assert size == 0 or memory.ctypes.data % 64 == 0
    assert last_level_cache() >= 1 << 16


SMAPS, HUGE = Path("/proc/self/smaps"), Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(not (SMAPS.exists() and HUGE.exists()), reason="needs Linux with huge pages")
def test_touched_memory_may_be_on_huge_pages() -> None:
    """It asks for them, and is private: memory that could be shared has none where only those who ask have them."""
    memory = touched(4 * HUGE_PAGE)
    mappings = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", SMAPS.read_text(), flags=re.MULTILINE)[1:]
    ranges = [[int(end, 16) for end in mapping.split()[0].split("-")] for mapping in mappings]
    (own,) = (m for m, (start, end) in zip(mappings, ranges, strict=True) if start <= memory.ctypes.data < end)
    flags = re.search(r"^VmFlags:(.*)$", own, re.MULTILINE)
    assert own.split()[1] == "rw-p"
    assert flags is None or "hg" in flags[1].split()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_streams_reach_every_byte(threads: int, way: str) -> None:
    loops = Loops(threads)
    a, b, c = (touched(5 * BLOCK_BYTES) for _ in range(3))
    b[:] = np.arange(b.size, dtype=np.uint64).astype(np.uint8)
    loops.copy(way, a, b)
    assert (a == b).all()
    b.view(np.float32)[:] = 1.5
    c.view(np.float32)[:] = np.arange(c.size // 4)
    loops.triad(way, a, b, c)
    assert (a.view(np.float32) == 1.5 + 0.5 * c.view(np.float32)).all()
    loops.multiply_add(False)
    assert loops.operations(False) == 2 * loops.operations(True)


def test_ceilings_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path))
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    row = {"threads": 1, "read": 10.0, "copy": 12.0, "triad": 11.0, "fma_f32": 100.0, "fma_f64": 50.0}
    results = [[row, {**row, "threads": 4, "read": 30.0}], [{**row, "read": 13.0, "copy": 1.0}]]
    monkeypatch.setattr(roofline, "_measured", lambda most: results.pop(0))
    for _ in range(3):
        roofline._known.cache_clear()
        found = roofline.ceilings()
        assert found.at(1).memory == 12
        assert found.at(3) == found.at(1)
        assert found.at(64).memory == 30
        assert "GFLOP/s" in str(found)
    again = roofline.ceilings(again=True).at(1)
    assert (again.read, again.copy) == (13, 12), "the larger of both"
    assert not results
    now = {"threads": 3, "read": 1.0, "copy": 1.0, "triad": 1.0, "fma_f32": 1.0, "fma_f64": 1.0}
    monkeypatch.setattr(roofline, "_measured", lambda counts: [{**now, "threads": count} for count in counts])
    assert roofline.ceilings(3).by_threads == {3: ThreadCeilings(**now)}
    assert roofline.ceilings().at(1) == again, "what is measured for the moment is not kept"
    with pytest.raises(dojoir.ArgumentError, match="threads must be"):
        roofline.ceilings(0)
    roofline._known.cache_clear()


def test_what_a_busy_machine_reaches_is_not_kept_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path))
    monkeypatch.setattr("os.getloadavg", lambda: (1e6, 0.0, 0.0))
    monkeypatch.setattr(roofline, "BUSY_SECONDS", -1.0)
    calls: list[int] = []
    row = {"threads": 1, "read": 10.0, "copy": 12.0, "triad": 11.0, "fma_f32": 100.0, "fma_f64": 50.0}
    monkeypatch.setattr(roofline, "_measured", lambda most: calls.append(most) or [row])
    for _ in range(2):
        roofline._known.cache_clear()
        roofline.ceilings()
    assert len(calls) == 2
    roofline._known.cache_clear()


def test_the_ceilings_of_a_machine_are_told_by_threads() -> None:
    one = ThreadCeilings(threads=2, read=3.0, copy=2.0, triad=1.0, fma_f32=8.0, fma_f64=4.0)
    machine = Ceilings("here", {2: one})
    assert machine.at(1) == machine.at(2) == machine.at(99) == one
    assert str(machine).splitlines()[0] == "here"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say on which cores it runs")
def test_a_contestant_that_starts_threads_of_its_own_has_no_more_cores() -> None:
    code = PythonCode("import os; assert len(os.sched_getaffinity(0)) == 1; y[:] = np.maximum(x, 0)", name="NumPy")
    kernel = dojoir.kernels.load("relu")
    assert measure_together([kernel, code], N=64, **QUICK).ratios


def test_a_child_imports_what_its_parent_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a folder called dojoir where it was started."""
    (tmp_path / "dojoir").mkdir()
    (tmp_path / "dojoir" / "__init__.py").write_text("raise ImportError('another dojoir')\n")
    monkeypatch.chdir(tmp_path)
    kernel = dojoir.kernels.load("relu")
    assert dojoir.measure(kernel, sizes={"N": 1000}, budget=0.05).seconds > 0
