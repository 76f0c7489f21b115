"""How many times as fast one is as another, from the rounds of one run in which both took part."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from dojoir.runtime.measurement.spread import bootstrap, spread
from dojoir.support.frozen import dataclass

ONCE = 0.1
"""By what share a time may be off of which there is one sample."""


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one is as another, above 1 where it is faster: the median over rounds in which both
    ran, with its confidence interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


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
