"""`beam`: continues from the fastest states of each round, no two of them of one family while there are others.

A family is the multiset of kinds of moves since the start: `split, split, vectorize` is one, whatever the sizes and
places. So the beam does not fill with variations of one idea.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import dojoir
from dojoir import runtime
from dojoir.search.play import Play

Family = frozenset[tuple[str, int]]


class Beam:
    """`width` states are kept. Each gives `children` new ones a round, twice as many where it is ahead of the
    start; the two best families are crossed. A family retires where its best is under `hopeless` of the best, or
    `behind` of it behind after `rounds` rounds without a gain. It ends after `rounds` rounds that gain less than
    the larger of `gain` and the noise, and then tries the best two merged. With `restart` it begins again instead,
    from other draws, until the budget ends."""

    def __init__(
        self,
        play: Play,
        width: int = 4,
        children: int = 8,
        gain: float = 0.03,
        rounds: int = 2,
        hopeless: float = 0.8,
        behind: float = 0.25,
        restart: bool = True,
    ) -> None:
        self.play, self.width, self.children = play, max(1, width), max(1, children)
        self.gain, self.rounds, self.hopeless, self.behind = gain, rounds, hopeless, behind
        self.restart = restart
        self.beam: list[dojoir.Trace] = sorted(play.starts, key=play.speed, reverse=True)[: self.width]
        self.round: list[dojoir.Trace] = []
        self.waiting: list[dojoir.Trace] = []
        self.retired: set[Family] = set()
        self.stale: dict[Family, int] = {}
        self.tops: dict[Family, float] = {}
        self.idle = 0
        self.reached = play.speed(play.best)
        self.merged = False

    # -- asking and telling ------------------------------------------------------------------------------
    def ask(self, n: int) -> list[dojoir.Trace]:
        """The next of a round; with the first, the round is drawn."""
        if not self.waiting:
            if self.idle >= self.rounds and not self._again():
                return []
            self.waiting = self._drawn()
        asked, self.waiting = self.waiting[:n], self.waiting[n:]
        self.round += asked
        return asked

    def tell(self, evaluations: Sequence[runtime.Evaluation]) -> None:
        """With the last of a round, the beam is chosen anew."""
        if not self.waiting:
            self._chosen()

    def _again(self) -> bool:
        """The next try when nothing gains any more: the best two merged, then a new beginning."""
        if not self.merged:
            self.merged = True
            found = self._crossings(2)
            if found:
                self.waiting = found
                return True
        if not self.restart:
            return False
        self.idle, self.merged, self.retired, self.stale = 0, False, set(), {}
        others = [trace for trace in self.play.starts if trace is not self.play.best]
        self.beam = [self.play.best, *others][: self.width]
        return True

    # -- a round -----------------------------------------------------------------------------------------
    def _drawn(self) -> list[dojoir.Trace]:
        """The children of all states of the beam, and crossings."""
        if self.waiting:
            return self.waiting
        found: list[dojoir.Trace] = []
        start = self.play.speed(self.play.starts[0])
        for trace in self.beam:
            batches = 2 if self.play.speed(trace) > start * (1 + self.play.noise) else 1
            found += self.play.children(trace, batches * self.children)
            mutated = self.play.mutated(trace)
            found += [] if mutated is None else [mutated]
        found += self._crossings(1)
        return list({trace.kernel.hash: trace for trace in found}.values())

    def _crossings(self, count: int) -> list[dojoir.Trace]:
        """The best of one family with the moves of the best of another, both ways."""
        best = self._bests([*self.beam, *self.round])
        if len(best) < 2:
            return []
        pairs = [(best[0], best[1]), (best[1], best[0])][:count]
        crossed = (self.play.crossed(one, other) for one, other in pairs)
        return [trace for trace in crossed if trace is not None]

    def _bests(self, traces: Sequence[dojoir.Trace]) -> list[dojoir.Trace]:
        """The fastest of each family, the fastest first."""
        found: dict[Family, dojoir.Trace] = {}
        for trace in sorted(traces, key=self.play.speed, reverse=True):
            if self.play.speed(trace) > 0:
                found.setdefault(family_of(trace), trace)
        return [*found.values()]

    def _chosen(self) -> None:
        """The beam of the next round."""
        best = self.play.speed(self.play.best)
        gained = best / max(self.reached, 1e-12) - 1
        self.idle = 0 if gained > max(self.gain, self.play.noise) else self.idle + 1
        self.reached = max(best, self.reached)
        everyone = list({t.kernel.hash: t for t in [*self.beam, *self.round] if self.play.speed(t) > 0}.values())
        self._retire(everyone, best)
        alive = [trace for trace in everyone if family_of(trace) not in self.retired] or [self.play.best]
        firsts = self._bests(alive)[: self.width]
        others = sorted((t for t in alive if t not in firsts), key=self.play.speed, reverse=True)
        self.beam = [*firsts, *others][: self.width]
        self.round = []

    def _retire(self, traces: Sequence[dojoir.Trace], best: float) -> None:
        """Leaves out families that lead nowhere."""
        for trace in self._bests(traces):
            family, speed = family_of(trace), self.play.speed(trace)
            if speed > self.tops.get(family, 0.0) * (1 + self.play.noise):
                self.tops[family], self.stale[family] = speed, 0
            else:
                self.stale[family] = self.stale.get(family, 0) + 1
            is_behind = speed < best * (1 - self.behind) and self.stale[family] >= self.rounds
            is_start = any(trace is start for start in self.play.starts)
            if (speed < best * self.hopeless and not is_start and self.stale[family]) or is_behind:
                self.retired.add(family)


def family_of(trace: dojoir.Trace) -> Family:
    """The kinds of its moves, each with how often it comes."""
    return frozenset(Counter(move.name for move in trace.moves).items())
