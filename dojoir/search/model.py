"""A model of cost: which of the states that were drawn are likely to be fast, before one of them is built.

It learns from `dojoir.search.features` and the speeds that the search has measured so far: by gradient-boosted
trees (J. H. Friedman, "Greedy function approximation: a gradient boosting machine", 2001) of scikit-learn, or by
a model of the user's own.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

import dojoir
from dojoir.search.named import named

FEWEST = 40
"""How many states must be known before the model says anything."""

AGAIN = 25
"""After how many more it is trained again."""

AHEAD = 3
"""How many times as many steps are drawn as are tried."""

AT_RANDOM = 0.1
"""The share of what is tried that the model does not choose."""


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


class Model:
    """Ranks traces by the speed that a model expects of them."""

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
        """The `count` of some traces that are likely to be the fastest, a tenth of them at random. Raises
        ModelFailed."""
        if not self.ready or not traces:
            return [*traces[:count]]
        rows = np.array([self.row(trace.kernel) for trace in traces])
        with _of_the_model("predict"):
            guesses = [float(guess) for guess in self.learns.predict(rows)]
            if len(guesses) != len(traces) or any(math.isnan(guess) for guess in guesses):
                raise ValueError(f"{len(traces)} rows need as many numbers, and not {guesses[:3]} …")
        order = sorted(range(len(traces)), key=lambda number: -guesses[number])
        best, rest = [traces[n] for n in order[:count]], [traces[n] for n in order[count:]]
        for number in range(len(best)):
            if rest and rng.random() < AT_RANDOM:
                best[number] = rest.pop(rng.randrange(len(rest)))
        for trace, guess in zip(traces, guesses, strict=True):
            if trace in best:
                self.expected[trace.kernel.hash] = guess
        return best

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


class Trees(Model):
    """Gradient-boosted trees. Raises ToolchainError where scikit-learn is missing."""

    def __init__(self, sizes: Sequence[dict[str, int]], seed: int = 0) -> None:
        try:
            ensemble: Any = importlib.import_module("sklearn.ensemble")
        except ImportError:
            message = "cost_model='trees' needs scikit-learn: pip install 'dojoir[agents]'"
            raise dojoir.ToolchainError(message, "missing-package") from None
        super().__init__(
            sizes,
            ensemble.GradientBoostingRegressor(n_estimators=80, max_depth=4, subsample=0.8, random_state=seed),
        )


def model_of(given: object, sizes: Sequence[dict[str, int]], seed: int) -> Model | None:
    """The model that `cost_model=` means: `trees`, `module:class` or `file.py:class`, an object with `fit` and
    `predict`, or none. Raises ArgumentError for anything else."""
    if given is None:
        return None
    if given == "trees":
        return Trees(sizes, seed)
    if isinstance(given, str):
        if ":" not in given:
            message = f"cost_model is 'trees', module:class or an object with fit and predict, not '{given}'"
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
        message = f"cost_model is 'trees', module:class or an object with fit and predict, not {what}"
        raise dojoir.ArgumentError(message, "bad-arguments")
    return Model(sizes, found)
