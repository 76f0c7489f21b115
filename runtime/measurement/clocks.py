"""A second clock, by which the first is held: a time that only one of them shows is none."""

from __future__ import annotations

import time

from dojoir.support.frozen import dataclass

OFF = 1.3
"""How many times longer one clock may say that something took than the other."""

EARLY = 5e-6
"""By how many seconds the first clock may be ahead beside that: it starts later and is read earlier."""

SLOP = 20e-6
"""By how many seconds the second may be ahead: what it takes to read both."""


def second_clock() -> int:
    """Nanoseconds of another clock than the one that times, where the system has one."""
    raw = getattr(time, "CLOCK_MONOTONIC_RAW", None)
    return time.monotonic_ns() if raw is None else time.clock_gettime_ns(raw)


@dataclass
class Clocks:
    """The readings of two clocks over the same stretches of time. In single ones they may differ by any amount,
    as the system may have taken the processor away in between; a clock that is wrong differs in most of them."""

    own: float = 0.0
    """Seconds of all stretches by the clock that times."""

    sure: float = 0.0
    readings: int = 0
    off: int = 0
    """In how many stretches the clocks were further apart than what it takes to read them."""

    def read(self, own: float, sure: float, slop: float = SLOP) -> None:
        """Adds a stretch, in seconds by either clock."""
        self.own += own
        self.sure += sure
        self.readings += 1
        self.off += own > OFF * sure + EARLY or sure > OFF * own + slop

    def disagreement(self) -> str | None:
        """Why the seconds of the first clock are not to be believed, in words."""
        if 2 * self.off > self.readings:
            return f"the clocks disagree: {self.own * 1e3:.3g} ms and {self.sure * 1e3:.3g} ms"
        return None
