"""The limits of a search, and what it has used of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

from dojoir import runtime
from dojoir.support.public import Amount, Natural, public_class

RESERVED, RESERVED_SHARE, MOST_RESERVED = 8.0, 0.07, 0.35
"""The reserve of a budget of seconds for the checks of the answer: a number of seconds and a share of the budget,
and for a small budget at most the last share."""

OF_MODELS = ("calls", "tokens", "money")
"""The limits that apply to language models alone."""

BUILT_AGAIN = 2
"""The last comparison builds and times two kernels: its reserve is so many times what the slowest state took."""

LAST = 16
"""How many of the latest states predict how long the next one takes, by their median."""

OVER = 0.05
"""By what share the last check may begin after the end of a budget of seconds."""


@public_class
@dataclass(frozen=True)
class Budget:
    """The limits of a search: `moves` that are drawn or made, `states` that are evaluated, `builds`,
    `measurements` (states that came to be timed), `seconds` by the clock. None is without a limit; a search ends
    when the first of them is spent, to within one unit; its starts are evaluated whatever seconds that takes.
    `seconds` are those of a search with the last checks of its answer, to within a tenth of them from a minute on:
    less is mostly checks. Waits for others that time on the machine are a part of them, and said apart. What is
    spent on language models (`llm:…`) are `calls` of a server, `tokens` that are read and written, and `money`, in
    what the prices are given in. When one of them is spent nothing is asked any more, and what was planned by then
    is still tried."""

    moves: Natural | None = None
    states: Natural | None = None
    builds: Natural | None = None
    measurements: Natural | None = None
    seconds: Amount | None = None
    calls: Natural | None = None
    tokens: Natural | None = None
    money: Amount | None = None


@dataclass
class Ledger:
    """The part of a budget that was spent."""

    budget: Budget
    moves: int = 0
    states: int = 0
    builds: int = 0
    measurements: int = 0
    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    start: float = field(default_factory=lambda: time.monotonic())
    reserve: float = 0.0
    """The seconds that are left for the checks of an answer: nothing is begun in them."""

    keeps: bool = False
    """Whether seconds are left for the checks: where answers are timed."""

    is_over: bool = False
    """Whether there are seconds left, but not enough for one more state."""

    waited: float = 0.0
    """The seconds of waits for others that time on this machine, counted apart: they are a part of `seconds`."""

    took: list[float] = field(default_factory=list)
    """The seconds that each timed state took, from its build on, waits for the machine's lease included."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def spent(self, with_seconds: bool = True) -> str | None:
        """The limit that is used up: `states (100)`; None while there is something of everything left but for
        models."""
        names = [one.name for one in fields(Budget) if one.name not in OF_MODELS]
        return self._spent(name for name in names if with_seconds or name != "seconds")

    def _spent(self, names: Iterable[str]) -> str | None:
        for name in names:
            limit = getattr(self.budget, name)
            kept = self.reserve if name == "seconds" else 0
            over = name == "seconds" and self.is_over
            if limit is not None and (over or getattr(self, name) + kept >= limit):
                return f"{name} ({limit:g})"
        return None

    def spent_on_models(self) -> str | None:
        """The limit on language models that is used up; None while there is something left."""
        return self._spent(OF_MODELS)

    def used(self) -> dict[str, Any]:
        """The use of each limit but that of seconds."""
        return {one.name: getattr(self, one.name) for one in fields(Budget) if one.name != "seconds"}

    def left(self) -> Budget:
        """The rest of each limit."""
        limits = {one.name: getattr(self.budget, one.name) for one in fields(Budget)}
        rest = {name: max(0, limit - getattr(self, name)) for name, limit in limits.items() if limit is not None}
        return Budget(**rest)

    def keep_for_the_end(self) -> None:
        """Leaves seconds for the checks of an answer: some, a share of the budget, and what it takes to build and
        time a few states, by what the longest took so far."""
        self.keeps = True
        if self.budget.seconds is not None:
            share = MOST_RESERVED * self.budget.seconds
            builds = BUILT_AGAIN * max(self.took, default=0.0)
            self.reserve = min(share, RESERVED + RESERVED_SHARE * self.budget.seconds + builds)

    @property
    def seconds_left(self) -> float:
        """How many seconds there are for what is still to do, the reserve and half of the tenth that a search may
        take longer with them; without a limit, infinitely many."""
        limit = self.budget.seconds
        return math.inf if limit is None else max(0.0, (1 + OVER) * limit - self.seconds)

    @property
    def end(self) -> float:
        """The time of `time.monotonic` at which the search ends and the checks of the answer begin."""
        limit = self.budget.seconds
        return math.inf if limit is None else self.start + limit - self.reserve

    @property
    def last_end(self) -> float:
        """The same for the checks: nobody waits any longer for what they ask for."""
        limit = self.budget.seconds
        return math.inf if limit is None else self.start + (1 + OVER) * limit

    @property
    def has_time(self) -> bool:
        """Whether one more state is likely to finish before the search ends: by the median of the latest ones."""
        usual = median(self.took[-LAST:]) if self.took else 0.0
        return time.monotonic() + usual <= self.end

    def states_left(self, most: int) -> int:
        """How many states may still be tried, at most `most`: each of them may be built and measured."""
        left = self.left()
        return min(one for one in (most, left.states, left.builds, left.measurements) if one is not None)

    def moves_left(self, most: int) -> int:
        """How many moves may still be drawn, at most `most`."""
        left = self.left().moves
        return most if left is None else min(most, left)

    def note(self, evaluation: runtime.Evaluation) -> None:
        """Counts a state."""
        self.states += 1
        self.builds += 1
        self.measurements += evaluation.seconds is not None
        self.waited += evaluation.stages.get("lease", 0.0)
        if evaluation.seconds is not None:
            self.took.append(sum(evaluation.stages.values()))
            if self.keeps:
                self.keep_for_the_end()
