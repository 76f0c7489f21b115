"""A second clock, by which the first is held: a time that only one of them shows is none."""

from __future__ import annotations

import time

OFF = 1.3
"""How many times longer one clock may say that something took than the other."""

SLOP = 20e-6
"""By how many seconds they may be apart beside that, for each time that they are read."""


def second_clock() -> int:
    """Nanoseconds of another clock than the one that times, where the system has one."""
    raw = getattr(time, "CLOCK_MONOTONIC_RAW", None)
    return time.monotonic_ns() if raw is None else time.clock_gettime_ns(raw)


def disagreement(own: float, sure: float, readings: int) -> str | None:
    """Why the seconds of the first clock are not to be believed, in words: the second says `sure`."""
    slop = SLOP * readings
    if own > OFF * sure + slop or sure > OFF * own + slop:
        return f"the clocks disagree: {own * 1e3:.3g} ms and {sure * 1e3:.3g} ms"
    return None
