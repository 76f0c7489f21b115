"""Whether barriers are enough: proved apart from how they were found, from when everything runs.

All that threads of a block do has a time: child numbers and iterators from the outside in, barriers between the
children. Two accesses that meet, the first before the second, need some barrier at a time between theirs. isl
subtracts the pairs that have one from all pairs; nothing may be left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import islpy as isl

from dojoir.codegen.lower.barriers import Position, Region, regions
from dojoir.codegen.lower.meetings import Meetings, Parts, Place, Touch, second
from dojoir.codegen.lower.threads import Threads
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.sets.kernel_sets import KernelSets, iterators, sets_of
from dojoir.support.frozen import dataclass

_TICKS = 1000
"""How far apart in time children are; a barrier comes a little before the child that it stands before."""


@dataclass(frozen=True)
class Unseparated:
    """Two accesses that meet with no barrier between them: places in the tree, and the buffer."""

    buffer: str
    one: Place
    other: Place


def unseparated(threads: Threads, barriers: Iterable[Position]) -> list[Unseparated]:
    """The pairs of accesses of different threads that no barrier separates: none where `barriers` are enough."""
    placed = list(barriers)
    return [
        found
        for launched in threads.launches
        if launched.threads > 1
        for region in regions(threads, launched)
        for found in _Proof(threads, region, placed).left()
    ]


@dataclass(frozen=True)
class _Proof:
    threads: Threads
    region: Region
    barriers: Sequence[Position]

    @property
    def kernel(self) -> Kernel:
        return self.threads.kernel

    @property
    def sets(self) -> KernelSets:
        return sets_of(self.kernel)

    def left(self) -> list[Unseparated]:
        """The pairs that are left."""
        waits = self.sets.map(*(self._barrier(n, at) for n, at in enumerate(self._inside())))
        found = []
        for one in self.region.touches:
            for other in self.region.touches:
                same = one.access.buffer == other.access.buffer
                if same and (one.writes or other.writes) and not self._is_separated(one, other, waits):
                    found.append(Unseparated(one.access.buffer, one.place, other.place))
        for mine in self.region.parts:
            for its in self.region.parts:
                own = mine.place[:-1] == its.place[:-1] and int(mine.place[-1]) == int(its.place[-1])
                if own and mine.writes != its.writes and not self._are_separated(mine, its, waits):
                    found.append(Unseparated("partial results", mine.place, its.place))
        return found

    def _inside(self) -> list[Position]:
        """The barriers of this code, those of collectives too."""
        root = self.region.root
        own = [at for at in self.barriers if is_inside(at[0], root)]
        if self.region.phase is None:
            phases = [phase.path for phase in self.region.launched.phases]
            own = [at for at in own if not any(is_inside(at[0], path) for path in phases)]
        return [*own, *self.region.given]

    # -- pairs -----------------------------------------------------------------------------------------------
    def _is_separated(self, one: Touch, other: Touch, waits: isl.UnionMap) -> bool:
        left = self.kernel.sites[one.number]
        right = self.kernel.sites[other.number]
        pairs = self.sets.map(self._named(one, other))
        first = self.sets.map(f"a[{iterators(len(left.scopes))}] -> [{self._time(left.path, one.place)}]")
        last = self.sets.map(f"b[{iterators(len(right.scopes))}] -> [{self._time(right.path, other.place)}]")
        return self._all_wait(pairs, first, last, waits)

    def _named(self, one: Touch, other: Touch) -> str:
        """The pairs of instances of one block that meet, in any order of time."""
        text = Meetings(self.sets, self.region.fixed).text(one, other, self.region.fixed, None)
        domain, _, rest = text.partition(" -> ")
        return f"a{domain} -> b{rest} and {self._of_two_phases(one, other)}"

    def _of_two_phases(self, one: Touch, other: Touch) -> str:
        """That two instances are not of one run of warp code, which is a region of its own."""
        phase = self.region.launched.phase_of(self.kernel.sites[one.number].path)
        if self.region.phase is not None or phase is None or not phase.groups:
            return "true"
        if phase != self.region.launched.phase_of(self.kernel.sites[other.number].path):
            return "true"
        loops = [f"i{depth} != j{depth}" for depth in range(self.region.fixed, phase.nest.depth)]
        return f"({' or '.join(loops)})" if loops else "false"

    def _are_separated(self, one: Parts, other: Parts, waits: isl.UnionMap) -> bool:
        path = self._block(one.place)
        around = self._around(path)
        own = iterators(sum(isinstance(node, Scope) for node in around))
        same = [f"i{depth} = j{depth}" for depth in range(self.region.fixed)]
        conditions = [self.sets.constraints(around), second(self.sets.constraints(around)), *same]
        pairs = self.sets.map(f"a[{own}] -> b[{second(own)}] : {' and '.join(conditions)}")
        first = self.sets.map(f"a[{own}] -> [{self._time(path, one.place)}]")
        last = self.sets.map(f"b[{own}] -> [{self._time(path, other.place)}]")
        return self._all_wait(pairs, first, last, waits)

    def _all_wait(self, pairs: isl.UnionMap, first: isl.UnionMap, last: isl.UnionMap, waits: isl.UnionMap) -> bool:
        """Whether each pair of which the first is before the last has a barrier between them."""
        in_order = pairs.intersect(first.lex_lt_union_map(last))
        apart = first.lex_lt_union_map(waits).apply_range(waits.lex_lt_union_map(last))
        return bool(in_order.subtract(apart).is_empty())

    # -- times -----------------------------------------------------------------------------------------------
    def _barrier(self, number: int, at: Position) -> str:
        path, child = at
        around = self._around((*path, 0))
        domain = iterators(sum(isinstance(node, Scope) for node in around))
        before = child - 0.1 if child == int(child) else child
        time = self._time((*path, 0), (*path, before))
        return f"w{number}[{domain}] -> [{time}] : {self.sets.constraints(around)}"

    def _around(self, path: Path) -> list[Scope | Guard]:
        """The scopes and guards around a node."""
        found: list[Scope | Guard] = []
        node: Node | Kernel = self.kernel
        for child in path:
            if isinstance(node, Scope | Guard):
                found.append(node)
            assert not isinstance(node, Statement)
            node = node.body[child] if child < len(node.body) else node
        return found

    def _block(self, place: Place) -> Path:
        return tuple(int(child) for child in place)

    def _time(self, path: Path, place: Place) -> str:
        """When what stands at `place` runs, of a node at `path`."""
        found: list[str] = []
        depth = 0
        node: Node | Kernel = self.kernel
        for number, child in enumerate(place):
            if isinstance(node, Scope):
                found.append(f"i{depth}")
                depth += 1
            found.append(str(round(child * _TICKS)))
            if number < len(place) - 1:
                assert not isinstance(node, Statement)
                node = node.body[path[number]]
        longest = 2 * max(len(site.path) for site in self.kernel.sites) + 2
        return ", ".join([*found, *["0"] * (longest - len(found))])
