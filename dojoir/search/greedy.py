"""`greedy`: climbs from the fastest state by one move at a time, and from another start where nothing gains."""

from __future__ import annotations

from collections.abc import Sequence

import dojoir
from dojoir import runtime
from dojoir.search.play import Play


class Greedy:
    """Tries moves from one state until one is faster by more than the noise, and continues from there; after
    `patience` tries without a gain it continues from the next best state."""

    def __init__(self, play: Play, patience: int = 24) -> None:
        self.play, self.patience = play, patience
        self.tried: dict[str, int] = {}
        self.at = play.best
        self.asked: list[dojoir.Trace] = []
        self.seen: dict[str, dojoir.Trace] = {trace.kernel.hash: trace for trace in play.starts}

    def ask(self, n: int) -> list[dojoir.Trace]:
        """Neighbours of the state that it is at."""
        self.asked = self.play.children(self.at, min(n, 4))
        return self.asked

    def tell(self, evaluations: Sequence[runtime.Evaluation]) -> None:
        """Moves to the fastest neighbour, where that gains."""
        for trace in self.asked:
            self.seen.setdefault(trace.kernel.hash, trace)
        here = self.at.kernel.hash
        self.tried[here] = self.tried.get(here, 0) + len(evaluations)
        fastest = max(self.asked, key=self.play.speed, default=self.at)
        if self.play.speed(fastest) > self.play.speed(self.at) * (1 + self.play.noise):
            self.at = fastest
        elif self.tried[here] >= self.patience:
            fresh = [t for h, t in self.seen.items() if self.tried.get(h, 0) < self.patience]
            self.at = max(fresh, key=self.play.speed, default=self.play.best)
            if not fresh:
                self.patience *= 2
