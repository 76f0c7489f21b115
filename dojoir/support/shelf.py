"""Answers that later processes find: what was proved, chosen and printed, by everything that it follows from.

An entry's key holds the question and which dojoir answered it (`identity`), so an answer is never found for another
question or by another version. Its checksum holds key and content, so a damaged or foreign entry counts as absent
(`Cache`). What stands in an entry had been proved when it was kept.
"""

from __future__ import annotations

import os

from dojoir.support.cache import Cache, content_key
from dojoir.support.identity import identity, is_unchanged

OWN_FILES = ("DOJOIR_INSTRUCTIONS",)
"""The variables that name files of the user's: where one is set, answers may be others the next time."""


def shelf_key(kind: str, *parts: str) -> str | None:
    """The key of a question of some kind; None where answers are not kept."""
    if Cache.default().folder is None or any(map(os.environ.get, OWN_FILES)):
        return None
    word = identity()
    return None if word is None else content_key("shelf", word, kind, *parts)


def taken(key: str | None) -> bytes | None:
    """The value that was stored under a key, if there is one."""
    return None if key is None else Cache.default().get(key)


def keep(key: str | None, content: bytes) -> None:
    """Keeps an answer for later processes, if that is possible."""
    if key is not None and is_unchanged():
        Cache.default().put(key, content)
