"""How many times as fast one is as another, from the rounds of one run in which both took part."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Protocol

from dojoir.runtime.measurement.spread import bootstrap, geometric, spread
from dojoir.support.frozen import dataclass

ONCE = 0.1
"""By what share a time may be off of which there is one sample."""


WIDE = 3.0
"""How many times the low end of an interval its high end may be for it to say anything."""


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one is as another, above 1 where it is faster: the median over rounds in which both
    ran, with its interval of 95% confidence. That is not shown where it says nothing."""

    median: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None where they say nothing: of a single time, or more than WIDE apart."""
        says = 0 < self.low < self.high <= WIDE * self.low
        return (self.low, self.high) if says else None

    def __str__(self) -> str:
        found = self.interval
        return f"{self.median:.2f}x" + ("" if found is None else f" ({found[0]:.2f} to {found[1]:.2f})")


def mean_of(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric means of some ratios and of both ends of their intervals."""
    return Ratio(*(geometric([getattr(one, end) for one in ratios]) for end in ("median", "low", "high")))


class TimeInterval(Protocol):
    """A time with its interval."""

    @property
    def seconds(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def ratio_apart(slow: TimeInterval, fast: TimeInterval) -> Ratio:
    """Of two times that were not taken in the same rounds: as wide as the intervals of both allow."""
    return Ratio(slow.seconds / fast.seconds, slow.low / fast.high, slow.high / fast.low)


def ratio_of_samples(slow: Sequence[float], fast: Sequence[float], confidence: float) -> Ratio:
    """From the seconds of each round, which are pairs: whatever the machine did in a round, it did to both. The
    interval is that of the bootstrap. Of what was called once there are no pairs: that one time is held against
    the median of the other, and may be off by a tenth."""
    if len(slow) == len(fast) > 1:
        found = [a / b for a, b in zip(slow, fast, strict=True)]
        return Ratio(median(found), *bootstrap(found, confidence))
    a, b = (spread(samples, confidence) for samples in (slow, fast))
    slack = (1 + ONCE) ** ((a.count == 1) + (b.count == 1))
    return Ratio(a.median / b.median, a.low / b.high / slack, a.high / b.low * slack)
