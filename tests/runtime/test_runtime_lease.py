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
        dojoir.runtime.ceilings(1)
    assert held == [True]


def test_devices_are_leased_apart_and_no_place_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with timing_lease("cpu"), timing_lease("gpu0", 0.1):
        assert lease.lease_file("cpu") != lease.lease_file("gpu0")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere/at/all")
    with timing_lease():
        pass


WAITER = """
import sys, time
from dojoir.runtime.measurement.lease import timing_lease
print("waits", flush=True)
with timing_lease():
    with open(sys.argv[1], "a") as file:
        file.write(sys.argv[2])
    time.sleep(0.05)
"""


def test_who_came_first_is_next(tmp_path: Path) -> None:
    """A short wait beside long ones was luck: those that timed all the time took it again and again."""
    log, waiting = tmp_path / "log", []
    with timing_lease():
        for name in "abcd":
            one = subprocess.Popen(
                [sys.executable, "-c", WAITER, str(log), name], stdout=subprocess.PIPE, text=True
            )
            assert one.stdout is not None and one.stdout.readline() == "waits\n"
            time.sleep(0.2)
            waiting.append(one)
    with timing_lease():
        assert log.read_text() == "abcd"
    for one in waiting:
        assert one.stdout is not None and one.wait(30) == 0
        one.stdout.close()
    assert not list(tmp_path.glob("*.queue/*"))


def test_a_stopped_process_in_the_queue_is_named() -> None:
    """Ctrl-Z: those behind it wait, and are told for whom."""
    with timing_lease():
        waiter = subprocess.Popen([sys.executable, "-c", WAITER, "none", "x"], stdout=subprocess.PIPE, text=True)
        assert waiter.stdout is not None and waiter.stdout.readline() == "waits\n"
        time.sleep(0.2)
        os.kill(waiter.pid, signal.SIGSTOP)
    try:
        with (
            pytest.raises(dojoir.RunError, match=f"kill -CONT {waiter.pid} ") as error,
            timing_lease(longest_wait=0.3),
        ):
            raise AssertionError("the lease is free")
        assert f"process {waiter.pid} (" in str(error.value) and error.value.diagnostic.code == "busy"
    finally:
        os.kill(waiter.pid, signal.SIGKILL)
        waiter.wait()
        waiter.stdout.close()


def test_a_ticket_of_a_process_that_was_killed_holds_nobody_up(tmp_path: Path) -> None:
    with timing_lease():
        waiter = subprocess.Popen([sys.executable, "-c", WAITER, "none", "x"], stdout=subprocess.PIPE, text=True)
        assert waiter.stdout is not None and waiter.stdout.readline() == "waits\n"
        time.sleep(0.2)
        os.kill(waiter.pid, signal.SIGKILL)
        waiter.wait()
        waiter.stdout.close()
    with timing_lease(longest_wait=5):
        pass
    assert not list(tmp_path.glob("*.queue/*"))


def test_a_worker_is_told_as_what_somebody_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.kernels.load("relu")
    found: list[lease.Holder | None] = []
    with dojoir.Evaluator(kernel, "llvm", {"N": 1 << 22}, race_seconds=3.0) as evaluator:
        timing = threading.Thread(target=lambda: [*evaluator.evaluate([kernel])])
        timing.start()
        while timing.is_alive() and not found:
            found += [one for one in [lease.holder()] if one is not None]
        timing.join()
    assert found and found[0] is not None and found[0].pid == os.getpid() and "fork_server" not in found[0].command


def test_who_holds_it_is_said() -> None:
    assert lease.holder() is None
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    found = lease.holder()
    assert found is not None and found.pid == holder.pid and "python" in found.command
    with (
        pytest.raises(dojoir.RunError, match=f"(?s)process {holder.pid} .*for") as error,
        timing_lease("cpu", 0.05),
    ):
        pass
    assert error.value.diagnostic.code == "busy"
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert lease.holder() is None
