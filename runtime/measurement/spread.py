"""The middle of repeated times and how well it is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median, quantiles

from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Spread:
    """The `median` of samples; its confidence interval from `low` to `high`; the quartiles around it."""

    median: float
    low: float
    high: float
    first_quartile: float
    third_quartile: float
    count: int

    @property
    def uncertainty(self) -> float:
        """Half of the confidence interval, as a share of the median."""
        return (self.high - self.low) / (2 * self.median) if self.median else math.inf


def spread(samples: Sequence[float], confidence: float) -> Spread:
    """The spread of at least one sample.

    The interval is between order statistics: of n samples, those of rank (n ± z sqrt n)/2, whatever their
    distribution (W. J. Conover, Practical Nonparametric Statistics, 3rd ed. 1999, section 3.2). With few samples
    it is all of them.
    """
    ordered = sorted(samples)
    n = len(ordered)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(n)
    first = max(0, math.floor((n - reach) / 2) - 1)
    last = min(n - 1, math.ceil((n + reach) / 2))
    quarters = quantiles(ordered, n=4, method="inclusive") if n > 1 else ordered * 3
    return Spread(median(ordered), ordered[first], ordered[last], quarters[0], quarters[2], n)


def geometric(values: Sequence[float]) -> float:
    """The geometric mean of numbers from 0; of none it is no number."""
    return math.exp(sum(math.log(max(value, 1e-300)) for value in values) / len(values)) if values else math.nan


DRAWS, MOST_DRAWN = 2000, 4_000_000
"""How often samples are drawn anew, and how many of them are drawn at most."""


def bootstrap(samples: Sequence[float], confidence: float, seed: int = 0) -> tuple[float, float]:
    """The interval in which the median of as many samples, drawn from these with replacement, lies with
    `confidence` (B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, section 10.4: percentile
    method). The same samples give the same interval."""
    import numpy as np  # who reads ratios needs none

    values = np.asarray(samples, np.float64)
    n = len(values)
    draws = max(200, min(DRAWS, MOST_DRAWN // n))
    drawn = np.random.default_rng(seed).integers(0, n, (draws, n))
    low, high = np.quantile(np.median(values[drawn], axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
