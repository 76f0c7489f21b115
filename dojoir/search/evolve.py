"""`evolve`: a population of traces: tournaments, point mutations, crossover."""

from __future__ import annotations

from collections.abc import Sequence

import dojoir
from dojoir import runtime
from dojoir.search.play import Play


class Evolve:
    """The fastest of `tournament` that are drawn is a parent. A child is its parent with one more move, with one
    parameter changed in the middle (`mutations` of them), or crossed with another parent (`crossings`). The `size`
    fastest stay."""

    def __init__(
        self, play: Play, size: int = 16, tournament: int = 3, mutations: float = 0.3, crossings: float = 0.2
    ) -> None:
        self.play, self.size, self.tournament = play, max(2, size), max(1, tournament)
        self.mutations, self.crossings = mutations, crossings
        self.population = {trace.kernel.hash: trace for trace in play.starts}
        self.asked: list[dojoir.Trace] = []

    def ask(self, n: int) -> list[dojoir.Trace]:
        """The next children."""
        self.asked = []
        for _ in range(n):
            child = self._child()
            if child is None:
                break
            self.asked.append(child)
        return self.asked

    def tell(self, evaluations: Sequence[runtime.Evaluation]) -> None:
        """Children that ran join; the slowest go."""
        for trace in self.asked:
            if self.play.speed(trace) > 0:
                self.population.setdefault(trace.kernel.hash, trace)
        ranked = sorted(self.population.items(), key=lambda item: -self.play.speed(item[1]))
        self.population = dict(ranked[: self.size])

    def _parent(self) -> dojoir.Trace:
        drawn = [self.play.rng.choice([*self.population.values()]) for _ in range(self.tournament)]
        return max(drawn, key=self.play.speed)

    def _child(self) -> dojoir.Trace | None:
        kind, parent = self.play.rng.random(), self._parent()
        made = None
        if kind < self.mutations:
            made = self.play.mutated(parent)
        elif kind < self.mutations + self.crossings and len(self.population) > 1:
            made = self.play.crossed(parent, self._parent())
        if made is None:
            made = next(iter(self.play.children(parent, 1)), None)
        return made
