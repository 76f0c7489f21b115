"""What an answer about a move follows from, for moves that look at nothing but the node at their place.

A list of moves asks the same of every part of a kernel that the last move left alone. There, the answer is known,
and the move need not be made to find it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Buffer, Condition, Extent, Guard, Kernel, Node, Path, Scope, Size, Statement
from dojoir.ir.places import ancestors, siblings
from dojoir.passes.base.move import Move, scope_at
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.splitting import Split, comes_back, divides
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass, hash_once
from dojoir.support.memo import Memo


@hash_once
@dataclass(frozen=True)
class Surroundings:
    """A node, and all that an answer about it which is `local` (`dataflow.Answer`) follows from besides."""

    header: tuple[tuple[Size, ...], tuple[Condition, ...], str]
    around: tuple[Extent | tuple[Condition, ...], ...]
    node: Node
    buffers: tuple[tuple[Buffer, bool, bool], ...]
    """Those used in the node; whether they are used elsewhere, and whether several operators accumulate there."""


Neighbourhood = tuple[str, int, tuple[Hashable, ...], Surroundings]
"""A local move: its name, the number of its places, its other arguments, and what is around the first place."""


def neighbourhood(kernel: Kernel, move: Move) -> Neighbourhood | None:
    """What the answer about a move follows from, or None where that may be all of the kernel."""
    places = move.places() if Reach.NODE in move.reach_in(kernel) else []
    if not places:
        return None
    try:
        path = kernel.path(places[0])
    except ArgumentError:
        return None
    here = _places.get((kernel, path))
    if here is None:
        found = _surroundings(kernel, path)
        if found is not None:
            known = _known.get(found)
            found = known if known is not None else _known.put(found, found)
        here = _places.put((kernel, path), (found,))
    return (move.name, len(places), tuple(_others(move)), here[0]) if here[0] is not None else None


def kin(kernel: Kernel, move: Move, place: Neighbourhood) -> Neighbourhood | None:
    """The question that a split shares with those by other factors: where the iterator is in no division, it only
    counts with two iterators in place of one, and what is left to ask is which bounds are multiples of the factor.
    None for another move, and where the factor may tell: marks and hints ask for extents of their own.

    This lists a split without making it; when it is made, it is proved.
    """
    if not isinstance(move, Split) or not 1 <= move.factor < 2**31:  # a larger one may make numbers too large
        return None
    path, scope = scope_at(kernel, move.scope)
    if scope.marked or not comes_back((scope,), kernel.depth_of(path)):
        return None
    whole = tuple(divides(kernel, bound, move.factor) for bound in scope.extent.bounds)
    return (place[0], place[1], whole, place[3])


_places: Memo[tuple[Kernel, Path], tuple[Surroundings | None]] = Memo(1024)

_known: Memo[Surroundings, Surroundings] = Memo(4096)
"""One object for all that are equal, so that they are compared once."""


def _surroundings(kernel: Kernel, path: Path) -> Surroundings | None:
    around: list[Extent | tuple[Condition, ...]] = []
    for outer in ancestors(kernel, path):
        if isinstance(outer, Scope) and (outer.marks or outer.hints):
            return None  # its mark or hint is about all that it runs
        around.append(outer.conditions if isinstance(outer, Guard) else outer.extent)
    node = siblings(kernel, path)[path[-1]]
    inside, everywhere = _uses((node,)), _uses(kernel.body)
    mixed = sets_of(kernel).mixed
    return Surroundings(
        (kernel.sizes, kernel.facts, kernel.fp),
        tuple(around),
        node,
        tuple((kernel.buffer(b), everywhere[b] > inside[b], b in mixed) for b in sorted(inside)),
    )


def _others(move: Move) -> list[Hashable]:
    """The arguments that are no places. (Several places of a local move are a nest, below the first.)"""
    places: list[object] = list(move.places())
    return [value for value in move.arguments() if value not in places and not _are(value, places)]


def _are(value: object, places: list[object]) -> bool:
    return isinstance(value, tuple) and bool(value) and all(part in places for part in value)


_counted: Memo[tuple[Node, ...], Counter[str]] = Memo(4096)


def _uses(nodes: tuple[Node, ...]) -> Counter[str]:
    """How many statements use each buffer."""
    found = _counted.get(nodes)
    if found is None:
        found = Counter()
        for node in nodes:
            if isinstance(node, Statement):
                found.update({access.buffer for access in node.accesses})
            else:
                found.update(_uses(node.body))
        _counted.put(nodes, found)
    return found
