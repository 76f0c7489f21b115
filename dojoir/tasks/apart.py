"""An agent of a file in a process of its own, which is ended where it does not answer in time.

The process loads the file once and plays one task after the other (`player`). One that hangs, crashes or exits is a
task that failed; the next task gets a new process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe

import dojoir
from dojoir.tasks.agents import digest_of_file
from dojoir.tasks.desk import Desk, Used
from dojoir.tasks.task import Answer

LOADING = 600.0
"""Seconds within which a file is loaded and its agent made: a language model is read in that time."""

UNLIMITED = 600.0
"""Seconds that an agent has for a task whose budget has none."""

GRACE, GRACE_SHARE = 30.0, 0.1
"""Seconds that an agent has after its budget of seconds, and the share of that budget that is added to them. An
evaluation that was begun in time comes to its end, and an answer is given."""


class Apart:
    """The agent of a file, played in a process of its own. Raises ArgumentError, `bad-agent`, where the file has no
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
        end = time.monotonic() + limit + self.grace
        try:
            process.send(desk.job())
            while isinstance(heard := process.heard(end), Used):
                desk.take(heard)
        except _Ended as error:
            self.close()
            raise _bad(f"the agent failed: {error}") from None
        except BaseException:
            self.close()
            raise
        if isinstance(heard, Answer):
            return heard
        raise _bad(str(heard))

    def _started(self) -> _Process:
        process = _Process()
        try:
            process.send(self.given)
            refused = process.heard(time.monotonic() + LOADING)
            if refused is not None:
                raise _bad(str(refused))
        except BaseException as error:
            process.end()
            if isinstance(error, _Ended):
                raise _bad(f"cannot load {self.given[0]}: {error}") from None
            raise
        return process

    def close(self) -> None:
        """Ends the process; the next task begins another."""
        if self._process is not None:
            self._process.end()
            self._process = None


class _Ended(Exception):
    """The process has ended, or was too slow; the message says which."""


class _Process:
    """A process of `player`, and the pipe to it. It ends with this object, and where this process ends."""

    def __init__(self) -> None:
        paths = [os.getcwd() if path == "" else path for path in sys.path]
        self.connection, theirs = Pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dojoir.tasks.player", str(theirs.fileno())],
                stdin=subprocess.PIPE, pass_fds=(theirs.fileno(),), start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
            )  # fmt: skip
        except OSError as error:
            self.connection.close()
            raise dojoir.RunError(f"no process could be started: {error}", "no-process") from None
        finally:
            theirs.close()
        self.end = weakref.finalize(self, _end, self.process, self.connection)

    def send(self, value: object) -> None:
        """Raises _Ended."""
        with self._told():
            self.connection.send(value)

    def heard(self, end: float) -> object:
        """Its next message, until `end` of the monotonic clock. Raises _Ended."""
        begun = time.monotonic()
        with self._told():
            if self.connection.poll(max(0.0, end - begun)):
                return self.connection.recv()
        raise _Ended(
            f"it was ended: it had said nothing for {time.monotonic() - begun:.3g} s, and its time was over"
        )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            code = self.process.wait()
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            raise _Ended(f"its process {how}") from None


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    """Kills a process and what it has started."""
    connection.close()
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _bad(message: str) -> dojoir.ArgumentError:
    return dojoir.ArgumentError(message, "bad-agent")
