"""One measurement at a time: a lease of the machine that everything which times takes, between processes too.

Two measurements at once would share a core, for each keeps to the last ones. A lease is a lock on a file, which
the system lets go when its holder ends, however it does; the file says who holds it. Who waits has a ticket, a
locked file beside it: the oldest is next."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dojoir.errors import RunError
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import temporary_place

LONGEST_WAIT = 3600.0
"""Seconds after which a measurement that still waits for others gives up."""

LOOK_SECONDS = 0.02
LONGEST_WORD = 80

OURS = b"\0-m\0dojoir.runtime."
"""The commands of workers have this: somebody else has started them."""

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease, or holds up its queue as it is stopped: what it runs, and for how many
    seconds it has done so."""

    pid: int
    command: str
    seconds: float
    is_stopped: bool = False

    def __str__(self) -> str:
        stopped = f", which is stopped: kill -CONT {self.pid} lets it go on" if self.is_stopped else ""
        return f"process {self.pid} ({self.command}), for {self.seconds:.3g} s{stopped}"


@contextlib.contextmanager
def timing_lease(device: str = "cpu", longest_wait: float = LONGEST_WAIT) -> Iterator[None]:
    """Holds the lease of a device; waits for it while another thread or process does, in the order in which they
    came. Where the system has no such locks, or no place for the file, nothing is held. Not to be taken twice by
    one thread. Raises RunError, `busy`, after `longest_wait` seconds: it says who holds it."""
    path = lease_file(device)
    try:
        locks = importlib.import_module("fcntl")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (ImportError, OSError):
        yield
        return
    try:
        with _ticket(path, locks) as is_next:
            until = time.monotonic() + longest_wait
            while not (is_next() and _locked(locks, handle)):
                if time.monotonic() > until:
                    raise RunError(
                        f"another measurement holds this machine's {device} for more than {longest_wait:g} s: "
                        f"{holder(device) or 'others wait as well'}; wait for it to end, or end it",
                        "busy",
                    )
                time.sleep(LOOK_SECONDS)
        pid, command = _asker()
        _say_who(handle, {"by": os.getpid(), "pid": pid, "command": command, "since": time.monotonic()})
        try:
            yield
        finally:
            _say_who(handle, None)
            locks.flock(handle, locks.LOCK_UN)  # a fork may hold the same handle
    finally:
        os.close(handle)


def holder(device: str = "cpu") -> Holder | None:
    """Who holds the lease of a device, or else the first in its queue that is stopped, for which those behind it
    wait; None where there is nobody, or it cannot be told."""
    with contextlib.suppress(OSError, ValueError):
        match json.loads(lease_file(device).read_text(encoding="utf-8")):
            case {"by": int(by), "pid": int(pid), "command": str(command), "since": int() | float() as since}:
                with contextlib.suppress(PermissionError):
                    os.kill(by, 0)
                return Holder(pid, command, max(0.0, time.monotonic() - since), _is_stopped(by))
    for ticket in sorted(_queue(lease_file(device)).glob("[0-9]*-*-*")):
        since_ns, waiter, _ = map(int, ticket.name.split("-"))
        if _is_stopped(waiter):
            return Holder(waiter, _printed(_words_of(waiter)), (time.monotonic_ns() - since_ns) / 1e9, True)
    return None


def lease_file(device: str) -> Path:
    """The file that is locked: one for all processes of a user, whatever caches they use."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or temporary_place()
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(folder, f"dojoir-{user}-{device}.lease")


def _queue(path: Path) -> Path:
    """The folder of the tickets of a lease: `TIME-PROCESS-NUMBER`."""
    return Path(f"{path}.queue")


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    return False


@contextlib.contextmanager
def _ticket(path: Path, locks: Any) -> Iterator[Any]:
    """A place in the queue before a lease, and whether it is the first. A ticket that nobody has locked is one of a
    process that has ended, and is taken away."""
    folder = _queue(path)
    mine = folder / f"{time.monotonic_ns():020d}-{os.getpid()}-{next(_NUMBERS)}"
    try:
        folder.mkdir(exist_ok=True)
        unseen = folder / f".{mine.name}"
        handle = os.open(unseen, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        locks.flock(handle, locks.LOCK_EX)
        unseen.rename(mine)
    except OSError:  # no place for it: who looks first is next
        yield lambda: True
        return

    def is_next() -> bool:
        return not any(_waits(one, locks) for one in sorted(folder.glob("[0-9]*")) if one < mine)

    try:
        yield is_next
    finally:
        with contextlib.suppress(OSError):
            mine.unlink()
        os.close(handle)


def _waits(ticket: Path, locks: Any) -> bool:
    try:
        handle = os.open(ticket, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if _locked(locks, handle):
            with contextlib.suppress(OSError):
                ticket.unlink()
            return False
        return True
    finally:
        os.close(handle)


def _locked(locks: Any, handle: int) -> bool:
    try:
        locks.flock(handle, locks.LOCK_EX | locks.LOCK_NB)
        return True
    except OSError:
        return False


def _say_who(handle: int, value: object) -> None:
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(value).encode(), 0)


def _asker() -> tuple[int, str]:
    """The process that somebody has started, of which this one is a worker, and its command."""
    pid, words = os.getpid(), " ".join(sys.argv)
    with contextlib.suppress(OSError, ValueError):
        while OURS in Path(f"/proc/{pid}/cmdline").read_bytes():
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        words = _words_of(pid) or words
    return pid, _printed(words)


def _words_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    return ""


def _printed(words: str) -> str:
    words = "".join(one if one.isprintable() else " " for one in words).strip() or "python"
    return words if len(words) <= LONGEST_WORD else f"{words[: LONGEST_WORD - 3]}..."
