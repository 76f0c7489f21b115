"""The child's side: one job, read as JSON from stdin, reported as lines of JSON to a pipe.

`python -m dojoir.runtime.process.worker FD` is started by `dojoir.runtime.process.child`. A `DojoError` is a
message like any other; what else goes wrong ends the process, which its parent sees.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from dojoir.errors import DojoError
from dojoir.support.temporary import told_of_room

Report = Callable[[dict[str, object]], None]

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Does the job and ends the process, without the clean-up of the interpreter: the job may have left it unfit
    for one."""
    stream = int(sys.argv[1])
    os.set_inheritable(stream, False)
    job: dict[str, Any] = json.load(sys.stdin)
    die_with(job["parent"])
    limit_memory(job["memory_limit"])
    _limit_cores(job["cores"])
    do(job, stream)


def do(job: dict[str, Any], stream: int) -> NoReturn:
    """Does a job, reports to `stream`, and ends the process."""

    def report(message: dict[str, object]) -> None:
        os.write(stream, json.dumps(message).encode() + b"\n")

    try:
        with told_of_room():
            _work(job, report)
    except DojoError as error:
        diagnostic = error.diagnostic
        report({"raised": type(error).__name__, "code": diagnostic.code, "message": diagnostic.message})
    except MemoryError:
        report({"raised": "RunError", "code": "out-of-memory", "message": "the process ran out of memory"})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


_JOBS = {
    "trial": "dojoir.runtime.verification.trial:run_trial",
    "timing": "dojoir.runtime.measurement.timing:run_timing",
    "repeats": "dojoir.runtime.verification.repeats:run_repeats",
    "changed": "dojoir.runtime.verification.repeats:run_changed",
    "spending": "dojoir.runtime.measurement.spending:run_spending",
    "ceilings": "dojoir.runtime.measurement.roofline:run_ceilings",
    "counting": "dojoir.runtime.measurement.counters:run_counting",
}
"""The function of each kind of job, `module:function`, imported in the process that runs it."""


def _work(job: dict[str, Any], report: Report) -> None:
    module, _, function = _JOBS[job["kind"]].partition(":")
    getattr(import_module(module), function)(job, report)


def die_with(parent: int) -> None:
    """Where the system can, ends this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it ended before
            os._exit(1)


def die_with_all_of(parent: int) -> None:
    """The same, where the parent may have threads that end before it does. The system tells of the end of the
    thread that started this process, and it is looked at whether there is more of the parent."""

    def look(number: int, frame: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    if sys.platform == "linux":
        signal.signal(signal.SIGHUP, look)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGHUP), 0, 0, 0)
        look(0, None)


def limit_memory(limit: int | None) -> None:
    if limit is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _limit_cores(count: int | None) -> None:
    """Where the system can, keeps the threads of this process on `count` cores: the last, as the first one is
    where a system likes to do its own work."""
    if count is not None and sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


if __name__ == "__main__":
    main()
