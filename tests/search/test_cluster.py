"""A search on a cluster: states travel as texts, other versions are refused, no worker's end loses any."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import dojoir
from dojoir.runtime import Evaluation
from dojoir.search.cluster import Cluster
from dojoir.search.station import Station, beside
from dojoir.verbs import main

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

SOFTMAX = dojoir.kernels.load("softmax")
SIZES = {"N": 64, "M": 96}
ORDER: dict[str, Any] = {
    "version": dojoir.__version__, "reference": dojoir.to_text(SOFTMAX), "start": dojoir.to_text(SOFTMAX),
    "target": "llvm", "sizes": [SIZES], "threads": 1, "seed": 0, "timer": "static", "best": None,
    "code_limit": 64_000,
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_lease")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler in this process, without workers."""
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as made:
        yield str(made.scheduler_address)


@contextlib.contextmanager
def worker(address: str, *more: str, before: str = "pass") -> Iterator[subprocess.Popen[str]]:
    """`dojoir worker` in a process of its own, once it has joined."""
    call = f"import sys, dojoir; {before}; from dojoir.verbs import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", call, "worker", address, *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert "a worker of" in process.stderr.readline()
            yield process
        finally:
            process.kill()
            process.communicate()


def walk(count: int) -> list[dojoir.Kernel]:
    """Different states of softmax."""
    return [dojoir.apply(SOFTMAX, f"split(0, {number})") for number in range(2, count + 2)]


def cluster(address: str, **more: Any) -> Cluster:
    return Cluster(address, SOFTMAX, SOFTMAX, "llvm", [SIZES], **{"timer": "static", "patience": 10.0, **more})


def test_a_search_on_two_workers_finds_what_one_process_does(scheduler: str) -> None:
    budget = dojoir.Budget(states=12)
    with worker(scheduler), worker(scheduler):
        tuned = dojoir.tune(
            SOFTMAX, sizes=SIZES, timer="static", cluster=scheduler, budget=budget, strategy="random"
        )
    assert len(tuned.states) == 12 and {one.status for one in tuned.states} == {"ok"}
    for one in tuned.states[1:]:
        assert one.ratio is not None
    assert (
        dojoir.search.estimate(tuned.trace.kernel, SIZES, threads=1)
        < dojoir.search.estimate(SOFTMAX, SIZES, threads=1) / 2
    )


def test_a_worker_evaluates_and_its_end_loses_nothing(scheduler: str) -> None:
    kernels = walk(6)
    with worker(scheduler) as first, cluster(scheduler, timer="measure") as made:
        found = []
        for evaluation in made.evaluate(kernels):
            found.append(evaluation)
            if len(found) == 1:
                first.send_signal(signal.SIGKILL)
                second = contextlib.ExitStack()
                second.enter_context(worker(scheduler))
        second.close()
    assert sorted(one.hash for one in found) == sorted(kernel.hash for kernel in kernels)
    assert {one.status for one in found} <= {"ok", "cut"} and all(one.ratio is not None for one in found)
    assert any("was lost" in note for note in made.notes)


def test_other_versions_and_other_devices_are_refused(scheduler: str) -> None:
    with (
        worker(scheduler, before="dojoir.__version__ = '0.0.7'"),
        worker(scheduler, "--device", "cuda:0"),
        cluster(scheduler, patience=1.0) as made,
        pytest.raises(dojoir.ToolchainError) as caught,
    ):
        list(made.evaluate(walk(1)))
    assert caught.value.diagnostic.code == "no-workers"
    assert "it has dojoir 0.0.7" in str(caught.value) and "its device is cuda:0" in str(caught.value)


def test_where_there_is_nobody_it_is_told(
    capsys: pytest.CaptureFixture[str], scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(scheduler, patience=0.5) as made, pytest.raises(dojoir.ToolchainError, match="dojoir worker tcp"):
        list(made.evaluate(walk(1)))
    monkeypatch.setattr("dojoir.search.cluster.CONNECT", 0.5)
    with pytest.raises(dojoir.ToolchainError, match="dask scheduler"), cluster("tcp://127.0.0.1:9"):
        pass
    assert main(["worker", "sundial://"]) == 4
    assert "error[no-cluster]" in capsys.readouterr().err


def test_a_search_ends_with_its_best_where_all_workers_are_lost(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dojoir.search.cluster.PATIENCE", 0.5)
    with worker(scheduler) as only:

        def kill(evaluation: Evaluation, trace: dojoir.Trace, best: float) -> None:
            if not killed:
                killed.append(only.send_signal(signal.SIGKILL))

        killed: list[None] = []
        tuned = dojoir.tune(SOFTMAX, sizes=SIZES, timer="static", cluster=scheduler, progress=kill)
    assert tuned.stopped.startswith("nothing can be evaluated any more") and tuned.trace.is_safe


def test_a_station_answers_texts_and_nothing_else() -> None:
    station = Station("cpu", os.getpid())
    states = [dojoir.to_text(kernel) for kernel in walk(2)]
    answer = station.answer({**ORDER, "states": states})
    found = [Evaluation.from_json(one) for one in answer["states"]]
    assert [one.hash for one in found] == [kernel.hash for kernel in walk(2)]
    assert answer["context"]["protocol"] == "static"
    assert station.answer({**ORDER, "noise": states[0]}) == {"noise": 0.0}
    assert "dojoir" in station.answer({**ORDER, "version": "0.0.1", "states": []})["refused"]
    assert station.answer({**ORDER, "states": ["kernel"]})["refused"]
    assert station.answer({**ORDER, "reference": "kernel", "states": []})["refused"]
    station.close()


def test_a_ratio_is_of_one_machine() -> None:
    found = Evaluation("a", "ok", 2.0, (1.9, 2.1))
    rival = Evaluation("b", "ok", 4.0, (3.9, 4.1))
    made = beside(found, rival)
    assert made.ratio == 2.0 and made.ratio_interval is not None
    assert made.ratio_interval[0] < 2.0 < made.ratio_interval[1]
    raced = replace(found, ratio=1.5)
    assert beside(raced, rival) is raced
    assert beside(Evaluation("a", "wrong"), rival).ratio is None
