"""Where two kernels differ: the smallest part of the tree outside of which both are the same text."""

from __future__ import annotations

from dataclasses import dataclass

from dojoir.affine import Affine
from dojoir.instances import InstanceMap, identity
from dojoir.ir import Guard, Kernel, Node, Path, Scope


@dataclass(frozen=True)
class Change:
    """The children `old` of a node of the kernel before became `new`. Around them, outermost first, are `around`;
    `were` and `are` number their statements, one after another."""

    around: tuple[Scope | Guard, ...]
    old: tuple[Node, ...]
    new: tuple[Node, ...]
    were: range
    are: range

    @property
    def depth(self) -> int:
        """How many scopes are around."""
        return sum(isinstance(node, Scope) for node in self.around)


def change_of(before: Kernel, after: Kernel, instances: InstanceMap) -> Change | None:
    """The change from one kernel to the other, or None where statements outside of it do not stand for themselves,
    or those inside for others than such in the same iteration around it.

    If there is one, each statement of the rest is in order to everything, and to itself, as it was.
    """
    prefix, start, old_end, new_end = _difference(before.body, after.body)
    around: list[Scope | Guard] = []
    old, new = before.body, after.body
    for child in prefix:
        node, other = old[child], new[child]
        assert isinstance(node, Scope | Guard)
        assert isinstance(other, Scope | Guard)
        around.append(node)
        old, new = node.body, other.body

    were, are = _span(before, prefix, start, old_end), _span(after, prefix, start, new_end)
    found = Change(tuple(around), old[start:old_end], new[start:new_end], were, are)
    same, origins = identity(before).origins, instances.origins
    outer = tuple(map(Affine.iterator, range(found.depth)))
    stays = (
        origins[: are.start] == same[: were.start]
        and origins[are.stop :] == same[were.stop :]
        and all(
            origin is None or (origin.site in were and origin.iterators[: found.depth] == outer)
            for origin in origins[are.start : are.stop]
        )
    )
    return found if stays else None


def _span(kernel: Kernel, prefix: Path, start: int, end: int) -> range:
    """The numbers of the statements in some children of a node."""
    first = sum(site.path < (*prefix, start) for site in kernel.sites)
    return range(first, sum(site.path < (*prefix, end) for site in kernel.sites))


def _difference(old: tuple[Node, ...], new: tuple[Node, ...]) -> tuple[Path, int, int, int]:
    """Where two trees differ: the path of a node that both have, the number of its first child that differs, and
    where the differing children end in either."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    if old_end - start == 1 and new_end - start == 1:
        match old[start], new[start]:
            case Scope() as a, Scope() as b if (a.extent, a.marks, a.hints) == (b.extent, b.marks, b.hints):
                prefix, *rest = _difference(a.body, b.body)
                return (start, *prefix), rest[0], rest[1], rest[2]
            case Guard() as a, Guard() as b if a.conditions == b.conditions:
                prefix, *rest = _difference(a.body, b.body)
                return (start, *prefix), rest[0], rest[1], rest[2]
    return (), start, old_end, new_end
