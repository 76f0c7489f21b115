"""Whether barriers are enough: proved apart from how they were found, from the text of the kernel (`acts`).

Two accesses of different threads of a block to one element, one of them writing, the first before the second in
time, need some barrier at a time between theirs. isl subtracts the pairs that have one from all pairs. Nothing may
be left. Lanes of one run of warp code may be separated by a barrier of theirs; all else by one of the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field

import islpy as isl

from dojoir.codegen.lower.acts import TICKS, WAITS, Act, Launch, Reading, depth_inside, launches_of
from dojoir.codegen.lower.places_to_wait import Barriers, Position, places_to_wait
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass

STEP_LIMIT = 3_000_000
"""How many isl operations the question whether a pair is separated may take; past them, it is not."""

BEFORE = TICKS // 10
"""How long before a child the barrier is that stands before it."""


UNPROVED = ("anything, as fewer are not proved to be enough",)


@dataclass(frozen=True)
class Unseparated:
    """Two accesses that meet with no barrier between them: places in the tree, and the buffer."""

    buffer: str
    one: Path
    other: Path


def unseparated(kernel: Kernel, warp: int, barriers: Iterable[Position]) -> list[Unseparated]:
    """The pairs of accesses of different threads that no barrier separates, on a machine whose warps have `warp`
    threads: none where `barriers` are enough."""
    reading = Reading(kernel, warp)
    placed = tuple(barriers)
    launches = (launch for launch in launches_of(kernel) if reading.has_threads(launch))
    return [pair for launch in launches for pair in _Proof(reading, launch, placed).left()]


def proved(kernel: Kernel, warp: int, barriers: Barriers) -> Barriers:
    """`barriers` where they are enough. Where the proof finds a pair that none separates, or does not come to an
    end, a barrier wherever one can stand: slower, and right whatever the derivation took the kernel for."""
    if not unseparated(kernel, warp, barriers):
        return barriers
    reading = Reading(kernel, warp)
    launches = (launch for launch in launches_of(kernel) if reading.has_threads(launch))
    return dict.fromkeys((at for launch in launches for at in places_to_wait(reading, launch)), UNPROVED)


@dataclass(frozen=True)
class _Times:
    """When an access runs: the name of its instances, their iterators, and the time as formulas of these."""

    name: str
    domain: str
    when: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.name}[{self.domain}] -> [{', '.join(self.when)}]"


@dataclass(frozen=True)
class _Proof:
    reading: Reading
    launch: Launch
    barriers: tuple[Position, ...]
    waits: dict[Path | None, isl.UnionMap] = field(default_factory=dict)
    orders: dict[tuple[_Times | Path | None, _Times | Path | None], isl.UnionMap] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:
        return self.reading.kernel

    @property
    def sets(self) -> KernelSets:
        return sets_of(self.kernel)

    def left(self) -> Iterator[Unseparated]:
        """The pairs that are left."""
        acts = tuple(self.reading.acts(self.launch))
        for one in acts:
            for other in acts:
                same = one.access.buffer == other.access.buffer
                if same and (one.writes or other.writes) and not self._are_separated(one, other):
                    sites = self.kernel.sites
                    yield Unseparated(one.access.buffer, sites[one.number].path, sites[other.number].path)
        for path in self._through_memory():
            if not self._are_read_before_written_again(path):
                yield Unseparated("partial results", path, path)

    # -- pairs -----------------------------------------------------------------------------------------------
    def _are_separated(self, one: Act, other: Act) -> bool:
        sites = self.kernel.sites
        paths = sites[one.number].path, sites[other.number].path
        shared = [self.reading.warp_code(path) for path in paths]
        within = shared[0] if shared[0] is not None and shared[0] == shared[1] else None
        try:
            with limited_in_part(STEP_LIMIT):
                if within is None:
                    return self._wait(one, other, "true", None)
                run = range(self.launch.fixed, depth_inside(self.kernel, within))
                same = [f"i{depth} = j{depth}" for depth in run]
                others = [f"i{depth} != j{depth}" for depth in run]
                return self._wait(one, other, " and ".join(same) or "true", within) and self._wait(
                    one, other, f"({' or '.join(others) or 'false'})", None
                )
        except (StepLimitReached, isl.Error):
            return False

    def _wait(self, one: Act, other: Act, condition: str, within: Path | None) -> bool:
        """Whether a barrier of the block, or of the warp code inside the scope at `within`, is between the two
        wherever they meet and the condition holds."""
        left, right = (self.kernel.sites[act.number] for act in (one, other))
        mine, its = iterators(len(left.scopes)), _second(iterators(len(right.scopes)))
        conditions = [
            self.sets.constraints(left.ancestors),
            _second(self.sets.constraints(right.ancestors)),
            *(f"i{depth} = j{depth}" for depth in range(self.launch.fixed)),
            *self._one_element(one, other),
            condition,
        ]
        if one.by is not None and other.by is not None:
            conditions.append(f"{one.by} != {_second(other.by)}")
        pairs = self.sets.map(f"a[{mine}] -> b[{its}] : {' and '.join(conditions)}")
        first, last = _Times("a", mine, one.when), _Times("b", iterators(len(right.scopes)), other.when)
        return self._all_wait(pairs, first, last, within)

    def _one_element(self, one: Act, other: Act) -> Iterator[str]:
        """That two accesses are to one element: an index from data may be any."""
        dims = self.kernel.buffer(one.access.buffer).dims
        for mine, its, dim in zip(one.access.indices, other.access.indices, dims, strict=True):
            if not dim.collapsed and isinstance(mine, Affine) and isinstance(its, Affine):
                yield f"{isl_affine(mine)} = {_second(isl_affine(its))}"

    def _all_wait(self, pairs: isl.UnionMap, first: _Times, last: _Times, within: Path | None) -> bool:
        """Whether each pair of which the first is before the last has a barrier between them."""
        in_order = pairs.intersect(self._before(first, last))
        if in_order.is_empty():
            return True
        return bool(in_order.is_subset(self._before(first, within).apply_range(self._before(within, last))))

    def _before(self, first: _Times | Path | None, last: _Times | Path | None) -> isl.UnionMap:
        """The pairs of which the first is before the last in time: accesses, or waits of the block or of the warp
        code inside the scope at a path."""
        known = self.orders.get((first, last))
        if known is None:
            one, other = (
                self.sets.map(one.text) if isinstance(one, _Times) else self._waiting(one) for one in (first, last)
            )
            known = self.orders[first, last] = one.lex_lt_union_map(other)
        return known

    # -- what threads put together ---------------------------------------------------------------------------
    def _through_memory(self) -> list[Path]:
        """The nests of threads that leave partial results in shared memory."""
        together = (self.reading.together(site) for site in self.kernel.sites if self.launch.holds(site.path))
        return [*dict.fromkeys(found.path for found in together if found is not None and found.through_memory)]

    def _are_read_before_written_again(self, path: Path) -> bool:
        """Whether a barrier is between the partial results of a nest as they are read, and as they are written the
        next time."""
        around = ancestors(self.kernel, path)
        own = iterators(depth_inside(self.kernel, path[:-1]))
        same = [f"i{depth} = j{depth}" for depth in range(self.launch.fixed)]
        held = self.sets.constraints(around)
        pairs = self.sets.map(f"a[{own}] -> b[{_second(own)}] : {' and '.join([held, _second(held), *same])}")
        read = _Times("a", own, self.reading.time(path, WAITS + 1))
        written = _Times("b", own, self.reading.time(path, WAITS - 1))
        try:
            with limited_in_part(STEP_LIMIT):
                return self._all_wait(pairs, read, written, None)
        except (StepLimitReached, isl.Error):
            return False

    # -- barriers --------------------------------------------------------------------------------------------
    def _waiting(self, within: Path | None) -> isl.UnionMap:
        """When the block waits, or the lanes of the warp code inside the scope at `within`."""
        if within not in self.waits:
            self.waits[within] = self.sets.map(*self._barriers(within))
        return self.waits[within]

    def _barriers(self, within: Path | None) -> Iterator[str]:
        for number, (path, child) in enumerate(self.barriers):
            here = (*path, int(child))
            of_threads = any(digit for digit in self.reading.digits(here))
            mine = is_inside(here, within) if within is not None else self.launch.holds(here) and not of_threads
            if mine:
                yield self._barrier(f"w{number}", path, self.reading.time(here, -BEFORE))
        if within is None:
            for number, path in enumerate(self._through_memory()):
                yield self._barrier(f"m{number}", path[:-1], self.reading.time(path, WAITS))

    def _barrier(self, name: str, path: Path, when: tuple[str, ...]) -> str:
        around = ancestors(self.kernel, (*path, 0))
        own = iterators(depth_inside(self.kernel, path))
        return f"{name}[{own}] -> [{', '.join(when)}] : {self.sets.constraints(around)}"


def _second(text: str) -> str:
    return re.sub(r"\bi(\d+)\b", r"j\1", text)
