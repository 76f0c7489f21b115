"""An agent that has learned, as a strategy of `dojoir.tune`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

import dojoir
from dojoir import runtime
from dojoir.game.arena import KernelPosition, is_last
from dojoir.game.encoders import encoder
from dojoir.game.maxq import MaxQ
from dojoir.search import Play

LENGTH = 20
"""How many moves an episode has at most."""

CHANCE = 0.1
"""By how much chance changes what an agent holds an action to be worth after the first episode, so that no two
are the same. The scale of Gumbel noise, with which an action is taken as often as its softmax says."""


class MaxQStrategy:
    """Plays episodes from the starts, in turn: the first as the agent holds to be best, the others with some
    chance. Every state on the way is asked for, and none twice."""

    def __init__(self, play: Play, *, agent: MaxQ, length: int = LENGTH) -> None:
        self.play, self.agent, self.length, self.target = play, agent, length, play.target
        self.encoder = encoder(str(agent.settings["encoder"]))
        if self.encoder.size != agent.settings["state_size"]:
            raise dojoir.ArgumentError("the agent was made with an encoder of another size", "bad-model")
        self.episodes = 0
        self.seen = {trace.kernel.hash for trace in play.starts}
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
        values = self.agent.values(position)
        if self.episodes > len(self.play.starts):
            values = values + CHANCE * np.array([gumbel(self.play.rng) for _ in values], np.float32)
        order = np.argsort(-values, kind="stable")
        action = next(int(i) for i in order if position.legal(int(i)) and self._is_new(position, int(i)))
        longer = None if action == 0 else position.after(action)
        if longer is None or self.made >= self.length:
            self.trace = None
            return None
        self.play.count()
        self.made += 1
        self.trace = None if is_last(longer.kernel) else longer
        self.seen.add(longer.kernel.hash)
        return longer

    def _is_new(self, position: KernelPosition, action: int) -> bool:
        """Whether an action leads to a kernel that was not asked for; to stop is always new."""
        longer = None if action == 0 else position.after(action)
        return longer is None or longer.kernel.hash not in self.seen

    def tell(self, evaluations: Sequence[runtime.Evaluation]) -> None:
        """It has learned before; a state that failed ends its episode."""
        if evaluations and evaluations[-1].status not in ("ok", "cut"):
            self.trace = None


def gumbel(rng: Random) -> float:
    """A number of the Gumbel distribution."""
    return -math.log(-math.log(max(rng.random(), 1e-300)))


def from_file(path: str) -> Callable[..., MaxQStrategy]:
    """A function that makes the strategy of an agent in a file: `maxq:PATH`. Raises ArgumentError, `bad-model`."""
    agent = MaxQ.load(path)

    def maxq(play: Play, length: int = LENGTH) -> MaxQStrategy:
        return MaxQStrategy(play, agent=agent, length=length)

    return maxq
