"""Whatever times takes the lease of the machine, so that no two measurements run at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import dojoir
from dojoir.runtime.measurement import lease
from dojoir.runtime.measurement.lease import timing_lease

pytest.importorskip("fcntl")

HOLDER = """
import sys, time
from dojoir.runtime.measurement.lease import timing_lease
with timing_lease():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of their own: other tests time as well."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def measured() -> threading.Event:
    """Set once a measurement that starts now is done."""
    done = threading.Event()

    def run() -> None:
        dojoir.measure(dojoir.kernels.load("relu"), N=1024, threads=1, budget=0.05, with_ceilings=False)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done


def test_a_measurement_waits_for_a_thread_that_times() -> None:
    with timing_lease():
        done = measured()
        assert not done.wait(3)
    assert done.wait(60)


def test_a_measurement_waits_for_another_process_and_goes_on_when_that_is_killed() -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    done = measured()
    assert not done.wait(3)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert done.wait(60)


def test_two_at_once_run_one_after_the_other() -> None:
    running, most = 0, 0
    guard = threading.Lock()

    def run() -> None:
        nonlocal running, most
        with timing_lease():
            with guard:
                running += 1
                most = max(most, running)
            time.sleep(0.05)
            with guard:
                running -= 1

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (running, most) == (0, 1)


def test_ceilings_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []

    def look(*_: object, **__: object) -> object:
        with pytest.raises(dojoir.RunError, match="another measurement"), timing_lease(longest_wait=0.05):
            raise AssertionError("the lease is free")
        held.append(True)
        raise dojoir.RunError("seen", "seen")

    monkeypatch.setattr("dojoir.runtime.measurement.roofline.run_child", look)
    with pytest.raises(dojoir.RunError, match="seen"):
        dojoir.ceilings(1)
    assert held == [True]


def test_devices_are_leased_apart_and_no_place_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with timing_lease("cpu"), timing_lease("gpu0", 0.1):
        assert lease.lease_file("cpu") != lease.lease_file("gpu0")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere/at/all")
    with timing_lease():
        pass
