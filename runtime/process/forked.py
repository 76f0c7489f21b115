"""A job of `worker` in a fork of this process: for one that has one thread, has imported all, and has several.

A fork is there within milliseconds, where a fresh interpreter takes a fifth of a second, and what this process has
found out, its compilers above all, it need not find out again.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping

from dojoir.runtime.process.child import Outcome, heard
from dojoir.runtime.process.worker import die_with, do


class _Fork:
    """A fork that leads its own process group."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None

    def poll(self) -> int | None:
        return self._reaped(os.WNOHANG)

    def wait(self) -> int:
        status = self._reaped(0)
        assert status is not None
        return status

    def _reaped(self, options: int) -> int | None:
        if self.status is None:
            pid, status = os.waitpid(self.pid, options)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status


def run_forked(job: Mapping[str, object], time_limit: float) -> Outcome:
    """As `run_child`: a job, to its end or for `time_limit` seconds. What it prints is not kept."""
    parent, start = os.getpid(), time.monotonic()
    reading, writing = os.pipe()
    ready, begun = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            os.close(ready)
            os.setsid()
            os.close(begun)
            die_with(parent)
            do(dict(job), writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    os.close(begun)
    os.read(ready, 1)  # until it leads its group
    os.close(ready)
    return heard(_Fork(pid), reading, (), start, time_limit)
