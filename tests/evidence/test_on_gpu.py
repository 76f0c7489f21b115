"""Benches and gates of a GPU, on a driver whose device is this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fake_gpu import FakeDriver
from synthetic import Clock

import dojoir
from dojoir.evidence import Asked, bench, gate, gate_lines
from dojoir.runtime.gpu import devices
from dojoir.runtime.measurement import gpu_timing, measure
from dojoir.runtime.measurement.timing import run_timing
from dojoir.runtime.process.child import Outcome
from dojoir.runtime.verification import repeats, verify
from dojoir.runtime.verification.repeats import run_changed, run_repeats
from dojoir.runtime.verification.trial import run_trial

SCALED = dojoir.parse("kernel scaled(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}] * 2 + 1\n")
JOBS = {"timing": run_timing, "trial": run_trial, "repeats": run_repeats, "changed": run_changed}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose jobs are done in this process, which alone has it."""

    def run_child(job: Mapping[str, Any], *given: object, **more: object) -> Outcome:
        messages: list[dict[str, Any]] = []
        JOBS[job["kind"]](job, messages.append)
        return Outcome(tuple(messages), None, 0.0, "", "")

    fake = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: fake)
    monkeypatch.setattr(gpu_timing, "COPIED", 1 << 20)
    for module in (measure, verify, repeats):
        monkeypatch.setattr(module, "run_child", run_child)
    return fake


def tiled() -> dojoir.Trace:
    return dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("cuda")).on(SCALED)


@pytest.mark.parametrize("cold", [False, True])
def test_a_gpu_is_benched_by_one_protocol(driver: FakeDriver, cold: bool) -> None:
    given = {"shapes": [{"N": 300}], "cold": cold, "seconds": 60.0, "samples": 3}
    found = bench(tiled(), "cuda", beside=("text", "c", "numpy", "torch"), **given)
    (shape,) = found.shapes
    assert found.correct == "pass", found.reason
    assert shape.status == "ok" and shape.own is not None and shape.own.count >= 3, shape.reason
    words = "by events, the last cache written before each call" if cold else "a graph started again"
    assert found.protocol == f"measure 3, {words}"
    text = shape.peer("text")
    assert text is not None and text.difference == 0 and set(shape.left_out) >= {"c", "numpy"}
    assert shape.ceiling is not None and shape.ceiling.memory is not None, "of the same run"
    assert bool(driver.graphs) != cold


def test_all_gates_of_a_gpu(driver: FakeDriver) -> None:
    trace = tiled()
    clock = Clock(lambda one: 1e-3 if one == trace.kernel else 2e-3, 0.0)
    asked = Asked(
        trace, "cuda", [{"N": 300}], 1, ("text",), seed=3, measure=clock, honesty=lambda *_: (None, ("told",))
    )  # fmt: skip
    found = gate(asked)
    assert found.ok, gate_lines(found)
    assert found.notes == ("told",)


def test_work_that_is_left_out_after_the_rounds_is_seen(driver: FakeDriver) -> None:
    launch, count = driver.launch, 0

    def tired(*given: Any) -> None:
        nonlocal count
        count += 1
        if count < 20:
            launch(*given)

    driver.launch = tired
    together = dojoir.measure_together(
        [tiled().kernel, tiled().kernel], "cuda", N=300, cold=True, fewest=12, budget=60.0, precision=1.0
    )
    assert together.measurements[0].difference > 1


def test_without_a_gpu_nothing_passes_but_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(target: str) -> None:
        raise dojoir.ToolchainError("target cuda needs a GPU of NVIDIA, and there is none here", "no-device")

    monkeypatch.setattr(devices, "find", find)
    found = gate(Asked(tiled(), "cuda", [{"N": 300}], 1, ("text",), seed=3))
    statuses = {one.name: one.status for one in found.gates}
    assert statuses.pop("proved") == "pass" and set(statuses.values()) <= {"unavailable"}, gate_lines(found)
    assert not found.ok and "needs a GPU" in found["faster"].reason
    assert bench(tiled(), "cuda", shapes=[{"N": 300}], beside=("text",)).shapes[0].status == "unavailable"
