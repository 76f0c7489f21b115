"""Work without passes of Python's collector of cycles.

Trees and answers have no cycles: they go when nothing refers to them. A pass of the collector over all that is kept
(`dojoir.support.memo`) finds nothing, and takes a fifth of the time of a list of moves.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_running = 0
_was_on = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Runs its block while the collector is off, in any thread. After the last such block it is on again, if it was
    before the first. Meant for what takes less than a second or so: cycles of other threads wait."""
    global _running, _was_on
    with _lock:
        if _running == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0 and _was_on:
                gc.enable()
