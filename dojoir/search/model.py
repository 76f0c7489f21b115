"""A model of cost: which of the states that were drawn are likely to be fast, before one of them is built.

It ranks by `dojoir.search.estimate`, whose error it learns from `dojoir.search.features` and the speeds that the
search has measured so far, or by a model of the user's own.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

import dojoir
from dojoir.search.named_objects import named

FEWEST = 40
"""How many states must be known before the model says anything."""

AGAIN = 25
"""After how many more it is trained again."""

AHEAD = 3
"""How many times as many steps are drawn as are tried."""

AT_RANDOM = 0.1
"""The share of what is tried that the model does not choose."""

FIRST, AGAIN_SOON, HEAVY, MOST_OFF = 12, 6, 4.0, 1.5
"""The error of the estimate is learned from so many states on, again after so many more. Then the weight that keeps
its coefficients small, and the most that it takes the estimate to be off by, as a logarithm."""


Array = np.ndarray[Any, np.dtype[np.float64]]


class Learns(Protocol):
    """A model of the user's own, as those of scikit-learn are: rows of features, one for each state, with the
    logarithms of how many times as fast as the start these are. It is fitted to all that is known each time."""

    def fit(self, rows: Array, speeds: Array) -> object:
        """Learns from rows, of shape (states, features), and speeds, of shape (states,)."""

    def predict(self, rows: Array) -> Sequence[float]:
        """The speed that is expected of each row."""


class ModelFailed(Exception):
    """A model of the user's raised, or gave what is no speed for each row; the words say which."""


class SpeedModel:
    """Ranks traces by the speed that a model expects of them."""

    at_random = AT_RANDOM

    def __init__(self, sizes: Sequence[dict[str, int]], learns: Learns) -> None:
        self.sizes, self.learns = sizes, learns
        self.rows: list[list[float]] = []
        self.speeds: list[float] = []
        self.expected: dict[str, float] = {}
        self.pairs: list[tuple[float, float]] = []
        self._trained = 0

    def row(self, kernel: dojoir.Kernel) -> list[float]:
        """The features at all sizes, the large ones as logarithms."""
        return [
            math.log1p(value) if value > 64 else value
            for one in self.sizes
            for value in dojoir.search.features(kernel, one).values()
        ]

    def tell(self, kernel: dojoir.Kernel, speed: float) -> None:
        """A state and how fast it was, 0 for one that failed."""
        own = math.log(max(speed, 1e-3))
        if kernel.hash in self.expected:
            self.pairs.append((self.expected.pop(kernel.hash), own))
        self.rows.append(self.row(kernel))
        self.speeds.append(own)
        if len(self.rows) >= max(FEWEST, self._trained + AGAIN):
            with _of_the_model("fit"):
                self.learns.fit(np.array(self.rows), np.array(self.speeds))
            self._trained = len(self.rows)

    @property
    def ready(self) -> bool:
        """Whether it has learned from anything."""
        return self._trained > 0

    def chosen(self, traces: Sequence[dojoir.Trace], count: int, rng: random.Random) -> list[dojoir.Trace]:
        """The `count` of some traces that are likely to be the fastest, some of them at random. Raises
        ModelFailed."""
        if not self.ready or not traces:
            return [*traces[:count]]
        guesses = self.guesses([trace.kernel for trace in traces])
        order = sorted(range(len(traces)), key=lambda number: -guesses[number])
        best, rest = [traces[n] for n in order[:count]], [traces[n] for n in order[count:]]
        for number in range(len(best)):
            if rest and rng.random() < self.at_random:
                best[number] = rest.pop(rng.randrange(len(rest)))
        for trace, guess in zip(traces, guesses, strict=True):
            if trace in best:
                self.expected[trace.kernel.hash] = guess
        return best

    def guesses(self, kernels: Sequence[dojoir.Kernel]) -> list[float]:
        """The logarithm of the speed that is expected of each kernel. Raises ModelFailed."""
        with _of_the_model("predict"):
            found = [float(one) for one in self.learns.predict(np.array([self.row(kernel) for kernel in kernels]))]
            if len(found) != len(kernels) or any(math.isnan(guess) for guess in found):
                raise ValueError(f"{len(kernels)} rows need as many numbers, and not {found[:3]} …")
        return found

    def told(self) -> str:
        """How good it was, in words."""
        known = self.correlation()
        if known is None:
            return "too few states"
        return f"rank correlation {known:.2f} on states it had not seen"

    def correlation(self) -> float | None:
        """The rank correlation (Spearman's) of what was expected and what was measured, of states that the model
        had not seen when it was asked; None for fewer than ten."""
        if len(self.pairs) < 10:
            return None
        first, second = (_ranks([pair[side] for pair in self.pairs]) for side in (0, 1))
        if np.ptp(first) == 0 or np.ptp(second) == 0:
            return 0.0
        return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Sequence[float]) -> Array:
    """The rank of each value; equal ones share theirs."""
    _, places, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    found: Array = (np.cumsum(counts) - (counts + 1) / 2)[places]
    return found


@contextlib.contextmanager
def _of_the_model(what: str) -> Iterator[None]:
    """Tells what a model raises from what is raised here."""
    try:
        yield
    except Exception as error:
        raise ModelFailed(f"the cost model failed in {what}: {type(error).__name__}: {error}") from error


class Estimated(SpeedModel):
    """Ranks by the estimate from the text, from the first state on, and by what it was off by at states that were
    measured: a ridge regression on their features (Hoerl and Kennard, 1970), in less than a millisecond."""

    at_random = 0.25

    def __init__(self, sizes: Sequence[dict[str, int]], target: str, threads: int) -> None:
        super().__init__(sizes, self)
        self.target, self.threads = target, threads
        self.errors: list[float] = []
        self.plain: list[float] = []
        self.coefficients: Array | None = None

    @property
    def ready(self) -> bool:
        return True

    def _estimate(self, kernel: dojoir.Kernel) -> float:
        """The logarithm of the speed by the text: the mean over the sizes."""
        each = [dojoir.search.estimate(kernel, one, self.target, self.threads) for one in self.sizes]
        return -sum(math.log(max(one, 1e-12)) for one in each) / len(each)

    def tell(self, kernel: dojoir.Kernel, speed: float) -> None:
        if speed <= 0:
            return
        own, guess = math.log(speed), self._estimate(kernel)
        if kernel.hash in self.expected:
            self.pairs.append((self.expected.pop(kernel.hash), own))
            self.plain.append(guess)
        self.rows.append(self.row(kernel))
        self.errors.append(own - guess)
        if len(self.rows) >= max(FIRST, self._trained + AGAIN_SOON):
            self.fit(np.array(self.rows), np.array(self.errors))
            self._trained = len(self.rows)

    def fit(self, rows: Array, speeds: Array) -> None:
        """Learns what the estimate is off by."""
        self.middle, self.spread = rows.mean(0), rows.std(0) + 1e-9
        scaled = np.hstack([(rows - self.middle) / self.spread, np.ones((len(rows), 1))])
        kept = HEAVY * np.eye(scaled.shape[1])
        kept[-1, -1] = 1e-6
        self.coefficients = np.linalg.solve(scaled.T @ scaled + kept, scaled.T @ speeds)

    def predict(self, rows: Array) -> list[float]:
        """The error of the estimate for each row: no more about the mean than MOST_OFF."""
        if self.coefficients is None:
            return [sum(self.errors) / max(1, len(self.errors))] * len(rows)
        off = ((rows - self.middle) / self.spread) @ self.coefficients[:-1]
        return [float(one) + float(self.coefficients[-1]) for one in np.clip(off, -MOST_OFF, MOST_OFF)]

    def guesses(self, kernels: Sequence[dojoir.Kernel]) -> list[float]:
        off = super().guesses(kernels)
        return [self._estimate(kernel) + one for kernel, one in zip(kernels, off, strict=True)]

    def told(self) -> str:
        if len(self.pairs) < 10:
            return super().told()
        own = np.array([pair[1] for pair in self.pairs])
        learned, plain = np.array([pair[0] for pair in self.pairs]), np.array(self.plain)
        off = [math.exp(float(np.abs(one - own - np.mean(one - own)).mean())) for one in (plain, learned)]
        words = f"the estimate was off by {off[0]:.2f}x in the mean, with what was learned {off[1]:.2f}x"
        return f"{super().told()}; {words}"


def model_of(given: object, sizes: Sequence[dict[str, int]], target: str, threads: int) -> SpeedModel | None:
    """The model that `cost_model=` means: `estimate` (none on a GPU), `module:class` or `file.py:class`, an object
    with `fit` and `predict`, or none. Raises ArgumentError for anything else."""
    if given is None:
        return None
    if given == "estimate":
        return Estimated(sizes, target, threads) if dojoir.machine_for(target).kind == "cpu" else None
    if isinstance(given, str):
        if ":" not in given:
            message = f"cost_model is 'estimate', module:class or an object with fit and predict, not '{given}'"
            raise dojoir.ArgumentError(message, "bad-arguments")
        made: Any = named(given, "cost model", "bad-arguments")
        try:
            given = made()
        except Exception as error:
            message = f"the cost model could not be made: {type(error).__name__}: {error}"
            raise dojoir.ArgumentError(message, "bad-arguments") from None
    found: Any = given
    if isinstance(found, type) or not all(callable(getattr(found, name, None)) for name in ("fit", "predict")):
        what = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        message = f"cost_model is 'estimate', module:class or an object with fit and predict, not {what}"
        raise dojoir.ArgumentError(message, "bad-arguments")
    return SpeedModel(sizes, found)
