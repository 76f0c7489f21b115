"""The cache key for moves that depend on nothing but the node at their place.

Every list of moves asks one question of each part of a kernel that the last move left alone. There, the answer is
known, and the move need not be made to find it.
"""

from __future__ import annotations

from collections.abc import Hashable

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.ir.places import ancestors
from dojoir.passes.base.move import Move
from dojoir.passes.base.reach import Reach
from dojoir.proof.node_in_context import NodeInContext, node_in_context
from dojoir.support.memo import Memo

NodeKey = tuple[str, int, tuple[Hashable, ...], NodeInContext]
"""The cache key of a local move: its name, the number of its places, its other arguments, and the node at the first
place in its context."""


def node_key(kernel: Kernel, move: Move) -> NodeKey | None:
    """The key of the answer about a move that depends on its node alone; None where it may depend on more."""
    places = move.places() if Reach.NODE in move.reach_in(kernel) else []
    if not places:
        return None
    try:
        path = kernel.path(places[0])
    except ArgumentError:
        return None
    here = _places.get((kernel, path))
    if here is None:
        here = _places.put((kernel, path), (_surroundings(kernel, path),))
    return (move.name, len(places), tuple(_others(move)), here[0]) if here[0] is not None else None


_places: Memo[tuple[Kernel, Path], tuple[NodeInContext | None]] = Memo(1024)


def _surroundings(kernel: Kernel, path: Path) -> NodeInContext | None:
    if any(isinstance(outer, Scope) and (outer.marks or outer.hints) for outer in ancestors(kernel, path)):
        return None  # its mark or hint is about all that it runs
    return node_in_context(kernel, path)


def _others(move: Move) -> list[Hashable]:
    """The arguments that are no places. (Several places of a local move are a nest, below the first.)"""
    places: list[object] = list(move.places())
    return [value for value in move.arguments() if value not in places and not _are(value, places)]


def _are(value: object, places: list[object]) -> bool:
    return isinstance(value, tuple) and bool(value) and all(part in places for part in value)
