"""A timer that times nothing: it ranks kernels by their text alone, and always in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import dojoir
from dojoir import runtime


class Static:
    """Stands for an `Evaluator` where nothing is to be built or run: for tests, and to train on. Every kernel is
    `ok` with the seconds of `dojoir.search.estimate`, the geometric mean over the sizes."""

    def __init__(
        self, target: str, sizes: Mapping[str, int] | Sequence[Mapping[str, int]], threads: int = 1
    ) -> None:
        self.target, self.threads = target, threads
        self.sizes = [sizes] if isinstance(sizes, Mapping) else [*sizes]

    def __enter__(self) -> Static:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Nothing is to be ended."""

    def noise(self, kernel: dojoir.Kernel) -> float:
        """Always 0: the same text gives the same number."""
        return 0.0

    def evaluate(
        self, kernels: Iterable[dojoir.Kernel], best: dojoir.Kernel | None = None
    ) -> Iterator[runtime.Evaluation]:
        """The estimate of each kernel, as `Evaluator.evaluate` gives what was measured."""
        rival = None if best is None else self._each(best)
        for kernel in kernels:
            each = self._each(kernel)
            seconds = runtime.geometric(each)
            ratios = () if rival is None else tuple(b / a for a, b in zip(each, rival, strict=True))
            ratio = runtime.geometric(ratios) if ratios else None
            yield runtime.Evaluation(
                kernel.hash,
                "ok",
                seconds,
                (seconds, seconds),
                (seconds,),
                ratio=ratio,
                ratio_interval=None if ratio is None else (ratio, ratio),
                ratios=ratios,
            )

    def _each(self, kernel: dojoir.Kernel) -> list[float]:
        return [max(dojoir.search.estimate(kernel, one, self.target, self.threads), 1e-12) for one in self.sizes]
