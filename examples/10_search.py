"""A search in one call, and an agent of one's own that plays the same game.

python examples/10_search.py [KERNEL] [SECONDS]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import dojoir
from dojoir.runtime import Evaluation


class Curious:
    """Goes on from the fastest state so far, and after a streak of bad luck from any state that it knows."""

    def __init__(self, play: dojoir.search.Play, patience: int = 6) -> None:
        self.play, self.patience, self.luck = play, patience, patience
        self.known = [*play.starts]

    def ask(self, n: int) -> Sequence[dojoir.Trace]:
        """Up to `n` traces to try: here some that are one legal move, or one pass, longer."""
        at = self.play.best if self.luck > 0 else self.play.rng.choice(self.known)
        self.asked = self.play.children(at, min(n, 4))
        return self.asked

    def tell(self, evaluations: Sequence[Evaluation]) -> None:
        """What became of them, in the same order."""
        self.known += [trace for trace in self.asked if self.play.speed(trace) > 0.5]
        gained = any(trace.kernel == self.play.best.kernel for trace in self.asked)
        self.luck = self.patience if gained else self.luck - 1 if self.luck > 0 else self.patience


def main(name: str = "softmax", seconds: float = 5.0, states: int | None = None) -> None:
    kernel = dojoir.kernels.load(name)
    sizes = dict.fromkeys(kernel.runtime_sizes, 256)
    budget = dojoir.Budget(seconds=seconds, states=states)
    for strategy in ("beam", Curious):
        tuned = dojoir.tune(kernel, sizes=sizes, strategy=strategy, budget=budget)
        print(tuned)
        print(*tuned.trace.moves, sep="; ")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(float, sys.argv[2:3]))
