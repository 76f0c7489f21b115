"""The memory, CPU time and children of processes, as the system tells: by /proc on Linux, nothing elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dojoir.support.frozen import dataclass

_PR_SET_CHILD_SUBREAPER = 36

HELD = ("RssAnon:", "RssShmem:", "VmSwap:")


def held_bytes() -> int:
    """The bytes of this process that no file is behind; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(HELD))
    return 0


def adopt() -> None:
    """Makes this process the parent of all that its children leave behind, daemons too, where the system can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have, as far as they run."""
    found: list[int] = []
    open_ = [pid]
    while open_:
        at = open_.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{at}/task"):
                children = Path(f"/proc/{at}/task/{thread}/children").read_text().split()
                open_ += map(int, children)
                found += map(int, children)
    return found


def cpu_seconds(pid: int) -> float:
    """Seconds of processors that a process has spent, with those of its children that it has waited for."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def processes_with(word: str) -> list[int]:
    """The processes, as far as this one may read them, that were started with a word (`NAME=value`) in their
    environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end_all(pid: int, seconds: float = 5.0) -> None:
    """Kills all that a process has started, and reaps what is its own child, until nothing is left."""
    until = time.monotonic() + seconds
    while (left := descendants(pid)) and time.monotonic() < until:
        for one in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)


BESIDE, MORE = 0.1, 0.25
"""How many cores other threads may keep busy while a kernel of one thread runs, and by how many cores one of
several threads may be over their number."""


def crowd(cores: float, others: float, threads: int) -> str:
    """Why so many busy cores, of which others than the calling thread kept some busy, are too many; "" if not."""
    if cores > threads + MORE or (threads == 1 and others > BESIDE):
        return f"{cores:.2g} cores were busy while it ran, and it was to run on {threads}"
    return ""


@dataclass
class Cores:
    """Seconds of processors over some stretches of time: of all threads of this process, and of others than the one
    that measures."""

    clock: float = 0.0
    process: float = 0.0
    thread: float = 0.0

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Adds the stretch inside of it."""
        clock, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
        yield
        self.clock += time.perf_counter() - clock
        self.process += time.process_time() - process
        self.thread += time.thread_time() - thread

    @property
    def all(self) -> float:
        """How many cores were busy."""
        return self.process / max(self.clock, 1e-9)

    @property
    def others(self) -> float:
        """How many of them with other threads."""
        return max(0.0, self.process - self.thread) / max(self.clock, 1e-9)
