"""Measurements of a machine that is none: times drawn with a noise that is known, in place of a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import dojoir
from dojoir.runtime import Measurement, Together


class Clock:
    """Times contestants as `dojoir.measure_together` does, without running any: `seconds` gives the true time of
    each; each round is off by a factor of its own for all, and each sample by one of `noise`."""

    def __init__(self, seconds: Callable[[Any], float], noise: float = 0.02, drift: float = 0.2, seed: int = 0):
        self.seconds, self.noise, self.drift = seconds, noise, drift
        self.random = np.random.default_rng(seed)
        self.asked: list[dict[str, Any]] = []

    def __call__(
        self, contestants: Sequence[Any], target: str, *, sizes: Mapping[str, int], fewest: int = 7, **given: Any
    ) -> Together:
        self.asked.append({"sizes": sizes, "fewest": fewest, **given})
        first = contestants[0]
        work = dojoir.cost(first) if isinstance(first, dojoir.Kernel) else None
        flops, moved = (0, 0) if work is None else (work.flops(dict(sizes)), work.bytes(dict(sizes)))
        integer = 0 if work is None else work.integer(dict(sizes))
        drift = np.exp(self.random.normal(0, self.drift, fewest))
        return Together(tuple(
            Measurement(
                getattr(one, "name", str(one)), target, dict(sizes), 1, True,
                tuple(self.seconds(one) * drift * np.exp(self.random.normal(0, self.noise, fewest))), 0.95, flops,
                moved, 50.0, 200.0, integer=integer, integer_ceiling=100.0, protocol="synthetic",
            )
            for one in contestants
        ))  # fmt: skip
