"""One measurement at a time: a lease of the machine that everything which times takes, between processes too.

Two measurements at once would share a core, for each keeps to the last ones. A lease is a lock on a file, which
the system lets go when its holder ends, however it does."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from dojoir.errors import RunError
from dojoir.support.temporary import temporary_place

LONGEST_WAIT = 3600.0
"""Seconds after which a measurement that still waits for others gives up."""

LOOK_SECONDS = 0.02


@contextlib.contextmanager
def timing_lease(device: str = "cpu", longest_wait: float = LONGEST_WAIT) -> Iterator[None]:
    """Holds the lease of a device; waits for it while another thread or process does. Where the system has no such
    locks, or no place for the file, nothing is held. Not to be taken twice by one thread. Raises RunError after
    `longest_wait` seconds."""
    try:
        locks = importlib.import_module("fcntl")
        handle = os.open(lease_file(device), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (ImportError, OSError):
        yield
        return
    try:
        until = time.monotonic() + longest_wait
        while True:
            try:
                locks.flock(handle, locks.LOCK_EX | locks.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise RunError(
                        f"another measurement holds this machine's {device} for more than {longest_wait:g} s: wait "
                        f"for it to end, or end it",
                        "busy",
                    ) from None
                time.sleep(LOOK_SECONDS)
        try:
            yield
        finally:
            locks.flock(handle, locks.LOCK_UN)  # a fork may hold the same handle
    finally:
        os.close(handle)


def lease_file(device: str) -> Path:
    """The file that is locked: one for all processes of a user, whatever caches they use."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or temporary_place()
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(folder, f"dojoir-{user}-{device}.lease")
