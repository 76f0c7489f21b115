"""Evaluating candidates for a GPU: emulated, and on a driver whose device is this process; other targets too."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_gpu import FakeDriver

import dojoir
from dojoir.runtime.evaluation import paired_timing
from dojoir.runtime.evaluation.bench import CandidateBench, Job
from dojoir.runtime.evaluation.gpu_candidates import DeviceRunner
from dojoir.runtime.evaluation.pool import CHANGED, InputCase, Pool
from dojoir.runtime.gpu import devices

RELU = dojoir.parse(
    "kernel scaled(N)\nin  x: f32[N]\ninout z: f32[N]\nout y: f32[N]\n"
    "N\n| y[{0}] = x[{0}] * 2 + 1\n| z[{0}] += x[{0}]\n"
)
SIZES = {"N": 300}


pytestmark = pytest.mark.usefixtures("own_lease")


def tiled() -> dojoir.Kernel:
    """The kernel on blocks of a GPU."""
    return dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("cuda")).on(RELU).kernel


def test_an_emulated_gpu_evaluates() -> None:
    wrong = dojoir.parse(dojoir.to_text(tiled()).replace("* 2 + 1", "* 2 + 1.5"))
    with dojoir.Evaluator(RELU, "cuda", SIZES, emulated=True, time_limit=60.0) as evaluator:
        assert evaluator.protocol.endswith("emulated")
        right, other = evaluator.evaluate([tiled(), wrong])
    assert (right.status, other.status) == ("ok", "wrong"), (right.reason, other.reason)
    assert right.cases >= 12 and right.seconds is not None


def timed(pool: Pool) -> tuple[InputCase, InputCase, InputCase]:
    last = len(pool.small)
    return InputCase(last, "integers", 0), InputCase(last, "uniform", 0), InputCase(last, CHANGED, 0)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    made = Pool(str(tmp_path_factory.mktemp("pool")), RELU, "cuda", (SIZES,), (11, 22, 33), 60.0)
    for case in timed(made):
        made.prepare(case)
    return made


@pytest.mark.parametrize("cold", [False, True])
def test_a_gpu_is_timed_by_its_events(pool: Pool, monkeypatch: pytest.MonkeyPatch, cold: bool) -> None:
    fake = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: fake)
    monkeypatch.setattr("dojoir.runtime.gpu.targets.devices.find", lambda target: fake)
    monkeypatch.setattr(paired_timing, "MOST_CALLS", 1)
    monkeypatch.setattr(paired_timing, "MOST", 3)
    monkeypatch.setattr(DeviceRunner, "tick", 1e-9)
    monkeypatch.setattr(DeviceRunner, "slop_of_call", 10.0)  # the events of this driver are no clock
    bench = CandidateBench(pool, 1, cold=cold)
    first = bench.evaluate(Job(tiled(), (), (timed(pool),)))
    assert first.ok and first.cases == 3, first.reason
    raced = bench.evaluate(Job(RELU, (), (timed(pool),), tiled()))
    assert raced.status in ("ok", "cut"), raced.reason
    assert bool(fake.graphs) is not cold
    noise = bench.evaluate(Job(tiled(), (), (timed(pool),), tiled(), "itself"))
    assert noise.ratio is not None


def test_packed_results_stay_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.kernels.load("nvfp4_quantize")
    made = Pool(str(tmp_path), kernel, "cuda", ({"M": 4, "B": 8},), (11, 22, 33), 60.0)
    for case in timed(made):
        made.prepare(case)
    fake = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: fake)
    monkeypatch.setattr("dojoir.runtime.gpu.targets.devices.find", lambda target: fake)
    monkeypatch.setattr(paired_timing, "MOST_CALLS", 1)
    monkeypatch.setattr(paired_timing, "MOST", 3)
    monkeypatch.setattr(DeviceRunner, "tick", 1e-9)
    monkeypatch.setattr(DeviceRunner, "slop_of_call", 10.0)
    monkeypatch.setattr(DeviceRunner, "slop", 10.0)
    found = CandidateBench(made, 1).evaluate(Job(dojoir.optimize(kernel, "cuda").kernel, (), (timed(made),)))
    assert found.ok, found.reason


def test_packed_results_are_evaluated_through_c() -> None:
    kernel = dojoir.kernels.load("nvfp4_quantize")
    with dojoir.Evaluator(kernel, "c", {"M": 4, "B": 8}, time_limit=60.0) as evaluator:
        (found,) = evaluator.evaluate([dojoir.optimize(kernel, "c").kernel])
    assert found.ok, found.reason


def test_an_emulated_processor_evaluates() -> None:
    target = next((name for name in ("neon", "rvv") if _runs(name)), None)
    if target is None:
        pytest.skip("neither NEON nor RVV runs here")
    with dojoir.Evaluator(RELU, target, SIZES, time_limit=60.0) as evaluator:
        (found,) = evaluator.evaluate([dojoir.apply(RELU, "split(0, 8)")])
    assert found.ok, found.reason


def _runs(target: str) -> bool:
    try:
        dojoir.compile(RELU, target)
    except dojoir.ToolchainError:
        return False
    return True
