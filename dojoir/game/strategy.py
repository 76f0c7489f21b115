"""An agent that has learned, as a strategy of `dojoir.tune`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import dojoir
from dojoir.game.arena import KernelPosition
from dojoir.game.encoders import encoder
from dojoir.game.maxq import MaxQ
from dojoir.search import Play

LENGTH = 20
"""How many moves an episode has at most."""

ODD = 0.15
"""How often a move is not the best that is known, so that no two episodes are the same."""


class MaxQStrategy:
    """Plays episodes from the starts, in turn: each move is the one that the agent holds to be worth most, or now
    and then one of the ten best, by chance. Every state on the way is asked for."""

    def __init__(self, play: Play, *, agent: MaxQ, length: int = LENGTH) -> None:
        self.play, self.agent, self.length, self.target = play, agent, length, play.target
        self.encoder = encoder(str(agent.settings["encoder"]))
        if self.encoder.size != agent.settings["state_size"]:
            raise dojoir.ArgumentError("the agent was made with an encoder of another size", "bad-model")
        self.episodes = 0
        self.trace: dojoir.Trace | None = None

    def ask(self, n: int) -> Sequence[dojoir.Trace]:
        """Up to `n` states, one after the other on the way of an episode."""
        found: list[dojoir.Trace] = []
        while len(found) < n and self.play.ledger.spent() is None and self.play.ledger.moves_left(1):
            after = self._next()
            if after is not None:
                found.append(after)
            elif not found and self.episodes > 4 * len(self.play.starts) + n:
                break
        return found

    def _next(self) -> dojoir.Trace | None:
        """The state after one more move; None where an episode ended instead."""
        if self.trace is None:
            starts = self.play.starts
            self.trace, self.made = starts[self.episodes % len(starts)], 0
            self.episodes += 1
        position = KernelPosition(self, self.trace, self.play.sizes[0], 1.0, 0.0)
        order = [int(i) for i in np.argsort(-self.agent.values(position), kind="stable")]
        if self.play.rng.random() < ODD or self.episodes > len(self.play.starts):
            best = order[:10]
            self.play.rng.shuffle(best)
            order = [*best, *order[10:]]
        action = next(action for action in order if position.legal(action))
        if action == 0 or self.made >= self.length:
            self.trace = None
            return None
        self.play.ledger.moves += 1
        self.made += 1
        self.trace = self.trace.then(position.moves[action - 1])
        return self.trace

    def tell(self, evaluations: Sequence[dojoir.Evaluation]) -> None:
        """It has learned before; a state that failed ends its episode."""
        if evaluations and evaluations[-1].status not in ("ok", "cut"):
            self.trace = None


def from_file(path: str) -> Callable[..., MaxQStrategy]:
    """What makes the strategy of an agent in a file: `maxq:PATH`. Raises ArgumentError, `bad-model`."""
    agent = MaxQ.load(path)

    def maxq(play: Play, length: int = LENGTH) -> MaxQStrategy:
        return MaxQStrategy(play, agent=agent, length=length)

    return maxq
