"""The limits of a connection: games, calls, measurements, seconds, characters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

import dojoir
from dojoir.support.public import Count, Seconds, public_class


@public_class
@dataclass(frozen=True)
class Limits:
    """The limits of one connection: `games` at a time, `calls` of tools, `measurements` (also verifications and
    profiles), `seconds` of work in all and `call_seconds` of one call, `characters` of a text that comes in or
    goes out. Raises ArgumentError, `bad-arguments`, for a number that is not above 0."""

    games: Count = 16
    calls: Count = 5000
    measurements: Count = 500
    seconds: Seconds = 3600.0
    call_seconds: Seconds = 60.0
    characters: Count = 200_000


class Stop:
    """Asks a call to end: at its time, or because the client cancelled it."""

    def __init__(self, seconds: float) -> None:
        self.until, self.cancelled = time.monotonic() + seconds, Event()

    def __bool__(self) -> bool:
        return self.cancelled.is_set() or time.monotonic() > self.until


class SpentLimits:
    """The use of its limits by a connection."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.calls, self.measurements, self.seconds = limits, 0, 0, 0.0

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call, counted and timed. Raises ArgumentError, `limit-reached`, where none is left."""
        if self.calls >= self.limits.calls:
            raise reached(f"{self.limits.calls} calls")
        if self.seconds >= self.limits.seconds:
            raise reached(f"{self.limits.seconds:g} seconds of work")
        self.calls += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - began

    def measurement(self) -> None:
        """Counts one. Raises ArgumentError, `limit-reached`, where none is left."""
        if self.measurements >= self.limits.measurements:
            raise reached(f"{self.limits.measurements} measurements")
        self.measurements += 1

    def left(self) -> dict[str, float]:
        """The rest of each limit, by name."""
        return {
            "calls": self.limits.calls - self.calls,
            "measurements": self.limits.measurements - self.measurements,
            "seconds": round(max(0.0, self.limits.seconds - self.seconds), 3),
        }


def reached(what: str) -> dojoir.ArgumentError:
    """The error of a limit that is reached."""
    return dojoir.ArgumentError(f"this connection may use {what}, and has: begin another", "limit-reached")
