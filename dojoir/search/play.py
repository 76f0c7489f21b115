"""The interface of a strategy: the kernel, where to start, legal steps from a state, and how fast each state
was."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import dojoir
from dojoir import runtime
from dojoir.search.actions import drawn
from dojoir.search.budget import Ledger
from dojoir.search.model import AHEAD, SpeedModel
from dojoir.search.variation import crossed, mutated, replayed

WEIGHTS: Mapping[str, float] = {
    "split": 3, "tile": 3, "swap_scopes": 3, "join_scopes": 3, "split_scopes": 2, "vectorize": 5, "unroll": 3,
    "unmark": 1, "parallelize": 1, "reuse_dims": 3, "materialize_dims": 0.5, "place": 3, "stage": 2,
    "split_reduction": 2, "to_fma": 2, "inline": 2, "extract": 0.5, "prefetch": 1, "stream": 1, "collapse": 1,
    "reorder_dims": 1, "use_rule": 2, "sink_scope": 1, "delete_temporary": 1, "cut": 0.5,
}  # fmt: skip
"""How often each family of moves is drawn: those that change speed by themselves, or make way for one that does."""


ACTIONS = 0.08
"""The share of steps that are passes with parameters, and not single moves."""

BORROWED = 0.05
"""The share of steps that are the first moves of a fast trace of a kernel built alike, where one is known."""


Drew = Callable[[dojoir.Trace, Sequence[tuple[str, str]]], object]


class Play:
    """The game as a strategy sees it. `kernel` is what is tuned, `starts` are traces to begin with, the first of
    them the start that speeds are counted from; `noise` is by how much the time of the same kernel differs.

    Who counts moves: `children`, `acted`, `borrowed`, `mutated` and `crossed` count what they give, one for
    each trace, and give none where the budget has no moves left. A strategy that makes traces itself, as by
    `Trace.then`, says so with `count`; `tune` counts states, builds and measurements. All randomness should
    come from `rng`, so that a seed gives the same search."""

    def __init__(
        self,
        kernel: dojoir.Kernel,
        target: str,
        sizes: Sequence[Mapping[str, int]],
        rng: random.Random,
        ledger: Ledger,
        threads: int = 1,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.kernel, self.target, self.sizes, self.rng, self.threads = kernel, target, tuple(sizes), rng, threads
        self.ledger = ledger
        own = {name: weight for name, weight in WEIGHTS.items() if threads > 1 or name != "parallelize"}
        self.weights: Mapping[str, float] = own if weights is None else weights
        self.starts: list[dojoir.Trace] = []
        self.relatives: list[dojoir.Trace] = []
        self.known: list[dojoir.Trace] = []  # the fastest of a database: no steps, but the answer is none slower
        self.noise = 0.02
        self.hints = True  # whether the answer is at least as fast as what `optimize` gives
        self.timer = "measure"  # or static; cluster: what is timed here says nothing of its workers
        self.actions = ACTIONS
        self.model: SpeedModel | None = None
        self.busy = ""  # who else timed on this machine, where nothing could be timed for that
        self.speeds: dict[str, float] = {}
        self.best: dojoir.Trace = dojoir.Trace(kernel)
        self.drew: Drew | None = None  # is told what was drawn at a trace, each move with its verdict

    def children(self, trace: dojoir.Trace, count: int, blindly: bool = False) -> list[dojoir.Trace]:
        """Up to `count` traces that are one legal move longer, drawn at random; none where the budget is spent, or
        nothing is legal. More are drawn than given, and the cost model chooses, unless it is to be `blindly`."""
        count = self.ledger.moves_left(count)
        if count <= 0 or self.ledger.spent() is not None:
            return []
        acted = [self.acted(trace) for _ in range(count) if self.rng.random() < self.actions]
        if self.relatives:
            acted += [self.borrowed() for _ in range(count) if self.rng.random() < BORROWED]
        found = [longer for longer in acted if longer is not None][:count]
        model = None if blindly else self.model
        ahead = AHEAD if model is not None and model.ready else 1
        moves = self._drawn(trace, self.ledger.moves_left(count - len(found)) * ahead)
        drawn_now = [trace.then(move) for move in moves]
        given = [*found, *drawn_now]
        if model is not None:
            given = model.chosen(given, count, self.rng)
        self.ledger.moves += sum(any(one is other for other in drawn_now) for one in given)
        return given

    def _drawn(self, trace: dojoir.Trace, count: int) -> list[dojoir.Move]:
        """Legal moves that are drawn; what was drawn is told, refused moves too."""
        found: list[tuple[str, str]] = []

        def told(move: dojoir.Move, legal: bool) -> None:
            found.append((str(move), "legal" if legal else "refused"))

        drew = self.drew
        moves = dojoir.search.draw(
            trace.kernel, self.rng, count, self.target, self.weights, told=None if drew is None else told
        )  # fmt: skip
        if drew is not None and found:
            drew(trace, found)
        return moves

    def count(self, moves: int = 1) -> None:
        """Counts moves that a strategy made by itself."""
        self.ledger.moves += moves

    def acted(self, trace: dojoir.Trace) -> dojoir.Trace | None:
        """A trace with a pass made on it, with parameters that are drawn; None where none changes anything. It
        counts as one move, and stands in the trace as the moves that it makes."""
        found = drawn(trace, self.rng, self.target, self.threads)
        self.ledger.moves += found is not None
        return found

    def borrowed(self) -> dojoir.Trace | None:
        """The text with the first moves of a fast trace of a kernel built alike, illegal ones left out; None where
        nothing of it is legal. It counts as one move."""
        if not self.relatives or self.ledger.spent() is not None:
            return None
        other = self.rng.choice(self.relatives)
        if not other.moves:
            return None
        found = replayed(dojoir.Trace(self.kernel), other.moves[: self.rng.randint(1, len(other.moves))])
        self.ledger.moves += bool(found.moves)
        return found if found.moves else None

    def mutated(self, trace: dojoir.Trace) -> dojoir.Trace | None:
        """A trace with one parameter changed somewhere in it, and the rest replayed; None where there is none, or
        the budget is spent. It counts as one move."""
        if self.ledger.spent() is not None:
            return None
        found = mutated(trace, self.rng, self.target)
        self.ledger.moves += found is not None
        return found

    def crossed(self, one: dojoir.Trace, other: dojoir.Trace) -> dojoir.Trace | None:
        """The moves of one trace replayed on another, illegal ones left out; None where that adds nothing. It
        counts as one move."""
        if self.ledger.spent() is not None:
            return None
        found = crossed(one, other)
        self.ledger.moves += found is not None
        return found

    def speed(self, state: dojoir.Trace | runtime.Evaluation | str) -> float:
        """How many times as fast as the start a state is; 0 where it failed, was not timed, or was not tried."""
        if isinstance(state, str):
            return self.speeds.get(state, 0.0)
        return self.speeds.get(state.hash if isinstance(state, runtime.Evaluation) else state.kernel.hash, 0.0)
