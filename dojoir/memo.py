"""Answers that are kept. Each thread keeps its own, as isl objects and what follows from them are not shared."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """What was found for the last `size` new keys, in this thread. None is no answer."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._local = threading.local()

    def _kept(self) -> dict[K, V]:
        try:
            found: dict[K, V] = self._local.kept
        except AttributeError:
            found = self._local.kept = {}
        return found

    def get(self, key: K) -> V | None:
        return self._kept().get(key)

    def put(self, key: K, value: V) -> V:
        kept = self._kept()
        kept[key] = value
        if len(kept) > self._size:
            del kept[next(iter(kept))]
        return value

    def clear(self) -> None:
        """Forgets what this thread has kept."""
        self._kept().clear()


class ObjectMemo(Generic[V]):
    """What was found for the last `size` tuples of objects, in this thread. It goes by which objects they are, not
    by what they are equal to: nothing is hashed. None is no answer."""

    def __init__(self, size: int) -> None:
        self._kept: Memo[tuple[int, ...], tuple[tuple[object, ...], V]] = Memo(size)

    def get(self, *objects: object) -> V | None:
        found = self._kept.get(tuple(map(id, objects)))
        return None if found is None else found[1]

    def put(self, value: V, *objects: object) -> V:
        self._kept.put(tuple(map(id, objects)), (objects, value))  # kept alive, so that no other gets its id
        return value
