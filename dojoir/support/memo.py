"""Answers that are kept, and what they cost.

Each thread keeps its own, as isl objects and what follows from them are not shared. All that a thread keeps is in
one `Tables`, bounded in bytes together; `clear_caches` forgets it in every thread.

What grows beyond that in a long run is not here: islpy loses 32 bytes in about every call that returns an object
(2024.2 to 2026.2.2, measured), some kilobytes a move.

An answer that is kept costs what it cost when it was found. What counts the steps of a thread (`Meter`) is charged
for each one that is taken from a table, so that a question costs about the same whatever was asked before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from dojoir.support.weight import weight

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")

MOST_BYTES = 96 << 20
"""How much the tables of one thread hold, as far as `weight` tells, before the oldest entries go."""

CHEAPEST = 16
"""The steps that an answer costs at least, taken from a table or not."""


class Meter(Protocol):
    """The counter of the steps of a thread's present question."""

    def spent(self) -> int:
        """The steps so far."""

    def charge(self, steps: int) -> None:
        """Counts steps that were not counted while they were made."""


class _Entry(Generic[V]):
    __slots__ = ("bytes", "steps", "value")

    def __init__(self, value: V, steps: int, size: int) -> None:
        self.value, self.steps, self.bytes = value, steps, size


class Tables:
    """All that a thread keeps: the entries of each memo, what it has one of, and the meter that is charged."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.kept: dict[int, dict[Any, _Entry[Any]]] = {}
        self.sizes: dict[int, int] = {}
        self.begun: dict[tuple[int, Any], int] = {}
        self.single: dict[type, object] = {}
        self.meter: Meter | None = None
        self.bytes = 0
        self.sure: Tables | None = None
        """Of tables for what follows from something that is only supposed: those of the thread beside that, which
        have what follows from its key alone."""

    def grown(self, number: int, size: int) -> None:
        """Lets the oldest entries of the largest tables go while there is too much."""
        self.sizes[number] = self.sizes.get(number, 0) + size
        self.bytes += size
        while self.bytes > _bound and self.sizes[largest := max(self.sizes, key=self.sizes.__getitem__)]:
            self.dropped(largest)

    def dropped(self, number: int) -> None:
        """Lets the oldest entry of a table go."""
        kept = self.kept[number]
        entry = kept.pop(next(iter(kept)))
        self.sizes[number] -= entry.bytes
        self.bytes -= entry.bytes


_local = threading.local()
_generation = 0
_bound = MOST_BYTES
_numbers = iter(range(1 << 60))


def tables() -> Tables:
    """Those of this thread: new ones if all were cleared since, and no question is being answered."""
    try:
        found: Tables = _local.tables
    except AttributeError:
        found = _local.tables = Tables(_generation)
    if found.generation != _generation and found.meter is None:
        found = _local.tables = Tables(_generation)
    return found


def single(kind: type[S], make: Callable[[], S]) -> S:
    """One instance a thread, which lives as long as the thread's tables."""
    here = tables().single
    found = here.get(kind)
    if found is None:
        found = here[kind] = make()
    assert isinstance(found, kind)
    return found


@contextmanager
def other_tables(held: Tables) -> Iterator[None]:
    """Runs its block with other tables in this thread; behind it, all is as it was."""
    around = tables()
    _local.tables = held
    try:
        yield
    finally:
        _local.tables = around


def fresh_tables() -> AbstractContextManager[None]:
    """The context of a block that runs as if nothing had been kept in this thread."""
    return other_tables(Tables(_generation))


def clear_caches() -> None:
    """Forgets everything that was worked out about kernels: the tables of the checker in every thread.

    Nothing depends on it but time: what is asked again is worked out again. A thread that is answering a question
    goes on with what it has and forgets it afterwards.
    """
    global _generation
    _generation += 1


@contextmanager
def bounded_to(most: int) -> Iterator[None]:
    """Runs its block while the tables of each thread hold at most so many bytes."""
    global _bound
    around, _bound = _bound, most
    try:
        yield
    finally:
        _bound = around


def spent() -> int:
    """The steps of the question that this thread is at."""
    meter = tables().meter
    return 0 if meter is None else meter.spent()


def charge(steps: int) -> None:
    """Charges the question that this thread is at with steps."""
    meter = tables().meter
    if meter is not None:
        meter.charge(steps)


class Memo(Generic[K, V]):
    """The values for the last `size` new keys, in this thread; fewer where all tables together hold too much. A
    value of None cannot be cached. The steps between a `get` that finds nothing and the `put` of the same key are
    its cost. `of_key`: a value is a function of its key alone, and holds where moves are speculative too."""

    def __init__(self, size: int, of_key: bool = False) -> None:
        self._size, self._of_key = size, of_key
        self._number = next(_numbers)

    def _tables(self, here: Tables) -> Tables:
        return here.sure if self._of_key and here.sure is not None else here

    def get(self, key: K) -> V | None:
        here = tables()
        kept = self._tables(here).kept.get(self._number)
        entry = kept.get(key) if kept is not None else None
        if here.meter is not None:
            if entry is None:
                here.begun[self._number, key] = here.meter.spent()
            else:
                here.meter.charge(entry.steps)
        return None if entry is None else entry.value

    def put(self, key: K, value: V) -> V:
        here = tables()
        own = self._tables(here)
        kept = own.kept.setdefault(self._number, {})
        start = here.begun.pop((self._number, key), None)
        steps = CHEAPEST
        if start is not None and here.meter is not None:
            steps = max(here.meter.spent() - start, CHEAPEST)
        size = weight(key) + weight(value)
        old = kept.pop(key, None)
        kept[key] = _Entry(value, steps, size)
        own.grown(self._number, size - (old.bytes if old is not None else 0))
        if len(kept) > self._size:
            own.dropped(self._number)
        return value

    def clear(self) -> None:
        """Forgets what this thread has kept here."""
        here = self._tables(tables())
        while here.kept.get(self._number):
            here.dropped(self._number)


class ObjectMemo(Generic[V]):
    """The values for the last `size` tuples of objects, in this thread. It goes by which objects they are, not by
    what they are equal to: nothing is hashed. A value of None cannot be cached."""

    def __init__(self, size: int) -> None:
        self._kept: Memo[tuple[int, ...], tuple[tuple[object, ...], V]] = Memo(size)

    def get(self, *objects: object) -> V | None:
        found = self._kept.get(tuple(map(id, objects)))
        return None if found is None else found[1]

    def put(self, value: V, *objects: object) -> V:
        self._kept.put(tuple(map(id, objects)), (objects, value))  # kept alive, so that no other gets its id
        return value
