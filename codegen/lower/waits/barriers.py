"""The barriers between the threads of a block: derived from the memory that they access. No text says where they
are.

`barriers_of` places barriers so that accesses of different threads that meet have one between them. Before a child
of block code for those ordered by the text, at the end of the body of a loop for those of different iterations.
Inner blocks come first, as what stands inside of a loop may separate what is around it; and a barrier is placed
as late as can be, so that one serves many. In warp code the same is done for the lanes of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from dojoir.codegen.lower.gpu.launches import Launched, ThreadPhase
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.meetings import (
    MET,
    Parts,
    Place,
    ThreadAccess,
    meet,
    meets_in_memory,
    parts_of,
    touches_of,
)
from dojoir.codegen.lower.waits.places_to_wait import Barriers, Position
from dojoir.ir.nodes import Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

T = TypeVar("T", ThreadAccess, Parts)


def barriers_of(threads: Threads) -> Barriers:
    """The barriers of all launches of a kernel, those of blocks and those of warps."""
    found: dict[Position, tuple[str, ...]] = {}
    for launched in threads.launches:
        if launched.threads > 1:
            for region in regions(threads, launched):
                found.update(region.derived())
    return found


def regions(threads: Threads, launched: Launched) -> Iterator[Region]:
    """The block code of a launch, and the warp code of its phases."""
    touches = touches_of(threads, launched)
    fixed = threads.kernel.depth_of((*launched.body, 0))
    yield Region(threads, launched, None, launched.body, fixed, touches, tuple(parts_of(threads, launched)))
    for phase in launched.phases:
        if phase.is_warp_code:
            inside = tuple(t for t in touches if is_inside(t.place, phase.inner))
            yield Region(threads, launched, phase, phase.inner, phase.nest.depths.stop, inside, ())


@dataclass(frozen=True)
class Region:
    """Code that the threads of a block run alike, or the lanes of a group (in a `phase`): the children of the node
    at `root`, in which `touches` are made. All iterators up to `fixed` are the same for all of it."""

    threads: Threads
    launched: Launched
    phase: ThreadPhase | None
    root: Path
    fixed: int
    touches: tuple[ThreadAccess, ...]
    parts: tuple[Parts, ...]

    @property
    def given(self) -> Iterator[Position]:
        """The barriers that are there already: those of collectives."""
        for collective in dict.fromkeys(self.threads.collectives.values()):
            path = collective.nest.path
            inside = self.launched.holds(path) and self.phase is None
            if inside and meets_in_memory(collective, self.threads.warp):
                yield path[:-1], path[-1] + MET

    def derived(self) -> dict[Position, tuple[str, ...]]:
        """Enough barriers."""
        found: dict[Position, tuple[str, ...]] = {}
        if self.touches or self.parts:
            self._visit(self.root, found)
        return found

    def _is_leaf(self, path: Path) -> bool:
        """Whether a node is one step of the threads: a statement, or a phase."""
        if isinstance(self.threads.kernel.at(path), Statement):
            return True
        if self.phase is not None:
            return path in self.phase.used or any(nest.path == path for nest in self.phase.groups)
        return any(phase.path == path for phase in self.launched.phases)

    def _visit(self, path: Path, found: dict[Position, tuple[str, ...]]) -> None:
        children = self.launched.children(self.threads.kernel, path)
        for i in children:
            if not self._is_leaf((*path, i)):
                self._visit((*path, i), found)
        for b in children:
            about = self._open(path, (*path, b), None, found)
            if about:
                found[path, b] = about
        node = self.threads.kernel.at(path) if path else None
        depth = self.threads.kernel.depth_of(path)
        if isinstance(node, Scope) and depth >= self.fixed and (about := self._open(path, None, depth, found)):
            found[path, len(children)] = about

    def _open(
        self, path: Path, last: Path | None, carried: int | None, found: Mapping[Position, object]
    ) -> tuple[str, ...]:
        """The buffers with conflicting accesses that no barrier separates: from earlier children of the node at
        `path` to its child at `last`, or from one iteration of the scope there to a later one."""
        barriers = (*found, *self.given)
        every = any(at == path for at, _ in barriers)  # each iteration passes it: later ones are apart
        names: dict[str, None] = {}
        for one, other in self.pairs(path, last):
            name = one.access.buffer if isinstance(one, ThreadAccess) else "partial results"
            if name in names or separated(one.place, other.place, path if last is None else None, barriers):
                continue
            if self.meets(one, other, path, carried, carried is not None and every):
                names[name] = None
        return tuple(names)

    def pairs(
        self, path: Path, last: Path | None
    ) -> Iterator[tuple[ThreadAccess, ThreadAccess] | tuple[Parts, Parts]]:
        """Touches of the node at `path` in text order, the second in its child at `last`; or all, the second in a
        later iteration."""
        yield from _ordered(self.touches, path, last)
        yield from _ordered(self.parts, path, last)

    def meets(
        self,
        one: ThreadAccess | Parts,
        other: ThreadAccess | Parts,
        path: Path,
        carried: int | None,
        next_only: bool,
    ) -> bool:
        """Whether two touches of the node at `path` meet; of different iterations, only of one and the next if
        `next_only`."""
        if isinstance(one, Parts) or isinstance(other, Parts):
            mine, its = one.place, other.place
            return (
                carried is not None and not one.writes and mine[:-1] == its[:-1] and int(mine[-1]) == int(its[-1])
            )
        kernel = self.threads.kernel
        return meet(sets_of(kernel), one, other, kernel.depth_of((*path, 0)), carried, next_only)


def _ordered(touches: Sequence[T], path: Path, last: Path | None) -> Iterator[tuple[T, T]]:
    inside = [touch for touch in touches if _within(touch.place, path)]
    for one in inside:
        for other in inside:
            if last is None or (_child(other, path) == last[-1] and _child(one, path) < last[-1]):
                yield one, other


def _within(place: Place, path: Path) -> bool:
    return len(place) > len(path) and is_inside(place, path)


def _child(touch: ThreadAccess | Parts, path: Path) -> int:
    """The number of the child of the node at `path` in which something is touched."""
    return int(touch.place[len(path)])


def separated(
    one: Place, other: Place, loop: Path | None, barriers: tuple[Position, ...] | Mapping[Position, object]
) -> bool:
    """Whether some barrier stands between what is done at one place and then at another: in one iteration of all
    that is around both, or in a later one of the scope at `loop`. A barrier behind the first, in a block around it,
    is passed before anything around that block goes on; so is one before the second."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    for path, at in barriers:
        length = len(path)
        behind = _within(one, path) and one[length] < at
        before = _within(other, path) and at <= other[length]
        if loop is not None:
            if length >= len(loop) and is_inside(path, loop) and (behind or before):
                return True
        elif (length > common and (behind or before)) or (length == common and behind and before):
            return True
    return False
