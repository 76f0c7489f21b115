"""Answers that later processes find: what was proved, chosen and printed, by everything that it follows from.

An entry's key holds the question and which dojoir answered it (`identity`), so an answer is never found for another
question or by another version. Its checksum holds key and content, so a damaged or foreign entry counts as absent
(`Cache`). What stands in an entry had been proved when it was kept. That the files are still those of `identity`
takes a look at each of them, so answers are written some at a time.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from contextlib import suppress

from dojoir.support.cache import Cache, content_key
from dojoir.support.identity import identity, is_unchanged

OWN_FILES = ("DOJOIR_INSTRUCTIONS",)
"""The variables that name files of the user's: where one is set, answers may be others the next time."""

LATER = 0.5
"""Seconds. Answers that come sooner after some were written wait for the next, or for the end of the process."""

_waiting: dict[tuple[Cache, str], bytes] = {}
_last_written = [float("-inf")]
_asked: list[int] = []
"""The process in which `multiprocessing` was asked to write them."""


def shelf_key(kind: str, *parts: str) -> str | None:
    """The key of a question of some kind; None where answers are not kept."""
    if Cache.default().folder is None or any(map(os.environ.get, OWN_FILES)):
        return None
    word = identity()
    return None if word is None else content_key("shelf", word, kind, *parts)


def taken(key: str | None) -> bytes | None:
    """The value that was stored under a key, if there is one."""
    if key is None:
        return None
    cache = Cache.default()
    if (cache, key) in _waiting:
        write()
    return cache.get(key)


def keep(key: str | None, content: bytes) -> None:
    """Keeps an answer for later processes, if that is possible."""
    cache = Cache.default()
    if key is not None and cache.folder is not None:
        with suppress(OSError):
            cache.folder.mkdir(parents=True, exist_ok=True)
        _waiting[cache, key] = content
        _write_at_the_end()
        if time.monotonic() - _last_written[0] > LATER:
            write()


def _write_at_the_end() -> None:
    """Has the answers of a worker of `multiprocessing` written when it ends: such a process runs no `atexit`."""
    if "multiprocessing" in sys.modules and _asked != [os.getpid()]:
        from multiprocessing.util import Finalize

        _asked[:] = [os.getpid()]
        Finalize(None, write, exitpriority=0)


@atexit.register
def write() -> None:
    """Writes the answers that wait, unless a file of dojoir is another than when they were found."""
    found = [*_waiting.items()]
    if found:
        unchanged = is_unchanged()
        for (cache, key), content in found:
            if unchanged and cache.folder is not None and cache.folder.is_dir():
                cache.put(key, content)
            _waiting.pop((cache, key), None)
        _last_written[0] = time.monotonic()
