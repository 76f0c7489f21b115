"""An agent of a file in processes of its own, which are ended where it does not answer in time.

They load the file once and play one task after the other (`player`). One that hangs, crashes or exits is a task
that failed; the next task gets new processes. They have a session of their own, no keys of the environment,
and a cache of their own; what they ask for is done here (`serving`).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from socket import socket, socketpair

import dojoir
from dojoir.runtime.process.offspring import cpu_seconds, descendants, processes_with
from dojoir.tasks.agents import answer_of, digest_of_file
from dojoir.tasks.desk import Desk
from dojoir.tasks.serving import Gone, Served
from dojoir.tasks.task import Answer

LOADING = 600.0
"""Seconds within which a file is loaded and its agent made: a language model is read in that time."""

UNLIMITED = 600.0
"""Seconds that an agent has for a task whose budget has none."""

GRACE, GRACE_SHARE = 30.0, 0.1
"""Seconds that an agent has after its budget of seconds, and the share of that budget that is added to them. An
evaluation that was begun in time comes to its end, and an answer is given."""

SENDING = 10.0
"""Seconds within which a message is read by an agent, and its process has ended that has closed the pipe."""

LARGEST = 64 << 20
"""The most bytes of a message of an agent."""

MARK = "DOJOIR_AGENT"
"""A variable that the processes of an agent have: they are found by it, however they were started."""

KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "CC",
    "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "CUDA_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "OMP_NUM_THREADS", "PYTHONHASHSEED", "DOJOIR_THREADS", "DOJOIR_CHECK",
)  # fmt: skip
"""The variables of the environment that an agent gets, beside those of the locale."""


class IsolatedAgent:
    """The agent of a file, played in processes of its own. Raises ArgumentError, `bad-agent`, where the file has no
    agent, or is not loaded within LOADING seconds."""

    def __init__(self, file: str, member: str = "", seed: int = 0, *, grace: float = GRACE) -> None:
        self.given, self.grace, self.digest = (file, member, seed), grace, digest_of_file(file)
        self._process: _Process | None = self._started()

    def play(self, desk: Desk) -> Answer:
        """The answer of the agent. Raises ArgumentError, `bad-agent`, where it failed, ended its process, or did
        not answer until its budget of seconds and the grace were over."""
        process = self._process = self._process or self._started()
        seconds = desk.task.budget.seconds
        limit = UNLIMITED if seconds is None else seconds * (1 + GRACE_SHARE)
        before = process.spent()
        try:
            answer = Served(desk, process, time.monotonic() + limit + self.grace).answer()
            desk.outside += process.spent() - before
            return answer_of(answer, desk.kernel)
        except Gone as error:
            desk.outside += max(0.0, process.spent() - before)
            self.close()
            raise _bad(f"the agent failed: {error}") from None
        except dojoir.DojoError:
            desk.outside += max(0.0, process.spent() - before)
            raise
        except BaseException:
            self.close()
            raise

    def _started(self) -> _Process:
        process = _Process()
        try:
            process.send(self.given)
            match process.heard(time.monotonic() + LOADING):
                case {"failed": str(refused)}:
                    raise _bad(refused)
        except BaseException as error:
            process.end()
            if isinstance(error, Gone):
                raise _bad(f"cannot load {self.given[0]}: {error}") from None
            raise
        return process

    def close(self) -> None:
        """Ends the processes; the next task begins others."""
        if self._process is not None:
            self._process.end()
            self._process = None


class _Process:
    """A process of `player`, and the pipe to it. It ends with this object, and where this process ends."""

    def __init__(self) -> None:
        self.connection, theirs = socketpair()
        self.mark, self.cache = secrets.token_hex(16), tempfile.mkdtemp(prefix="dojoir-agent-")
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dojoir.tasks.player", str(theirs.fileno())],
                stdin=subprocess.PIPE, pass_fds=(theirs.fileno(),), start_new_session=True,
                env={**environment(), MARK: self.mark, "DOJOIR_CACHE": self.cache},
            )  # fmt: skip
        except OSError as error:
            self.connection.close()
            shutil.rmtree(self.cache, ignore_errors=True)
            raise dojoir.RunError(f"no process could be started: {error}", "no-process") from None
        finally:
            theirs.close()
        self.last = 0.0
        self.end = weakref.finalize(self, _end, self.process, self.connection, self.mark, self.cache)

    def send(self, value: object) -> None:
        """Sends a message as `Connection` does. Raises Gone."""
        data = bytes(ForkingPickler.dumps(value))
        with self._told(lambda: "did not read what it was sent"):
            self.connection.settimeout(SENDING)
            self.connection.sendall(struct.pack("!i", len(data)) + data)

    def heard(self, end: float) -> object:
        """The data of its next message, until `end` of the monotonic clock. Raises Gone."""
        begun = time.monotonic()
        with self._told(lambda: f"had said nothing for {time.monotonic() - begun:.3g} s, and its time was over"):
            (size,) = struct.unpack("!i", self._received(4, end))
            if not 0 <= size <= LARGEST:
                raise Gone("it sent what is no JSON")
            data = self._received(size, end)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise Gone("it sent what is no JSON") from None

    def _received(self, count: int, end: float) -> bytes:
        """So many bytes. Raises TimeoutError after `end`, EOFError where there are no more."""
        data = bytearray()
        while len(data) < count:
            self.connection.settimeout(max(1e-3, end - time.monotonic()))
            if not (more := self.connection.recv(min(count - len(data), 1 << 20))):
                raise EOFError
            data += more
        return bytes(data)

    def spent(self) -> float:
        """The seconds of processors that all its processes have spent so far."""
        every = (self.process.pid, *descendants(self.process.pid))
        self.last = max(self.last, sum(map(cpu_seconds, every)))
        return self.last

    @contextlib.contextmanager
    def _told(self, late: Callable[[], str]) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise Gone(f"it was ended: it {late()}") from None
        except (EOFError, OSError):
            try:
                code = self.process.wait(SENDING)
            except subprocess.TimeoutExpired:
                raise Gone("it was ended: it had closed its pipe, and went on") from None
            code = 128 - code if code > 128 else code
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            raise Gone(f"its process {how}") from None


def environment() -> dict[str, str]:
    """The environment of an agent: without what may be a key, and with the modules that are found here."""
    paths = [os.getcwd() if path == "" else path for path in sys.path]
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("LC_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def _end(process: subprocess.Popen[bytes], connection: socket, mark: str, cache: str) -> None:
    """Ends a process and all that it, or what it has started, has started."""
    connection.close()
    if process.stdin is not None:
        process.stdin.close()  # the keeper hears that, and kills what there is
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pid in processes_with(f"{MARK}={mark}"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(cache, ignore_errors=True)


def _bad(message: str) -> dojoir.ArgumentError:
    return dojoir.ArgumentError(message, "bad-agent")
