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
from dojoir.game.encoders import MOVE_SIZE, Encoder, Rows, Vector, encoder, lines_of, move_row, pass_row
from dojoir.game.scoring import Scorer
from dojoir.game.suite import Suite
from dojoir.search import WEIGHTS
from dojoir.search.actions import after, spread
from dojoir.search.play import ACTIONS as OFTEN

WORST = -3.0
"""The logarithm that stands for a state that cannot be run; none counts as slower."""

SOON = 20_000
"""Steps of the checker within which a move must be shown to be legal to be played."""

EACH = 5
"""How many choices of parameters of a family of passes are among the actions."""

LARGEST = 40
"""How many lines the tree of a kernel may have for an episode to continue from it: beyond, there are many hundred
candidates, most of them of no use, and each takes long to prove."""

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
    """The encoder and the target of the positions of an arena."""

    encoder: Encoder
    target: str


class KernelPosition:
    """A kernel on the way of a trace. Actions are the candidates of the families of moves that a search draws, and
    passes with parameters. One that leads back to a kernel that the trace has been at counts as illegal. Where the
    best state that can be reached counts, to go to and fro would be worth as much as to go on."""

    def __init__(
        self,
        arena: Encodes,
        trace: dojoir.Trace,
        sizes: Mapping[str, int],
        first: float,
        value: float,
        made: int = 0,
    ) -> None:
        self.trace, self.sizes, self.first, self.value, self.made = trace, sizes, first, value, made
        self.target, self.vector = arena.target, arena.encoder.encode(trace.kernel)
        self.moves = [
            move for move in dojoir.candidates(trace.kernel, arena.target) if WEIGHTS.get(move.name, 0) > 0
        ]
        self.passes = spread(arena.target, 1, EACH)
        self.rows: Rows = np.zeros((1 + len(self.moves) + len(self.passes), MOVE_SIZE), np.float32)
        self.rows[0, 0] = 1
        for i, move in enumerate(self.moves, 1):
            self.rows[i] = move_row(trace.kernel, move)
        for i, (text, family) in enumerate(self.passes.items(), 1 + len(self.moves)):
            self.rows[i] = pass_row(text, family)
        self._after: dict[int, dojoir.Trace | None] = {}

    def legal(self, action: int) -> bool:
        return action == 0 or self.after(action) is not None

    def after(self, action: int) -> dojoir.Trace | None:
        """The trace after an action that is not to stop; None where it may not be made."""
        if action not in self._after:
            found = self._tried(action)
            been = (self.trace.start.hash, *(step.kernel.hash for step in self.trace.steps))
            if found is not None and found.kernel.hash in been:
                found = None
            self._after[action] = found
        return self._after[action]

    def _tried(self, action: int) -> dojoir.Trace | None:
        if action > len(self.moves):
            return after(self.trace, [*self.passes][action - 1 - len(self.moves)], self.target)
        move = self.moves[action - 1]
        return self.trace.then(move) if dojoir.check(self.trace.kernel, move, SOON) else None

    def shuffled(self, rng: Random) -> list[int]:
        """As a search draws: first the family by its weight, then one of its candidates, each as likely."""
        counts = Counter(move.name for move in self.moves) + Counter(self.passes.values())
        shares = [STOPPING, *(WEIGHTS[move.name] / counts[move.name] for move in self.moves)]
        passing = OFTEN * sum(WEIGHTS.values()) / len(set(self.passes.values()))
        shares += [passing / counts[family] for family in self.passes.values()]
        keys = [rng.random() ** (1 / share) for share in shares]  # Efraimidis and Spirakis (2006)
        return sorted(range(len(keys)), key=lambda action: -keys[action])


def is_last(kernel: dojoir.Kernel) -> bool:
    """Whether no episode continues from a kernel: its tree has more than LARGEST lines."""
    return len(lines_of(kernel)) > LARGEST


class KernelArena:
    """The kernels of a suite. The reward of an action is the logarithm of how many times as fast as the start the
    state after it is; that of stopping is that of the state itself. An episode ends after `length` actions, and at
    a kernel that `is_last`."""

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
        trace = position.after(action)
        assert trace is not None, "the action is legal"
        found = self.scorer.score(trace, position.sizes)
        is_right = found.status in ("ok", "cut") and found.seconds
        value = max(WORST, math.log(position.first / found.seconds)) if is_right and found.seconds else WORST
        made = position.made + 1
        if made >= self.length or not is_right or is_last(trace.kernel):
            return value, None
        return value, KernelPosition(self, trace, position.sizes, position.first, value, made)
