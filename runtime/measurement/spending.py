"""The cost of calls of a kernel beside their time: memory that stays, work of other threads, and threads and
processes that are left."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from dojoir.ir.nodes import Kernel
from dojoir.meaning.sizes import solve
from dojoir.proof.wellformed import prove
from dojoir.runtime.build.compiler import check_kernel, check_target
from dojoir.runtime.call.needs import check_memory
from dojoir.runtime.measurement.timing import SharedArrays
from dojoir.runtime.process.child import raise_reported, run_child
from dojoir.runtime.process.offspring import Cores, adopt, crowd, descendants, held_bytes
from dojoir.runtime.process.subject import KernelSubject, subject_from_json
from dojoir.runtime.process.worker import Report
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

WARM, SECONDS = 16, 5.0
"""How many calls come before those that are counted, and how long these go on at most."""

LEFT = 1 << 20
"""Bytes that the second half of the calls may leave behind."""


@dataclass(frozen=True)
class CallCost:
    """The cost of some calls: bytes that stay since the first half of them, the cores that were busy, and those
    that others than the calling thread kept busy. Then how many threads and processes there were more at the end.
    `ended` says why the process did not come to that."""

    calls: int = 0
    left: int = 0
    cores: float = 0.0
    others: float = 0.0
    threads: int = 0
    processes: int = 0
    ended: str = ""

    def complaint(self, threads: int) -> str:
        """Why that is more than a kernel on so many threads may use; "" where it is not."""
        if self.ended:
            return f"the process {self.ended} in calls one after another"
        if self.left > LEFT:
            return f"it holds {self.left >> 10} KiB more after {self.calls // 2} of {self.calls} calls"
        if self.processes:
            return "a process that it started goes on after its calls"
        if self.threads > (threads if threads > 1 else 0):
            return f"it has started {self.threads} threads, and {threads} were to run it"
        return crowd(self.cores, self.others, threads)


@public
def spending(
    kernel: Kernel,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int],
    threads: int = 1,
    calls: int = 1000,
    seed: int = 0,
    time_limit: float = 60.0,
) -> CallCost:
    """Calls a kernel so many times, or for some seconds, in a child process, and says what that used. Raises as
    `verify` does."""
    prove(check_kernel(kernel, "repeat"))
    target = check_target(target)
    full = solve(kernel, {}, sizes)
    check_memory(kernel, full)
    subject = KernelSubject(kernel, target, threads).to_json()
    job = {"kind": "spending", "subject": subject, "sizes": full, "seed": seed, "calls": calls}
    outcome = run_child(job, time_limit)
    raise_reported(outcome)
    found = next((message for message in outcome.messages if "calls" in message), None)
    return CallCost(ended=outcome.ended or "ended") if found is None else CallCost(**found)


# -- in the child ------------------------------------------------------------------------------------------
def run_spending(job: Mapping[str, Any], report: Report) -> None:
    """Calls the subject, and reports the fields of `CallCost`."""
    adopt()
    subject = subject_from_json(job["subject"])
    assert isinstance(subject, KernelSubject)
    inputs = make_inputs(subject.kernel, job["sizes"], job["seed"], "uniform")
    contestant = SharedArrays(job["sizes"], inputs, "warm").contestant(subject, subject.kernel)
    before, begun = _threads(), descendants(os.getpid())

    def run(most: int) -> int:
        end = perf_counter() + SECONDS / 2
        for number in range(most):
            contestant.single(0)
            if perf_counter() > end:
                return number + 1
        return most

    run(WARM)
    first, cores, others = _measured(run, job["calls"] // 2)
    held = held_bytes()
    second, more_cores, more_others = _measured(run, job["calls"] // 2)
    left = held_bytes() - held
    report({
        "calls": first + second, "left": left, "cores": max(cores, more_cores),
        "others": max(others, more_others), "threads": _threads() - before,
        "processes": len(set(descendants(os.getpid())) - set(begun)),
    })  # fmt: skip


def _measured(run: Callable[[int], int], most: int) -> tuple[int, float, float]:
    """How many calls there were, how many cores were busy, and how many of them with other threads."""
    cores = Cores()
    with cores.used():
        calls = run(most)
    return calls, cores.all, cores.others


def _threads() -> int:
    """How many threads this process has; 1 where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1
