"""`anneal`: simulated annealing: a slower neighbour is accepted too, ever more rarely.

Source: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing", Science 220 (1983).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import dojoir
from dojoir import runtime
from dojoir.search.play import Play


class Anneal:
    """Several chains at once. A neighbour that is `d` slower, as a difference of logarithms, is accepted with
    probability exp(-d / temperature); the temperature falls by `cooling` with each round. A neighbour is the state
    with one more move, or in one of three tries a mutation of its trace."""

    def __init__(
        self, play: Play, chains: int = 4, temperature: float = 0.4, cooling: float = 0.97, mutations: float = 0.33
    ) -> None:
        self.play, self.temperature, self.cooling, self.mutations = play, temperature, cooling, mutations
        self.chains = [play.best, *(play.rng.choice(play.starts) for _ in range(max(1, chains) - 1))]
        self.asked: list[tuple[int, dojoir.Trace]] = []

    def ask(self, n: int) -> list[dojoir.Trace]:
        """A neighbour of each chain."""
        self.asked = []
        for number, trace in enumerate(self.chains[:n]):
            mutated = self.play.rng.random() < self.mutations
            found = self.play.mutated(trace) if mutated else None
            near = [found] if found is not None else self.play.children(trace, 1)
            self.asked += [(number, one) for one in near]
        return [trace for _, trace in self.asked]

    def tell(self, evaluations: Sequence[runtime.Evaluation], traces: Sequence[dojoir.Trace]) -> None:
        """Each chain stays or goes on."""
        told = {trace.kernel.hash for trace in traces}
        for number, trace in self.asked:
            if trace.kernel.hash not in told:
                continue
            new, old = self.play.speed(trace), self.play.speed(self.chains[number])
            if new <= 0:
                continue
            loss = math.log(max(old, 1e-9) / new)
            if loss <= 0 or self.play.rng.random() < math.exp(-loss / self.temperature):
                self.chains[number] = trace
        self.temperature = max(0.005, self.temperature * self.cooling)
