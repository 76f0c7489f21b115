"""A model of cost: which of the states that were drawn are likely to be fast, before one of them is built.

Gradient-boosted trees (J. H. Friedman, "Greedy function approximation: a gradient boosting machine", 2001) of
scikit-learn on `dojoir.features`, trained on what the search has measured so far.
"""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Sequence
from typing import Any

import dojoir

FEWEST = 40
"""How many states must be known before the model says anything."""

AGAIN = 25
"""After how many more it is trained again."""

AHEAD = 3
"""How many times as many steps are drawn as are tried."""

AT_RANDOM = 0.1
"""The share of what is tried that the model does not choose."""


class Trees:
    """Ranks traces by the speed that it expects of them. Raises ToolchainError where scikit-learn is missing."""

    def __init__(self, sizes: Sequence[dict[str, int]], seed: int = 0) -> None:
        try:
            self._ensemble: Any = importlib.import_module("sklearn.ensemble")
        except ImportError:
            message = "cost_model='trees' needs scikit-learn: pip install 'dojoir[agents]'"
            raise dojoir.ToolchainError(message, "missing-package") from None
        self.sizes, self.seed = sizes, seed
        self.rows: list[list[float]] = []
        self.speeds: list[float] = []
        self.expected: dict[str, float] = {}
        self.pairs: list[tuple[float, float]] = []
        self._model: Any = None
        self._trained = 0

    def row(self, kernel: dojoir.Kernel) -> list[float]:
        """The features at all sizes, the large ones as logarithms."""
        return [
            math.log1p(value) if value > 64 else value
            for one in self.sizes
            for value in dojoir.features(kernel, one).values()
        ]

    def tell(self, kernel: dojoir.Kernel, speed: float) -> None:
        """A state and how fast it was, 0 for one that failed."""
        own = math.log(max(speed, 1e-3))
        if kernel.hash in self.expected:
            self.pairs.append((self.expected.pop(kernel.hash), own))
        self.rows.append(self.row(kernel))
        self.speeds.append(own)
        if len(self.rows) >= max(FEWEST, self._trained + AGAIN):
            self._model = self._ensemble.GradientBoostingRegressor(
                n_estimators=80, max_depth=4, subsample=0.8, random_state=self.seed
            )
            self._model.fit(self.rows, self.speeds)
            self._trained = len(self.rows)

    @property
    def ready(self) -> bool:
        return self._model is not None

    def chosen(self, traces: Sequence[dojoir.Trace], count: int, rng: random.Random) -> list[dojoir.Trace]:
        """The `count` of some traces that are likely to be the fastest, a tenth of them at random."""
        if self._model is None or not traces:
            return [*traces[:count]]
        guesses = self._model.predict([self.row(trace.kernel) for trace in traces])
        ranked = [trace for _, trace in sorted(zip(guesses, traces, strict=True), key=lambda pair: -pair[0])]
        best, rest = ranked[:count], ranked[count:]
        for number in range(len(best)):
            if rest and rng.random() < AT_RANDOM:
                best[number] = rest.pop(rng.randrange(len(rest)))
        for trace, guess in zip(traces, guesses, strict=True):
            if trace in best:
                self.expected[trace.kernel.hash] = float(guess)
        return best

    def correlation(self) -> float | None:
        """The rank correlation (Spearman's) of what was expected and what was measured, of states that the model
        had not seen when it was asked; None for fewer than ten."""
        if len(self.pairs) < 10:
            return None
        first, second = (_ranks([pair[side] for pair in self.pairs]) for side in (0, 1))
        middle = (len(first) - 1) / 2
        top = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
        below = math.sqrt(sum((a - middle) ** 2 for a in first) * sum((b - middle) ** 2 for b in second))
        return top / below if below else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal ones share theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for at in order[start : end + 1]:
            found[at] = (start + end) / 2
        start = end + 1
    return found
