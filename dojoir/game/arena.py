"""Where Max-Q learns: states with actions as rows of numbers, whose legality is asked one by one.

To list every legal move takes long, and an agent needs only the best of them: it ranks all that could be written,
and asks the checker in that order until one is legal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

import numpy as np

import dojoir
from dojoir.game.encoders import MOVE_SIZE, Encoder, Rows, Vector, encoder, move_row
from dojoir.game.scoring import Scorer
from dojoir.game.suite import Suite
from dojoir.search import WEIGHTS

WORST = -3.0
"""The logarithm that stands for a state that cannot be run; none counts as slower."""

SOON = 20_000
"""Steps of the checker within which a move must be shown to be legal to be played."""

STOPPING = 1.0
"""How often to stop is drawn, where a family of moves has its number of `dojoir.search.WEIGHTS`."""


class Position(Protocol):
    """A state of a game: its vector, a row for each action (the first stops), and which of them are legal."""

    vector: Vector
    rows: Rows

    def legal(self, action: int) -> bool:
        """Whether an action may be made; found out when it is first asked."""

    def shuffled(self, rng: Random) -> Sequence[int]:
        """All actions, in a random order to explore in."""


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
    """A kernel on the way of a trace. Its moves are the candidates of the families that a search draws; one that
    leads back to a kernel that the trace has been at counts as illegal: by the best state that can be reached, to
    go to and fro would be worth as much as to go on."""

    def __init__(self, arena: Encodes, trace: dojoir.Trace, sizes: Mapping[str, int], first: float, value: float):
        self.trace, self.sizes, self.first, self.value = trace, sizes, first, value
        self.vector = arena.encoder.encode(trace.kernel)
        self.moves = [
            move for move in dojoir.candidates(trace.kernel, arena.target) if WEIGHTS.get(move.name, 0) > 0
        ]
        self.rows: Rows = np.zeros((1 + len(self.moves), MOVE_SIZE), np.float32)
        self.rows[0, 0] = 1
        for i, move in enumerate(self.moves, 1):
            self.rows[i] = move_row(trace.kernel, move)
        self._legal: dict[int, bool] = {0: True}

    def legal(self, action: int) -> bool:
        found = self._legal.get(action)
        if found is None:
            move = self.moves[action - 1]
            found = bool(dojoir.check(self.trace.kernel, move, SOON)) and self._is_new(move)
            self._legal[action] = found
        return found

    def _is_new(self, move: dojoir.Move) -> bool:
        """Whether the kernel after a move is none that the trace has been at."""
        after = self.trace.then(move).kernel.hash
        return after not in {self.trace.start.hash, *(step.kernel.hash for step in self.trace.steps)}

    def shuffled(self, rng: Random) -> list[int]:
        """As a search draws: first the family by its weight, then one of its candidates, each as likely."""
        counts = Counter(move.name for move in self.moves)
        shares = [STOPPING, *(WEIGHTS[move.name] / counts[move.name] for move in self.moves)]
        keys = [rng.random() ** (1 / share) for share in shares]  # Efraimidis and Spirakis (2006)
        return sorted(range(len(keys)), key=lambda action: -keys[action])


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
