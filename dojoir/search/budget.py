"""What a search may spend, and what it has spent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields

import dojoir


@dataclass(frozen=True)
class Budget:
    """What a search may spend: `moves` that are drawn or made, `states` that are evaluated, `builds`,
    `measurements` (states that came to be timed), `seconds` by the clock. None is without a limit; a search ends
    when the first of them is spent, to within one unit; its starts are evaluated whatever seconds that takes."""

    moves: int | None = None
    states: int | None = None
    builds: int | None = None
    measurements: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            is_number = isinstance(value, int | float if one.name == "seconds" else int)
            if value is not None and (isinstance(value, bool) or not is_number or not value >= 0):
                what = "a number of seconds" if one.name == "seconds" else "a whole number"
                shown = value if isinstance(value, int | float | str) else type(value).__name__
                raise dojoir.ArgumentError(f"Budget: {one.name} is {what} from 0, not {shown}", "bad-arguments")


@dataclass
class Ledger:
    """What was spent of a budget."""

    budget: Budget
    moves: int = 0
    states: int = 0
    builds: int = 0
    measurements: int = 0
    start: float = field(default_factory=lambda: time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def spent(self, with_seconds: bool = True) -> str | None:
        """What is used up: `states (100)`; None while there is something of everything left."""
        for one in fields(Budget):
            limit = getattr(self.budget, one.name) if with_seconds or one.name != "seconds" else None
            if limit is not None and getattr(self, one.name) >= limit:
                return f"{one.name} ({limit:g})"
        return None

    def states_left(self, most: int) -> int:
        """How many states may still be tried, at most `most`: each of them may be built and measured."""
        left = [
            limit - used
            for limit, used in (
                (self.budget.states, self.states),
                (self.budget.builds, self.builds),
                (self.budget.measurements, self.measurements),
            )
            if limit is not None
        ]
        return max(0, min([most, *left]))

    def moves_left(self, most: int) -> int:
        """How many moves may still be drawn, at most `most`."""
        limit = self.budget.moves
        return most if limit is None else max(0, min(most, limit - self.moves))

    def note(self, evaluation: dojoir.Evaluation) -> None:
        """Counts a state."""
        self.states += 1
        self.builds += 1
        self.measurements += evaluation.seconds is not None
