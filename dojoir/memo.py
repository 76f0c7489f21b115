"""Answers that are kept. Each thread keeps its own, as isl objects and what follows from them are not shared."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """What was found for the last `size` keys that were asked for, in this thread. None is no answer."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._local = threading.local()

    def _kept(self) -> OrderedDict[K, V]:
        try:
            found: OrderedDict[K, V] = self._local.kept
        except AttributeError:
            found = self._local.kept = OrderedDict()
        return found

    def get(self, key: K) -> V | None:
        kept = self._kept()
        found = kept.get(key)
        if found is not None:
            kept.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> V:
        kept = self._kept()
        kept[key] = value
        if len(kept) > self._size:
            kept.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forgets what this thread has kept."""
        self._kept().clear()
