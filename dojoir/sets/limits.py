"""Budgets: how many steps a question may take over all its stages, counted the same on every machine.

A step is an operation of isl, or as much of what is done without isl. What earlier questions found is charged at
what it cost when it was found (`dojoir.support.memo`), so that an answer depends on nothing but its question and
budget:

- a question is asked with a quarter of its budget first. An answer that is found so stands;
- where that is not enough, or where a part that may stay open did not come to its end, it is asked again as if
  nothing had been asked before, in an isl context of its own, with the other three. What comes of it is kept.

What isl counts is read from outside: it says at any time whether a limit is reached (`_IslMeter`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import islpy as isl

from dojoir.errors import ArgumentError, repr_of
from dojoir.sets.kernel_sets import workspace
from dojoir.support.frozen import dataclass
from dojoir.support.memo import Memo, fresh_tables, spent, tables

T = TypeVar("T")

UNLIMITED = 1 << 60
"""A limit for work that is only counted."""

TRIES = 4
"""Of so many parts of a budget, the first try of a question has one, and the second, alone, all others."""

GRAIN = 256
"""How finely steps are read."""


class StepLimitReached(Exception):
    """isl gave up: the question needs more operations than the limit allows."""


class _AskAlone(Exception):
    """Raised where the first try of a question ends without an answer: it is then asked again by itself."""


def integer(value: isl.Val) -> int:
    """The value of an isl number. Raises isl.Error where it has none, as when the steps are spent: isl then
    returns an object without a value, and islpy's own conversion would raise a TypeError."""
    text = value.to_str() if value.is_int() else None
    if text is None:
        raise isl.Error("isl gave no integer: its steps may be spent")
    return int(text)


@dataclass(frozen=True)
class StepBudget:
    """How many steps a question may take, over all its stages."""

    steps: int

    def __post_init__(self) -> None:
        if type(self.steps) is not int or not 0 < self.steps <= UNLIMITED:
            message = f"a limit of steps is an integer from 1 to {UNLIMITED}, not {repr_of(self.steps)}"
            raise ArgumentError(message, "bad-arguments")

    def ask(self, question: Callable[[], T], key: Hashable = None) -> T:
        """The answer to a question: it depends on nothing but the question and this budget.

        Raises StepLimitReached where that is spent. As a part of another question, it has what that one has left.
        `key` is all that the answer follows from: by it, what took long is known again.
        """
        return self.measure(question, key)[0]

    def measure(self, question: Callable[[], T], key: Hashable = None) -> tuple[T, int]:
        """As `ask`, with about the number of steps that the answer took; the whole budget where the first try
        was not enough."""
        if tables().meter is not None:
            start = spent()
            found_here = question()
            return found_here, spent() - start
        known = _hard.get((key, self.steps)) if key is not None else None
        if known is not None:
            return _given(known), self.steps
        with suppress(_AskAlone), _metered(self.steps // TRIES, first=True) as meter:
            answer = question()
            return answer, meter.spent()
        found: tuple[T] | str
        try:
            with fresh_tables(), _metered(self.steps - self.steps // TRIES, first=False):
                found = (question(),)
        except StepLimitReached:
            found = "spent"
        if key is not None and (isinstance(found, str) or found[0]):  # why it is no is said of the text at hand
            _hard.put((key, self.steps), found)
        return _given(found), self.steps


def _given(found: tuple[T] | str) -> T:
    if isinstance(found, str):
        raise StepLimitReached
    return found[0]


_hard: Memo[tuple[Hashable, int], tuple[Any] | str] = Memo(512)
"""The results for questions that the first try is not enough for."""


@contextmanager
def limited(steps: int) -> Iterator[None]:
    """Runs its block under a limit: past it, StepLimitReached is raised. Inside of another one, that one holds."""
    if tables().meter is not None:
        yield
        return
    with _metered(steps, first=False):
        yield


@contextmanager
def limited_in_part(steps: int) -> Iterator[None]:
    """Runs its block under a limit of its own, for a part of a question that may stay open. Past that limit
    StepLimitReached is raised, and the question goes on with the rest of its budget."""
    meter = tables().meter
    if not isinstance(meter, _IslMeter):
        with limited(steps):
            yield
        return
    around = meter.limit
    meter.limit = min(around, meter.spent() + (steps // 2 if meter.first else steps))
    meter.apply()
    try:
        yield
    except (isl.Error, StepLimitReached):
        if meter.is_spent() and meter.limit < around:
            if meter.first:
                raise _AskAlone from None
            raise StepLimitReached from None
        raise
    finally:
        meter.limit = around
        meter.apply()


def aside(attempt: Callable[[], T | None], steps: int) -> T | None:
    """What an attempt gives that a question can do without, or None where it takes more than so many steps.

    The attempt is free: whatever comes of it, the question has as many steps left as before. So no question comes
    to its limit because of it, and it gives the same however little is left."""
    meter = tables().meter
    if not isinstance(meter, _IslMeter):
        try:
            with limited(steps):
                return attempt()
        except (isl.Error, StepLimitReached):
            return None
    start, around = meter.spent(exactly=True), meter.limit
    meter.limit = start + steps
    meter.apply()
    try:
        return attempt()
    except (isl.Error, StepLimitReached):
        return None
    finally:
        meter.charged -= meter.spent(exactly=True) - start
        meter.limit = around
        meter.apply()


@contextmanager
def _metered(steps: int, first: bool) -> Iterator[_IslMeter]:
    """Counts from 0 to `steps`. Past it, or where the block ends there, StepLimitReached is raised; in a first try
    _AskAlone."""
    here = tables()
    meter = here.meter = _IslMeter(workspace().context, max(steps, 1), first)
    over: type[Exception] = _AskAlone if first else StepLimitReached
    try:
        yield meter
        if first and meter.is_spent():
            raise _AskAlone
    except isl.Error:
        if meter.is_spent():
            raise over from None
        raise
    except StepLimitReached:
        raise over from None
    finally:
        meter.end()
        here.meter = None
        here.begun.clear()


class _IslMeter:
    """Counts the operations of an isl context, and what is charged besides, up to a limit.

    isl fails at its limit but does not tell its count. To learn whether the count has reached a number, the
    limit is set to that number and one operation is made.
    """

    def __init__(self, context: isl.Context, limit: int, first: bool) -> None:
        self.context, self.limit, self.first = context, limit, first
        self.charged = 0
        self._low = 0  # isl has counted at least so much
        self._unseen = 0
        context.reset_operations()
        self.apply()

    def apply(self) -> None:
        """Makes isl fail where the limit is reached."""
        self.context.set_max_operations(max(self.limit - self.charged, 1))

    def charge(self, steps: int) -> None:
        self.charged += steps
        self._unseen += steps
        self.apply()
        if self._unseen >= 10 * GRAIN:
            self._unseen = 0
            if self.is_spent():
                raise StepLimitReached

    def is_spent(self) -> bool:
        """Whether the limit is reached: then every operation fails. (What the first that fails says is not always
        the reason: the parser calls it a syntax error.)"""
        return self.charged >= self.limit or not self._runs()

    def spent(self, exactly: bool = False) -> int:
        """The number of steps that were counted and charged, slightly less than the exact number: by a quarter of
        what came since it was last asked at most, or `exactly` by a grain."""
        low, step = self._low, GRAIN
        while not self._is_below(low + step):
            low, step = low + step, 4 * step
        while step > GRAIN and (exactly or step > (low - self._low) // 4):
            step //= 2
            if not self._is_below(low + step):
                low += step
        self._low = low
        self.apply()
        return low + self.charged

    def end(self) -> None:
        self.context.set_max_operations(0)
        self.context.reset_operations()

    def _is_below(self, count: int) -> bool:
        self.context.set_max_operations(count)
        return self._runs()

    def _runs(self) -> bool:
        try:
            isl.Val.int_from_si(self.context, 0)
        except isl.Error:
            return False
        return True
