"""A child process that does one job: what it reports, and how it ends, whatever it does.

A crash, a hang and a kill are outcomes, not errors. The child leads its own process group, which is killed as a
whole when it is over; on Linux it also dies with its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dojoir.errors import ArgumentError, Diagnostic, DojoError, KernelError, ParseError, RunError, ToolchainError
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import temporary_file

KEPT = 1 << 16
"""How many of the last bytes of stdout and stderr are kept."""

LONGEST = 1e6
"""The seconds that a child is waited for at most: the system takes no time-out of months."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Message = dict[str, Any]
"""A line that the child reported: plain data, as JSON has it."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a child process. `ended` is None if it finished its job, else why it did not, as a phrase:
    "crashed (SIGSEGV)". `messages` are what it reported until then, one a line."""

    messages: tuple[Message, ...]
    ended: str | None
    seconds: float
    stdout: str
    stderr: str


Run = Callable[[Mapping[str, object], float], Outcome]
"""The function that runs a job in a process of its own, within a time in seconds."""


def run_child(
    job: Mapping[str, object], time_limit: float, memory_limit: int | None = None, threads: int | None = None
) -> Outcome:
    """Runs a job of `dojoir.runtime.process.worker` to its end, or for `time_limit` seconds, in at most
    `memory_limit` bytes of address space. Libraries in the child are told to use `threads` threads, and given as
    many cores: some do not listen."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(search_path()))
    if threads is not None:
        environment |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    reading, writing = os.pipe()
    start = time.monotonic()
    with temporary_file() as stdin:
        stdin.write(
            json.dumps({**job, "memory_limit": memory_limit, "cores": threads, "parent": os.getpid()}).encode()
        )
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dojoir.runtime.process.worker", str(writing)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(writing,),
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            raise RunError(f"no process could be started: {error}", "no-process") from None
        finally:
            os.close(writing)
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        return heard(process, reading, (process.stdout.fileno(), process.stderr.fileno()), start, time_limit)


class Process(Protocol):
    """A process that this one has started, as `subprocess.Popen` is one."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...


def heard(process: Process, report: int, printed: Sequence[int], start: float, time_limit: float) -> Outcome:
    """The outcome of a process that leads a group, and was started at `start`. `report` is the end of the pipe
    that it reports to, which is closed at last; `printed` gives its output (stdout and stderr)."""
    streams = {stream: bytearray() for stream in (report, *printed)}
    try:
        hung = not _listen(process, streams, start + min(time_limit, LONGEST))
    finally:
        # Reaped only now: until then nobody else can have the number of the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
        _drain(streams)
        os.close(report)
    reported, stdout, stderr = [*streams.values(), bytearray(), bytearray()][:3]
    return Outcome(
        messages=tuple(_messages(bytes(reported))),
        ended=f"hung (stopped after {time_limit:g} s)" if hung else ending(status),
        seconds=time.monotonic() - start,
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
    )


def raise_reported(outcome: Outcome) -> None:
    """Raises the error of ours that ended the job, if one did."""
    for message in outcome.messages:
        if "raised" in message:
            raise ERRORS[message["raised"]](Diagnostic(message["code"], message["message"]))


ERRORS: Mapping[str, type[DojoError]] = {
    kind.__name__: kind for kind in (ArgumentError, KernelError, ParseError, RunError, ToolchainError)
}


def _listen(process: Process, streams: dict[int, bytearray], deadline: float) -> bool:
    """Collects what the streams give until the process ends (it is not reaped). Says whether it did before the
    deadline. Where the system cannot wait for a process and streams together, the end of the first stream counts,
    which a process that the child left behind may hold open."""
    report = next(iter(streams))
    with _process_handle(process) as handle, selectors.DefaultSelector() as selector:
        for stream in (*streams, *handle):
            selector.register(stream, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in selector.select(left):
                if key.fd in handle:
                    return True
                if not _take(streams, key.fd, keep_all=key.fd == report):
                    selector.unregister(key.fd)
                    if key.fd == report and not handle:
                        return _ends(process, deadline)


@contextlib.contextmanager
def _process_handle(process: Process) -> Iterator[tuple[int, ...]]:
    """A file descriptor that becomes readable when the process ends, if the system has such a thing."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield ()
        return
    try:
        yield (handle,)
    finally:
        os.close(handle)


def _ends(process: Process, deadline: float) -> bool:
    """Waits for the end of a process that has closed its report, without reaping it where the system allows."""
    while not _has_ended(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _has_ended(process: Process) -> bool:
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _take(streams: dict[int, bytearray], stream: int, keep_all: bool) -> bool:
    data = os.read(stream, 1 << 16)
    streams[stream] += data
    if not keep_all:
        del streams[stream][:-KEPT]
    return bool(data)


def _drain(streams: dict[int, bytearray]) -> None:
    """Reads the rest of the pipes, without waiting for a process that may still hold them."""
    for number, stream in enumerate(streams):
        os.set_blocking(stream, False)
        with contextlib.suppress(BlockingIOError):
            while _take(streams, stream, keep_all=number == 0):
                pass


def _messages(reported: bytes) -> list[Message]:
    """The whole lines: a child that was stopped may have left a part of one."""
    lines = reported.split(b"\n")[:-1]
    messages: list[Message] = [json.loads(line) for line in lines]
    return messages


def ending(status: int) -> str | None:
    """How a process with an exit status ended, as a phrase; None where all went well."""
    if status == 0:
        return None
    if status > 0:
        return f"failed (exit status {status})"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if name == "SIGKILL":
        return "was killed (SIGKILL; most likely the machine ran out of memory)"
    return f"crashed ({name})"


def search_path() -> list[str]:
    """Where a child finds the same modules as this process."""
    paths = [os.getcwd() if path == "" else path for path in sys.path]
    return [path for path in dict.fromkeys(paths) if Path(path).exists()]
