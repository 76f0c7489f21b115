"""Actions of a state: to stop, to take the last one back, and moves in one of four ways.

`legal` proves every candidate, `drawn` as many as fit, `candidates` none until it is made; `choices` are structures
and passes by name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

import dojoir
from dojoir.game.chances import chance
from dojoir.game.choices import GameChoice, absent, choices
from dojoir.game.encoders import MOVE_SIZE, Rows, move_row, pass_row
from dojoir.ir.text import canonical_text
from dojoir.search import WEIGHTS

WAYS: Mapping[str, int] = {"legal": 512, "drawn": 6, "candidates": 512, "choices": 192}
"""The ways of actions, each with the capacity that an environment has by default."""

SOON = 20_000
"""Steps of the checker within which a candidate must be shown to be legal to be made, as for
`dojoir.search.draw`."""

_KEPT = 2000
"""Of how many states the actions are kept."""

NOT_COUNTED = -1
"""`left_out` of a draw: how many others there are is not found out."""

Action = dojoir.Move | GameChoice
Found = TypeVar("Found")


@dataclass(frozen=True)
class Actions:
    """The actions of a state. Number 0 stops; with `undo`, number 1 takes the last action back, where there is one;
    then come the `moves` in their stable order. Where they are more than fit, they are a sample by the seed, and
    `left_out` says how many are not in it (NOT_COUNTED for a draw). `absent` says of the numbers of those that
    cannot be made why not; unless they are `proved`, of the others nobody knows."""

    moves: tuple[Action, ...]
    left_out: int
    first: int
    can_undo: bool
    proved: bool = True
    absent: Mapping[int, str] = field(default_factory=dict)

    def mask(self, capacity: int, refused: Collection[int] = ()) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        """1 for each action that there is, but for those that were `refused` in this state."""
        mask = np.zeros(capacity, np.int8)
        mask[0] = 1
        if self.first == 2 and self.can_undo:
            mask[1] = 1
        mask[self.first : self.first + len(self.moves)] = 1
        mask[[*refused]] = 0
        return mask

    def chances(self, mask: np.ndarray[tuple[int], np.dtype[np.int8]]) -> np.ndarray[tuple[int], Any]:
        """How likely each action of a mask is to be made: 1 for what was asked, else by `chance`."""
        found = mask.astype(np.float32)
        if not self.proved:
            for number, move in enumerate(self.moves, self.first):
                found[number] *= chance(_family(move))
        return found

    def move(self, action: int) -> Action | None:
        """The move or choice of an action; None for one that is neither here."""
        number = action - self.first
        return self.moves[number] if 0 <= number < len(self.moves) else None


class Lists(Protocol):
    """A way of actions. `proved` says that what it offers was asked."""

    proved: bool

    def absent(self, trace: dojoir.Trace, moves: tuple[Action, ...]) -> Mapping[int, str]:
        """Why some of the actions that it found cannot be made, by their numbers."""

    def found(self, kernel: dojoir.Kernel, room: int, seed: int) -> tuple[tuple[Action, ...], int]:
        """At most `room` actions of a state, in stable order, and how many others there are."""


class _Keeps(Generic[Found]):
    """Keeps what it found, but not in a copy by pickle."""

    proved = True
    _kept: OrderedDict[Any, Found]

    def absent(self, trace: dojoir.Trace, moves: tuple[Action, ...]) -> Mapping[int, str]:
        """None: what there is can be made, or is asked when it is made."""
        return {}

    def _keep(self, key: Any, found: Found) -> Found:
        self._kept[key] = found
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": OrderedDict()}


class Legal(_Keeps[tuple[dojoir.Move, ...]]):
    """Every legal move, in stable order: each list is proved once, which takes most of a step."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._kept = OrderedDict()

    def found(self, kernel: dojoir.Kernel, room: int, seed: int) -> tuple[tuple[Action, ...], int]:
        return sample(self.moves(kernel), kernel, room, seed)

    def moves(self, kernel: dojoir.Kernel) -> tuple[dojoir.Move, ...]:
        """All legal moves, in stable order."""
        text = canonical_text(kernel)
        found = self._kept.get(text)
        return found if found is not None else self._keep(text, tuple(self._listed(kernel)))

    def _listed(self, kernel: dojoir.Kernel) -> list[dojoir.Move]:
        return dojoir.moves(kernel, self.target)


class Candidates(Legal):
    """Every move that the shape of the tree allows, legal or not, in stable order: none is proved before it is
    made."""

    proved = False

    def _listed(self, kernel: dojoir.Kernel) -> list[dojoir.Move]:
        return dojoir.candidates(kernel, self.target)


class Drawn(_Keeps[tuple[dojoir.Move, ...]]):
    """As many legal moves as fit, drawn from the candidates by the seed and the state, families as often as a
    search draws them (`dojoir.search.WEIGHTS`): no more are proved than that takes."""

    def __init__(self, target: str, threads: int) -> None:
        self.target = target
        self.weights = {name: one for name, one in WEIGHTS.items() if threads > 1 or name != "parallelize"}
        self._kept = OrderedDict()

    def found(self, kernel: dojoir.Kernel, room: int, seed: int) -> tuple[tuple[Action, ...], int]:
        key = (kernel.hash, room, seed)
        moves = self._kept.get(key)
        if moves is None:
            rng = Random(f"{seed} {kernel.hash}")
            drawn = dojoir.search.draw(kernel, rng, room, self.target, self.weights, listed=True)
            moves = self._keep(key, tuple(sorted(drawn, key=str)))
        return moves, NOT_COUNTED if len(moves) == room else 0


class Choices(_Keeps[Mapping[int, str]]):
    """Structures and passes by name: the same in every state, each under the same number."""

    proved = False

    def __init__(self, target: str, threads: int) -> None:
        self.all, self.target = choices(target, threads), target
        self._kept = OrderedDict()

    def found(self, kernel: dojoir.Kernel, room: int, seed: int) -> tuple[tuple[Action, ...], int]:
        """The first that fit."""
        return self.all[:room], max(0, len(self.all) - room)

    def absent(self, trace: dojoir.Trace, moves: tuple[Action, ...]) -> Mapping[int, str]:
        key = (trace.start.hash, trace.kernel.hash, len(moves))
        known = self._kept.get(key)
        return known if known is not None else self._keep(key, absent(trace, self.all[: len(moves)], self.target))


def listing(way: str, target: str, threads: int) -> Lists:
    """The actions of a way. Raises ArgumentError for one that there is not."""
    match way:
        case "legal":
            return Legal(target)
        case "drawn":
            return Drawn(target, threads)
        case "candidates":
            return Candidates(target)
        case "choices":
            return Choices(target, threads)
    raise dojoir.ArgumentError(f"actions is one of {', '.join(WAYS)}, not {way!r}", "bad-arguments")


def actions_of(
    lists: Lists, trace: dojoir.Trace, capacity: int, seed: int, *, undo: bool, can_undo: bool
) -> Actions:
    """The actions of a state, at most `capacity`."""
    first = 2 if undo else 1
    moves, left_out = lists.found(trace.kernel, capacity - first, seed)
    missing = {first + number: why for number, why in lists.absent(trace, moves).items()}
    return Actions(moves, left_out, first, can_undo, lists.proved, missing)


def sample(
    found: tuple[dojoir.Move, ...], kernel: dojoir.Kernel, room: int, seed: int
) -> tuple[tuple[Action, ...], int]:
    """As many of some moves as fit, by the seed and the state, in their order; and how many do not fit."""
    if len(found) <= room:
        return found, 0
    chosen = sorted(Random(f"{seed} {kernel.hash}").sample(range(len(found)), room))
    return tuple(found[i] for i in chosen), len(found) - room


def rows(kernel: dojoir.Kernel, actions: Actions, capacity: int) -> Rows:
    """One row of numbers for each action: those of moves as `move_row`, those of choices as `pass_row`. The rows of
    stop and undo have a 1 in their own place, and what is no action is zeros."""
    made = np.zeros((capacity, MOVE_SIZE), np.float32)
    made[0, 0] = 1
    if actions.first == 2 and actions.can_undo:
        made[1, 1] = 1
    for i, move in enumerate(actions.moves):
        row = pass_row(move.text, move.name) if isinstance(move, GameChoice) else move_row(kernel, move)
        made[actions.first + i] = row
    return made


def _family(move: dojoir.Move | GameChoice) -> str:
    """What the chance of an action is known by: the word of its text, where choices have no family of their own."""
    word = str(move).partition("(")[0]
    return word if move.name == "simple" or word == "structure" else move.name
