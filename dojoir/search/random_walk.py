"""`random`: chains of legal moves drawn blindly, each from a start; what others must be better than."""

from __future__ import annotations

from collections.abc import Sequence

import dojoir
from dojoir import runtime
from dojoir.search.play import Play


class RandomWalk:
    """Walks of up to `length` random moves; every state on the way is tried."""

    def __init__(self, play: Play, length: int = 10) -> None:
        self.play, self.length = play, length
        self.at = play.rng.choice(play.starts)
        self.made = 0

    def ask(self, n: int) -> list[dojoir.Trace]:
        """The next states of the walk, or of the next ones."""
        found: list[dojoir.Trace] = []
        while len(found) < n:
            longer = self.play.children(self.at, 1, blindly=True) if self.made < self.length else []
            if not longer and self.made == 0:
                break  # nothing is legal here, or the budget is spent
            if longer:
                self.at, self.made = longer[0], self.made + 1
                found.append(self.at)
            else:
                self.at, self.made = self.play.rng.choice(self.play.starts), 0
        return found

    def tell(self, evaluations: Sequence[runtime.Evaluation]) -> None:
        """Where a blind walk goes does not depend on what it finds."""
