"""Evaluating candidates: each comes to its own end, what is planted is caught, and nothing else suffers."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import dojoir
from dojoir.errors import Diagnostic
from dojoir.runtime import Evaluation
from dojoir.runtime.build.compiler import compile as compile_kernel
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.evaluation import bench as bench_module
from dojoir.runtime.evaluation import build as build_module
from dojoir.runtime.evaluation import evaluator as evaluator_module
from dojoir.runtime.evaluation import paired_timing
from dojoir.runtime.evaluation.bench import CandidateBench, Job
from dojoir.runtime.evaluation.build import Built
from dojoir.runtime.evaluation.pool import CHANGED, InputCase, KnownCase, Pool, checks, fresh_folder
from dojoir.runtime.process import memory_kills as memory_kills_module

TEXT = """
kernel scaled(N)
in  x: f32[N]
out y: f32[N]
N
| y[{0}] = x[{0}] * 2 + 1
"""
SIZES = {"N": 4096}


def changed(line: str, more: str = "") -> dojoir.Kernel:
    """The kernel with another body, and more declarations."""
    return dojoir.parse(TEXT.replace("N\n| y[{0}] = x[{0}] * 2 + 1\n", line).replace("out y", f"{more}out y"))


REFERENCE = dojoir.parse(TEXT)
FAST = dojoir.Trace(REFERENCE).then("vectorize(0)").kernel
WRONG = changed("N\n| y[{0}] = x[{0}] * 2 + 1.001\n")
HANGS = changed("N\n| t = x[{0}]\n| 1000000000000\n| | t = sin(t)\n| y[{0}] = t\n", "tmp t: f32\n")
HUGE = changed(
    "N\n| 4000000000\n| | t[{1}] = sin(x[{0}] + {1})\n| y[{0}] = 0\n| 4000000000\n| | y[{0}] += t[{1}]\n",
    "tmp t: f32[4000000000]\n",
)


pytestmark = pytest.mark.usefixtures("own_lease")


@pytest.fixture(scope="module")
def evaluator() -> Iterator[dojoir.Evaluator]:
    with dojoir.Evaluator(REFERENCE, "llvm", SIZES, time_limit=2.0, memory_limit=4 << 30) as made:
        yield made


def test_each_candidate_comes_to_its_own_end(evaluator: dojoir.Evaluator) -> None:
    found = list(evaluator.evaluate([REFERENCE, WRONG, HANGS, HUGE, FAST]))
    assert [one.status for one in found] == ["ok", "wrong", "hung", "memory", "ok"]
    assert [one.hash for one in found] == [k.hash for k in (REFERENCE, WRONG, HANGS, HUGE, FAST)]
    assert "wrong result" in found[1].reason and found[1].seconds is None
    assert found[0].interval is not None and found[0].seconds is not None
    assert found[0].interval[0] <= found[0].seconds <= found[0].interval[1]
    assert found[0].cases >= 12 and found[0].stages.keys() >= {"build", "verify", "time"}


@pytest.mark.parametrize(("kills", "status"), [((3, 3), "lost"), ((3, 4), "memory"), ((None, None), "memory")])
def test_who_killed_a_worker(
    evaluator: dojoir.Evaluator,
    monkeypatch: pytest.MonkeyPatch,
    kills: tuple[int | None, int | None],
    status: str,
) -> None:
    """A worker that is killed while the system ended none for memory says nothing of its kernel."""
    before, after = kills
    monkeypatch.setattr(memory_kills_module, "memory_kills", lambda: after)
    monkeypatch.setattr("dojoir.runtime.evaluation.evaluator.memory_kills", lambda: before)
    found = evaluator.evaluate([HANGS])
    answers: list[Evaluation] = []
    asking = threading.Thread(target=lambda: answers.extend(found))
    asking.start()
    while not evaluator._busy:
        time.sleep(0.01)
    (worker,) = evaluator._busy.values()
    os.kill(worker.pid, signal.SIGKILL)
    asking.join()
    assert [one.status for one in answers] == [status]
    assert "killed" in answers[0].reason


def test_the_system_counts_what_it_ended_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_kills_module, "VMSTAT", tmp_path / "vmstat")
    assert memory_kills_module.memory_kills() is None
    (tmp_path / "vmstat").write_text("nr_free_pages 12\noom_kill 7\n")
    assert memory_kills_module.memory_kills() == 7
    assert memory_kills_module.killed_for_memory(6) and not memory_kills_module.killed_for_memory(7)


def test_a_crash_is_the_result_of_its_kernel(evaluator: dojoir.Evaluator) -> None:
    def kill() -> None:
        while not any(worker.stage == "verify" for worker in list(evaluator._busy.values())):
            time.sleep(0.01)
        os.kill(next(iter(evaluator._busy.values())).pid, signal.SIGSEGV)

    killer = threading.Thread(target=kill)
    killer.start()
    crashed, after = evaluator.evaluate([HANGS, FAST])
    killer.join()
    assert (crashed.status, after.status) == ("crashed", "ok")
    assert "SIGSEGV" in crashed.reason and "checked" in crashed.reason


def test_a_race_has_a_ratio_and_noise_is_small(evaluator: dojoir.Evaluator) -> None:
    slow = dojoir.Trace(REFERENCE).then("split(0, 2)").kernel
    (found,) = evaluator.evaluate([slow], best=FAST)
    assert found.status == "cut" or (found.ratio is not None and len(found.ratios) == 1)
    assert evaluator.noise(FAST) >= 0


def test_the_same_machine_code_is_not_timed_again(evaluator: dojoir.Evaluator) -> None:
    labelled = dojoir.Trace(FAST).then("add_scope(0, 1)").kernel
    first, again = evaluator.evaluate([FAST, labelled])
    if first.digest == again.digest:
        assert again.seconds == first.seconds and again.cases == 0


def test_a_loop_that_no_move_put_in_lanes_keeps_all_passes() -> None:
    two = "kernel f(N)\nin x: f32[N]\nout y: f32[N]\nout z: f32[N]\nN\n| y[{0}] = 2 * x[{0}]\n"
    two += "N\n| z[{0}] = 3 * x[{0}]\n"
    one, both = ("vectorize(0)",), ("vectorize(0)", "vectorize(1)")
    rest = ("split(0, 8)", "vectorize(0.0)", "vectorize(1)")
    assert not build_module.in_lanes(dojoir.parse(two))
    for moves, found in ((one, False), (both, True), (rest, True)):
        assert build_module.in_lanes(dojoir.apply(dojoir.parse(two), "; ".join(moves))) == found, moves


def test_what_is_in_lanes_is_built_quickly(evaluator: dojoir.Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []
    real_passes = build_module.compiled_here

    def seen(text: str, processor: object, *how: object) -> bytes:
        made.append(how)
        return real_passes(text, processor, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(build_module, "compiled_here", seen)
    plain, lanes = (build_module.printed(kernel, "llvm") for kernel in (REFERENCE, FAST))
    build_module.build(REFERENCE, "llvm", 1, plain)
    quick = build_module.build(FAST, "llvm", 1, lanes)
    full = build_module.build(FAST, "llvm", 1, lanes, full=True)
    assert made == [(), (build_module.LEFT_OUT, build_module.LEVEL), ()]
    x = np.arange(9, dtype=np.float32)
    assert np.array_equal(quick.compiled.run({"x": x})["y"], full.compiled.run({"x": x})["y"])
    beside = evaluator.beside_full(FAST)
    assert (beside.ratio is None) == (quick.digest == full.digest)
    assert evaluator.beside_full(REFERENCE).ratio is None  # both builds are the same


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_code_that_is_too_long_is_refused_with_the_reason(target: str) -> None:
    """Before any compiler sees it; what is as long as it may be is built."""
    most = len(build_module.printed(REFERENCE, target).code)
    longer = dojoir.Trace(REFERENCE).then("split(0, 4)").then("unroll(0.0)").kernel
    assert len(build_module.printed(longer, target).code) > most
    with dojoir.Evaluator(REFERENCE, target, SIZES, code_limit=most) as own:
        found, allowed = own.evaluate([longer, REFERENCE])
    assert (found.status, found.cases, found.digest) == ("build-failed", 0, "") and allowed.ok, allowed
    assert f"a candidate may have {most}" in found.reason and found.stages["build"] > 0
    assert dojoir.Evaluator.CODE_LIMIT == build_module.CODE_LIMIT


def test_several_sizes_are_one_evaluation() -> None:
    with dojoir.Evaluator(REFERENCE, "llvm", [{"N": 1000}, {"N": 3000}]) as evaluator:
        (found,) = evaluator.evaluate([FAST], best=REFERENCE)
    assert found.status in ("ok", "cut") and len(found.ratios) in (0, 2), found


def test_no_process_is_left(evaluator: dojoir.Evaluator) -> None:
    other = dojoir.Evaluator(REFERENCE, "llvm", SIZES)
    with other:
        assert next(iter(other.evaluate([FAST]))).ok
        server = other._fork_server
    assert server.poll() is not None
    with pytest.raises(dojoir.ArgumentError, match="inside of `with`"):
        list(other.evaluate([FAST]))


def test_what_a_process_left_that_was_killed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, mine = tmp_path / f"dojoir-pool-{gone.pid}-a", tmp_path / f"dojoir-pool-{os.getpid()}-b"
    for folder in (left, mine, tmp_path / "dojoir-pool-other"):
        folder.mkdir()
        (folder / "case").touch()
    with fresh_folder() as own:
        assert not left.exists() and {Path(own), mine} <= {*tmp_path.iterdir()}
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, "dojoir-pool-other"]


def test_what_is_not_decided_is_the_result_of_its_kernel(
    evaluator: dojoir.Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such state ended a long search, though every move to it was proved."""
    prove = evaluator_module.prove_unless_known

    def undecided(kernel: dojoir.Kernel) -> None:
        if kernel == FAST:
            raise dojoir.KernelError(Diagnostic("undecided", "no proof was found within 7 steps"))
        prove(kernel)

    monkeypatch.setattr(evaluator_module, "prove_unless_known", undecided)
    kernels = [REFERENCE, FAST, changed("N @i\n| y[{i}] = 2 * x[{i}] + 1\n")]
    found = {one.hash: one for one in evaluator.evaluate(kernels)}
    assert found[FAST.hash].status == "build-failed" and "within 7 steps" in found[FAST.hash].reason
    assert all(found[one.hash].ok for one in kernels if one != FAST)


def test_a_state_of_legal_moves_is_not_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof from the text of a long state took minutes, past the end of a search."""
    state = dojoir.Trace(REFERENCE).then("split(0, 64)").then("peel(0)").kernel
    asked = []
    monkeypatch.setattr("dojoir.passes.engine.engine.prove", asked.append)
    evaluator_module.prove_unless_known(state)
    assert not asked
    other = changed("N @i\n| y[{i}] = 3 * x[{i}]\n")
    evaluator_module.prove_unless_known(other)
    assert asked == [other]


def test_what_does_not_fit_is_told(evaluator: dojoir.Evaluator) -> None:
    with pytest.raises(dojoir.ArgumentError, match=r"different (arguments|sizes)"):
        list(evaluator.evaluate([dojoir.kernels.load("softmax")]))
    for wrong in ({"workers": 0}, {"time_limit": 0.0}, {"cut": 1.0}, {"code_limit": 0}):
        with pytest.raises(dojoir.ArgumentError):
            dojoir.Evaluator(REFERENCE, "llvm", SIZES, **wrong)
    with pytest.raises(dojoir.ArgumentError):
        dojoir.Evaluator(REFERENCE, "llvm", [])
    with pytest.raises(dojoir.ArgumentError, match="cold is for a GPU"):
        dojoir.Evaluator(REFERENCE, "llvm", SIZES, cold=True)
    with pytest.raises(dojoir.ArgumentError, match="is no GPU"):
        dojoir.Evaluator(REFERENCE, "llvm", SIZES, emulated=True)


# -- what is planted -------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    made = Pool(str(tmp_path_factory.mktemp("pool")), REFERENCE, "llvm", (SIZES,), (11, 22, 33), 60.0)
    for size in range(len(made.small)):
        for _, distribution in checks(made, 0):
            made.prepare(InputCase(size, distribution, 0))
    for case in timed(made):
        made.prepare(case)
    return made


def timed(pool: Pool) -> tuple[InputCase, InputCase, InputCase]:
    last = len(pool.small)
    return InputCase(last, "integers", 0), InputCase(last, "uniform", 0), InputCase(last, CHANGED, 0)


def job(pool: Pool) -> Job:
    small = tuple(InputCase(size, distribution, 0) for size, distribution in checks(pool, 0))
    return Job(FAST, small, (timed(pool),))


def real() -> Callable[[np.ndarray, np.ndarray], None]:
    compiled = compile_kernel(REFERENCE, threads=1)
    return lambda x, y: compiled(x, y)


def planted(fault: Callable[[np.ndarray, np.ndarray], None]) -> Built:
    """A build whose code is a function of Python on the arrays."""

    def call(x: int, y: int, size: int) -> int:
        arrays = [np.ctypeslib.as_array((ctypes.c_float * size).from_address(at)) for at in (x, y)]
        fault(*arrays)
        return 0

    return Built(Compiled(FAST, "llvm", 1, "", call, None), f"planted {id(fault)}")


def no_work(x: np.ndarray, y: np.ndarray) -> None:
    pass


def only_small(x: np.ndarray, y: np.ndarray) -> None:
    y[:2000] = x[:2000] * 2 + 1


def right_sums(x: np.ndarray, y: np.ndarray) -> None:
    y[:] = (x * 2 + 1)[::-1]


def off_by_little(x: np.ndarray, y: np.ndarray) -> None:
    y[:] = x * 2 + 1
    y[-1] *= 1.0001


def writes_its_input(x: np.ndarray, y: np.ndarray) -> None:
    y[:] = x * 2 + 1
    x[0] += 1


def right_once() -> Callable[[np.ndarray, np.ndarray], None]:
    calls: list[int] = []

    def fault(x: np.ndarray, y: np.ndarray) -> None:
        calls.append(len(x))
        if calls.count(len(x)) <= (1 if len(x) > 2000 else 100):
            y[:] = x * 2 + 1

    return fault


def stale() -> Callable[[np.ndarray, np.ndarray], None]:
    kept: list[np.ndarray] = []

    def fault(x: np.ndarray, y: np.ndarray) -> None:
        if len(x) < 2000 or not kept:
            y[:] = x * 2 + 1
            if len(x) > 2000:
                kept.append(y.copy())
        else:
            y[:] = kept[0]

    return fault


@pytest.mark.parametrize(
    "fault", [no_work, only_small, right_sums, off_by_little, writes_its_input, right_once(), stale()]
)
def test_a_planted_fault_is_caught(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, fault: Callable[[np.ndarray, np.ndarray], None]
) -> None:
    monkeypatch.setattr(bench_module, "build", lambda *_, **__: planted(fault))
    found = CandidateBench(pool, 1).evaluate(job(pool))
    assert found.status == "wrong" and found.seconds is None, found


def test_what_is_right_passes_where_faults_do_not(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def right(x: np.ndarray, y: np.ndarray) -> None:
        y[:] = x * 2 + 1

    monkeypatch.setattr(bench_module, "build", lambda *_, **__: planted(right))
    assert CandidateBench(pool, 1).evaluate(job(pool)).ok


@pytest.mark.parametrize(
    "clock",
    [
        lambda: time.perf_counter_ns() // 10**9 * 10**9,
        lambda: time.perf_counter_ns() // 10,
        lambda: 0,
    ],
    ids=["one tick a second", "slow", "still"],
)
def test_a_clock_that_is_wrong_is_not_believed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, clock: Callable[[], int]
) -> None:
    monkeypatch.setattr(paired_timing, "CLOCK", clock)
    found = CandidateBench(pool, 1).evaluate(job(pool))
    assert found.status == "lost" and found.seconds is None and found.ratio is None


@pytest.mark.parametrize("is_wrong", [True, False])
def test_a_clock_that_is_wrong_for_the_rival_alone_is_not_believed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, is_wrong: bool
) -> None:
    """It made each candidate three times as fast as the best."""

    def clock() -> int:
        runner = sys._getframe(1).f_locals["self"]
        of_rival = runner.compiled.kernel.hash == REFERENCE.hash
        return time.perf_counter_ns() * (3 if is_wrong and of_rival else 1)

    monkeypatch.setattr(paired_timing, "CLOCK", clock)
    found = CandidateBench(pool, 1).evaluate(replace(job(pool), best=REFERENCE))
    assert found.status in ({"lost"} if is_wrong else {"ok", "cut"}), found  # cut: others had the processor


def test_the_same_source_is_not_built_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two texts, one code: the second costs no compiler, and is not run."""
    halves = "N\n| t = x[{0}] * 2\n| y[{0}] = t + 1\n"
    one, other = (changed(halves, f"tmp t: f32{storage}\n") for storage in ("", " reg"))
    assert one.hash != other.hash
    for target in ("llvm", "c"):
        sources = [build_module.printed(kernel, target) for kernel in (one, other)]
        assert sources[0].text != sources[1].text and sources[0].digest == sources[1].digest
    bench, built, make = CandidateBench(pool, 1), [], build_module.build

    def counted(kernel: dojoir.Kernel, *arguments: Any, **more: Any) -> Built:
        built.append(kernel.hash)
        return make(kernel, *arguments, **more)

    monkeypatch.setattr(bench_module, "build", counted)
    first, again = (bench.evaluate(replace(job(pool), kernel=kernel)) for kernel in (one, other))
    assert built == [one.hash] and first.ok and again.ok
    assert (again.hash, again.digest, again.seconds) == (other.hash, first.digest, first.seconds)
    assert again.cases == 0 and again.ratio is None


def test_what_is_within_its_bounds_is_what_compare_accepts(pool: Pool) -> None:
    """The quick answer is never more permissive than the full one: at each end of each bound, and just beyond."""
    from dojoir.runtime.evaluation.pool import within
    from dojoir.runtime.verification.compare import compare

    for distribution in ("special", "wide"):
        pool.prepare(InputCase(0, distribution, 2))
        known: KnownCase = pool.known(InputCase(0, distribution, 2))
        for name, bounds in known.outputs.items():
            random = Random(name)
            for _ in range(50):
                values = np.array(bounds.expected.values, np.float32)
                at = random.randrange(values.size)
                end = random.choice([bounds.low, bounds.high]).reshape(-1)[at]
                values.reshape(-1)[at] = np.nextafter(end, np.float32(random.choice([-np.inf, 0, np.inf])))
                full = compare(name, bounds.dtype, values, bounds.expected, 2.0).ok
                assert not within(values, bounds) or full


def test_a_pool_reads_what_it_wrote(pool: Pool) -> None:
    case = InputCase(len(pool.small), "uniform", 0)
    known = pool.known(case)
    right = known.inputs["x"].astype(np.float64) * 2 + 1
    assert np.allclose(known.outputs["y"].expected.values, right)
    assert known.complaint({"y": right.astype(np.float32)}, 2.0) is None
    assert "wrong result" in (known.complaint({"y": right.astype(np.float32) + 1}, 2.0) or "")
