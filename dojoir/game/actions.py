"""What may be done in a state: to stop, to take the last move back, a legal move."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from random import Random

import numpy as np

import dojoir
from dojoir.game.encoders import MOVE_SIZE, Rows, move_row

_KEPT = 2000
"""Of how many states the legal moves are kept."""


@dataclass(frozen=True)
class Actions:
    """The actions of a state. Number 0 stops; with `undo`, number 1 takes the last move back, where there is one;
    then come the legal moves in their stable order. Where they are more than fit, they are a choice by the seed,
    and `left_out` says how many are not in it."""

    moves: tuple[dojoir.Move, ...]
    left_out: int
    first: int
    can_undo: bool

    def mask(self, capacity: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        """1 for each action that there is."""
        mask = np.zeros(capacity, np.int8)
        mask[0] = 1
        if self.first == 2 and self.can_undo:
            mask[1] = 1
        mask[self.first : self.first + len(self.moves)] = 1
        return mask

    def move(self, action: int) -> dojoir.Move | None:
        """The move of an action; None for one that is no move here."""
        number = action - self.first
        return self.moves[number] if 0 <= number < len(self.moves) else None


class Legal:
    """The legal moves of kernels for a target, each list proved once."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._kept: OrderedDict[str, tuple[dojoir.Move, ...]] = OrderedDict()

    def moves(self, kernel: dojoir.Kernel) -> tuple[dojoir.Move, ...]:
        """All legal moves, in stable order."""
        text = dojoir.canonical_text(kernel)
        found = self._kept.get(text)
        if found is None:
            found = tuple(dojoir.moves(kernel, self.target))
            self._kept[text] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def actions(self, kernel: dojoir.Kernel, capacity: int, seed: int, undo: bool, can_undo: bool) -> Actions:
        """The actions of a state, at most `capacity`."""
        first = 2 if undo else 1
        found = self.moves(kernel)
        room = capacity - first
        if len(found) <= room:
            return Actions(found, 0, first, can_undo)
        chosen = sorted(Random(f"{seed} {kernel.hash}").sample(range(len(found)), room))
        return Actions(tuple(found[i] for i in chosen), len(found) - room, first, can_undo)


def rows(kernel: dojoir.Kernel, actions: Actions, capacity: int) -> Rows:
    """One row of numbers for each action: those of moves as `move_row`; the rows of stop and undo have a 1 in their
    own place, and what is no action is zeros."""
    made = np.zeros((capacity, MOVE_SIZE), np.float32)
    made[0, 0] = 1
    if actions.first == 2 and actions.can_undo:
        made[1, 1] = 1
    for i, move in enumerate(actions.moves):
        made[actions.first + i] = move_row(kernel, move)
    return made
