"""Drawing legal moves at random from everything that there is to try, without listing it.

A list asks the checker about every candidate; a search wants a few. Here moves are drawn from the whole `space` of
every family and place, and only what was drawn is asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from dojoir.backends.host import machine_for
from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError, did_you_mean
from dojoir.ir.nodes import Kernel, Path, given_kernel
from dojoir.passes.base.move import Move, anchors
from dojoir.passes.engine.catalogue import MOVES
from dojoir.passes.engine.engine import is_legal
from dojoir.support.gc_pause import uncollected
from dojoir.support.public import public

SOON = 20_000
"""The steps within which a move must be shown to be legal: one that takes longer is passed over, for another
one."""

NAMES = {kind.name: kind for kind in MOVES}


class _Deck:
    """The moves that are left to draw at one kernel: families, of each its places, of each place its moves, made
    when they are first drawn from and shuffled then."""

    def __init__(self, kernel: Kernel, machine: Machine, rng: random.Random, listed: bool) -> None:
        self.kernel, self.machine, self.rng, self.listed = kernel, machine, rng, listed
        self.places: dict[type[Move], list[Path | str]] = {}
        self.moves: dict[tuple[type[Move], Path | str], list[Move]] = {}
        self.loose: dict[type[Move], list[Move]] = {}

    def draw(self, kind: type[Move]) -> Move | None:
        """A move of a family that was not drawn before; None where there is none left."""
        if self.listed:
            return self._listed(kind)
        if kind not in self.places:
            self.places[kind] = [*anchors(self.kernel)]
            self.rng.shuffle(self.places[kind])
        places = self.places[kind]
        while places:
            number = self.rng.randrange(len(places))
            place = places[number]
            key = (kind, place)
            if key not in self.moves:
                self.moves[key] = [*kind.space(self.kernel, place, self.machine)]
                self.rng.shuffle(self.moves[key])
            if self.moves[key]:
                return self.moves[key].pop()
            places[number] = places[-1]
            places.pop()
        return self._loose(kind)

    def _listed(self, kind: type[Move]) -> Move | None:
        """One of the candidates, first its place, then itself."""
        if kind not in self.places:
            found: dict[Path | str, list[Move]] = {}
            for move in kind.candidates(self.kernel):
                found.setdefault(move.anchor(self.kernel) or "", []).append(move)
            self.places[kind] = [*found]
            self.moves.update(((kind, place), moves) for place, moves in found.items())
        places = self.places[kind]
        if not places:
            return None
        number = self.rng.randrange(len(places))
        moves = self.moves[kind, places[number]]
        move = moves.pop(self.rng.randrange(len(moves)))
        if not moves:
            places.pop(number)
        return move

    def _loose(self, kind: type[Move]) -> Move | None:
        """One of those that name neither a place nor a buffer."""
        if kind not in self.loose:
            self.loose[kind] = [m for m in kind.candidates(self.kernel) if m.anchor(self.kernel) is None]
            self.rng.shuffle(self.loose[kind])
        return self.loose[kind].pop() if self.loose[kind] else None


@public
def draw(
    kernel: Kernel,
    rng: random.Random,
    count: int,
    target: str | None = None,
    weights: Mapping[str, float] | None = None,
    *,
    told: Callable[..., object] | None = None,
    listed: bool = False,
) -> list[Move]:
    """Up to `count` distinct legal moves of a kernel, drawn at random; fewer only where there are no more that are
    soon shown to be legal.

    They are drawn from the whole `Move.space` of every family and place, for the machine of `target` (by default
    that of `llvm`). First comes the family, by `weights` (of those that it names; each one alike without), then the
    place, then the values. A family is drawn again where it has nothing left, or what it gave is not legal. Moves
    are checked in the order in which they are drawn, and none that is not needed. With the same `rng` the answer
    is the same. `told` is called with each move that was drawn and whether it was shown to be legal. With `listed`
    they are drawn from `candidates` alone, whose short choice of numbers is sooner answered.

    Raises ArgumentError for a weight of a name that is no move, or that is below zero or no number, KernelError for
    an ill-formed kernel.
    """
    given_kernel(kernel)
    if count < 0:
        raise ArgumentError(f"count must be a number from 0, not {count}", "bad-arguments")
    machine = machine_for(target or "llvm")
    shares = _shares(weights, None if target is None else target.partition("@")[0])
    found: dict[Move, None] = {}
    deck = _Deck(kernel, machine, rng, listed)
    with uncollected():
        while shares and len(found) < count:
            (kind,) = rng.choices([*shares], [*shares.values()])
            move = deck.draw(kind)
            if move is None:
                del shares[kind]
            elif move not in found:
                legal = is_legal(kernel, move, SOON)
                if legal:
                    found[move] = None
                if told is not None:
                    told(move, legal)
    return [*found]


def _shares(weights: Mapping[str, float] | None, target: str | None) -> dict[type[Move], float]:
    """How often each family comes, of those that make sense for a target."""
    if weights is not None:
        for name, weight in weights.items():
            if name not in NAMES:
                message = f"weights: there is no move '{name}'{did_you_mean(name, NAMES)}"
                raise ArgumentError(message, "unknown-move")
            if not 0 <= weight < float("inf"):
                message = f"weights: that of {name} must be a number from 0, not {weight}"
                raise ArgumentError(message, "bad-arguments")
    return {
        kind: 1.0 if weights is None else float(weights[name])
        for name, kind in NAMES.items()
        if (weights is None or weights.get(name, 0) > 0)
        and (target is None or kind.targets is None or target in kind.targets)
    }
