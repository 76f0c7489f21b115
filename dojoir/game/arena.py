"""Where Max-Q learns: states with actions as rows of numbers, whose legality is asked one by one.

To list every legal move takes long, and an agent needs only the best of them: it ranks all that could be written,
and asks the checker in that order until one is legal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

import numpy as np

import dojoir
from dojoir.game.encoders import MOVE_SIZE, Encoder, Rows, Vector, encoder, move_row
from dojoir.game.scoring import Scorer
from dojoir.game.suite import Suite

WORST = -10.0
"""The logarithm that stands for a state that cannot be run."""


class Position(Protocol):
    """A state of a game: its vector, a row for each action (the first stops), and which of them are legal."""

    vector: Vector
    rows: Rows

    def legal(self, action: int) -> bool:
        """Whether an action may be made; found out when it is first asked."""


class Arena(Protocol):
    """A game."""

    state_size: int
    action_size: int

    def begin(self, rng: Random) -> Any:
        """The first position of an episode."""

    def act(self, position: Any, action: int) -> tuple[float, Any]:
        """The reward of a legal action, and the position after it; None where the episode ends."""


class Encodes(Protocol):
    """What a position is made for."""

    encoder: Encoder
    target: str


class KernelPosition:
    """A kernel on the way of a trace."""

    def __init__(self, arena: Encodes, trace: dojoir.Trace, sizes: Mapping[str, int], first: float, value: float):
        self.trace, self.sizes, self.first, self.value = trace, sizes, first, value
        self.vector = arena.encoder.encode(trace.kernel)
        self.moves = dojoir.candidates(trace.kernel, arena.target)
        self.rows: Rows = np.zeros((1 + len(self.moves), MOVE_SIZE), np.float32)
        self.rows[0, 0] = 1
        for i, move in enumerate(self.moves, 1):
            self.rows[i] = move_row(trace.kernel, move)
        self._legal: dict[int, bool] = {0: True}

    def legal(self, action: int) -> bool:
        found = self._legal.get(action)
        if found is None:
            found = bool(dojoir.check(self.trace.kernel, self.moves[action - 1]))
            self._legal[action] = found
        return found


class KernelArena:
    """The kernels of a suite. The reward of an action is the logarithm of how many times as fast as the start the
    state after it is; that of stopping is that of the state itself. An episode ends after `length` moves."""

    def __init__(self, suite: Suite, scorer: Scorer, *, length: int = 20, encoding: Encoder | str = "hash") -> None:
        self.suite, self.scorer, self.length, self.target = suite, scorer, length, scorer.target
        self.encoder = encoder(encoding) if isinstance(encoding, str) else encoding
        self.state_size, self.action_size = self.encoder.size, MOVE_SIZE

    def begin(self, rng: Random) -> KernelPosition:
        kernel, sizes = rng.choice(self.suite.entries)
        trace = dojoir.Trace(kernel)
        seconds = self.scorer.score(trace, sizes).seconds
        if not seconds:
            raise dojoir.RunError(f"{kernel.name} cannot be timed", "no-start")
        return KernelPosition(self, trace, sizes, seconds, 0.0)

    def act(self, position: KernelPosition, action: int) -> tuple[float, KernelPosition | None]:
        if action == 0:
            return position.value, None
        trace = position.trace.then(position.moves[action - 1])
        found = self.scorer.score(trace, position.sizes)
        is_right = found.status in ("ok", "cut") and found.seconds
        value = max(WORST, math.log(position.first / found.seconds)) if is_right and found.seconds else WORST
        if len(trace.moves) >= self.length or not is_right:
            return value, None
        return value, KernelPosition(self, trace, position.sizes, position.first, value)
