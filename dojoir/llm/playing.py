"""One game at the table: a trace, what was measured on the way, and the best so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dojoir
from dojoir.game.scoring import Scorer
from dojoir.search.actions import make_one


class Game:
    """A kernel that is played at some sizes. `best` is the trace of the fastest state that was right and timed,
    with its seconds; `first` the seconds of the start."""

    def __init__(self, kernel: dojoir.Kernel, sizes: Mapping[str, int], scorer: Scorer) -> None:
        self.sizes, self.scorer, self.trace = dict(sizes), scorer, dojoir.Trace(kernel)
        self.best: tuple[dojoir.Trace, float] | None = None
        self.first: float | None = None

    @property
    def target(self) -> str:
        """The target that it is built for."""
        return self.scorer.target

    def state(self, trace: dojoir.Trace | None = None) -> dict[str, Any]:
        """The state as plain data, or that of another trace: the text, its hash, and the moves to it."""
        at = self.trace if trace is None else trace
        return {"hash": at.kernel.hash, "moves": [str(move) for move in at.moves], "text": str(at.kernel)}

    def apply(self, text: str, stop: object) -> tuple[int, dojoir.Verdict | None, str]:
        """Makes the moves and passes of a pipeline one after another, until one is refused: how many were made,
        the verdict on the one that was refused, and why none was asked for. Raises ParseError, ArgumentError for a
        text that is no pipeline."""
        made = 0
        for element in dojoir.parse_pipeline(text, machine=dojoir.machine_for(self.target)):
            if stop:
                return made, None, "the call was at its end before all moves were made"
            longer = self.trace.copy()
            try:
                make_one(longer, element)
            except dojoir.IllegalMove as error:
                if isinstance(element, dojoir.Pass):
                    return made, error.verdict, f"{element} is refused"
                verdict = dojoir.suggest(self.trace.kernel, element)
                return made, error.verdict if verdict else verdict, f"{element} is refused"
            self.trace = longer
            made += 1
        return made, None, ""

    def measure(self) -> dict[str, Any]:
        """Times the state beside the start, verified first; the best so far is kept. Raises as `Scorer.score`."""
        if self.first is None:
            self.first = self.scorer.score(dojoir.Trace(self.trace.start), self.sizes).seconds
        found = self.scorer.score(self.trace, self.sizes)
        if found.ok and found.seconds and (self.best is None or found.seconds < self.best[1]):
            self.best = self.trace.copy(), found.seconds
        speed = self.first / found.seconds if found.ok and found.seconds and self.first else None
        return {
            "evaluation": found.status,
            "reason": found.reason,
            "seconds": found.seconds,
            "interval": None if found.interval is None else list(found.interval),
            "times_as_fast_as_the_start": speed,
            "timer": self.scorer.timer,
        }

    def answer(self) -> dict[str, Any]:
        """The best so far as plain data; without one, the state as it is, not measured."""
        trace, seconds = self.best or (None, None)
        speed = self.first / seconds if self.first and seconds else None
        return {**self.state(trace), "seconds": seconds, "times_as_fast_as_the_start": speed}
