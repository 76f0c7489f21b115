"""Whether barriers are enough: proved apart from how they were found, from the text of the kernel (`acts`).

Two accesses of different threads of a block to one element, one of them writing, the first before the second in
time, need some barrier at a time between theirs. isl subtracts the pairs that have one from all pairs. Nothing may
be left. Lanes of one run of warp code may be separated by a barrier of theirs; all else by one of the block.

Where the first iterators in which two accesses differ are those of a scope whose iterations are threads or blocks,
no barrier can stand between them, and none need: such iterations are independent, which the marks of the text
promise and the checker proves (`dojoir.proof.core.independence`). All that they may do to one element is to
accumulate into it, by one operator. That this is atomic, or put together first, is proved here as well (`shared`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field

import islpy as isl

from dojoir.codegen.lower.waits.acts import (
    GRID,
    THREAD,
    TICKS,
    WAITS,
    Act,
    LaunchedPart,
    Reading,
    depth_inside,
    launches_of,
    marked,
)
from dojoir.codegen.lower.waits.places_to_wait import Barriers, Position, places_to_wait
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import MAY_ASSIGN, Access, Guard, Kernel, Path, Scope, Site
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.ir.where import place
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
    return [pair for launch in launches for pair in BarrierProof(reading, launch, placed).left()]


def shared(kernel: Kernel, warp: int, atomic: Collection[Path]) -> list[Unseparated]:
    """The pairs of accumulations by different threads into one element of which one is not `atomic`, given by the
    places of the statements."""
    reading = Reading(kernel, warp)
    return [pair for launch in launches_of(kernel) for pair in BarrierProof(reading, launch, ()).shared(atomic)]


def refuse_unproved(kernel: Kernel, warp: int, atomic: Collection[Path]) -> None:
    """Raises KernelError where threads may accumulate into one element, by a statement that is not `atomic`."""
    for pair in shared(kernel, warp, atomic):
        source, span = place(kernel, pair.one)
        message = f"no proof was found that each thread adds to elements of {pair.buffer} of its own, or by atomics"
        raise KernelError(Diagnostic("no-atomic", message, span, source))


def are_separated_unasked(kernel: Kernel, warp: int, barriers: Iterable[Position], path: Path) -> bool:
    """Whether barriers separate what the statements inside of the guard at `path` read in shared memory from what
    other threads write there, also where each thread reads it without asking a condition."""
    reading, placed = Reading(kernel, warp), tuple(barriers)
    return all(BarrierProof(reading, launch, placed, path).reads_apart() for launch in launches_of(kernel))


def proved(kernel: Kernel, warp: int, barriers: Barriers) -> Barriers:
    """`barriers` where they are enough. Where the proof finds a pair that none separates, or does not come to an
    end, a barrier wherever one can stand: slower, and right whatever the derivation took the kernel for."""
    if not unseparated(kernel, warp, barriers):
        return barriers
    reading = Reading(kernel, warp)
    launches = (launch for launch in launches_of(kernel) if reading.has_threads(launch))
    return dict.fromkeys((at for launch in launches for at in places_to_wait(reading, launch)), UNPROVED)


@dataclass(frozen=True)
class AccessTimes:
    """When an access runs: the name of its instances, their iterators, and the time as formulas of these."""

    name: str
    domain: str
    when: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.name}[{self.domain}] -> [{', '.join(self.when)}]"


@dataclass(frozen=True)
class BarrierProof:
    reading: Reading
    launch: LaunchedPart
    barriers: tuple[Position, ...]
    unasked: Path | None = None
    waits: dict[Path | None, isl.UnionMap] = field(default_factory=dict)
    orders: dict[tuple[AccessTimes | Path | None, AccessTimes | Path | None], isl.UnionMap] = field(
        default_factory=dict
    )

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

    # -- reads that ask no condition --------------------------------------------------------------------------
    def reads_apart(self) -> bool:
        """Whether the reads of shared memory inside of the guard `unasked` are separated from all writes there.
        That iterations under marks are independent is not known of them, as the text does not have them."""
        assert self.unasked is not None
        sites, acts = self.kernel.sites, tuple(self.reading.acts(self.launch))
        reads = [act for act in acts if not act.writes and is_inside(sites[act.number].path, self.unasked)]
        return all(
            self._are_separated(one, other) and self._are_separated(other, one)
            for one in reads
            for other in acts
            if other.writes and one.access.buffer == other.access.buffer
            if self.kernel.buffer(one.access.buffer).storage == "shared"
        )

    def _asked_at(self, act: Act) -> tuple[Scope | Guard, ...]:
        """The nodes around an access where it is made: no guards of a thread, where it asks none."""
        site = self.kernel.sites[act.number]
        if self.unasked is None or act.writes or not is_inside(site.path, self.unasked):
            return tuple(site.ancestors)
        threads = [n for n, node in enumerate(site.ancestors) if marked(node, THREAD)]
        inner = max(threads, default=len(site.ancestors))
        return tuple(n for k, n in enumerate(site.ancestors) if k < inner or isinstance(n, Scope))

    # -- accumulations ---------------------------------------------------------------------------------------
    def shared(self, atomic: Collection[Path]) -> Iterator[Unseparated]:
        """The accumulations into one element that are not both atomic."""
        sites = self.kernel.sites
        acts = [act for act in self.reading.acts(self.launch) if act.writes and self._operator(act) is not None]
        for n, one in enumerate(acts):
            for other in acts[n:]:
                paths = [sites[act.number].path for act in (one, other)]
                alike = one.access.buffer == other.access.buffer and self._operator(one) == self._operator(other)
                if alike and not all(path in atomic for path in paths) and self._meet(one, other):
                    yield Unseparated(one.access.buffer, *paths)

    def _operator(self, act: Act) -> str | None:
        operator = self.kernel.sites[act.number].statement.accumulation
        return None if operator == MAY_ASSIGN else operator

    def _meet(self, one: Act, other: Act) -> bool:
        """Whether threads or blocks that the marks tell apart may make both accesses, and to one element."""
        sites = [self.kernel.sites[act.number] for act in (one, other)]
        common = self._common(*sites)
        own = self.kernel.buffer(one.access.buffer).storage == "shared"  # each block has its own
        blocks = [f"i{d} != j{d}" for d in common if marked(sites[0].scopes[d], GRID) and not own]
        here = " and ".join(f"i{d} = j{d}" for d in range(self.launch.fixed)) or "true"
        differ = f"({one.by}) != ({_second(other.by)})" if one.by is not None and other.by is not None else "true"
        of_host = [f"i{d} = j{d}" for d in range(self.launch.fixed) if not marked(sites[0].scopes[d], GRID)]
        wrong = " or ".join((*blocks, f"({here} and {differ} and ({self._first_differs(sites, common, True)}))"))
        try:
            with limited_in_part(STEP_LIMIT):
                return not self.pairs(one, other, [*of_host, f"({wrong})"]).is_empty()
        except (StepLimitReached, isl.Error):
            return True

    def _common(self, one: Site, other: Site) -> range:
        """The depths of the scopes that are around both statements."""
        at = next((n for n, (a, b) in enumerate(zip(one.path, other.path, strict=False)) if a != b), None)
        path = one.path[: -1 if at is None else at]
        return range(sum(isinstance(node, Scope) for node in ancestors(self.kernel, (*path, 0))))

    def _first_differs(self, sites: Sequence[Site], common: range, threads: bool) -> str:
        """That the first scope around both statements of which they are in different iterations is one of threads;
        or, if not `threads`, that it is none, or that there is none."""
        found = ["false"] if threads else [" and ".join(f"i{d} = j{d}" for d in common) or "true"]
        for depth in common:
            if marked(sites[0].scopes[depth], THREAD) == threads:
                same = [f"i{d} = j{d}" for d in range(depth)]
                found.append(" and ".join((*same, f"i{depth} != j{depth}")))
        return " or ".join(f"({each})" for each in found)

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
        conditions = [*self.of_one_block(one, other), condition]
        if one.by is not None and other.by is not None:
            conditions.append(f"{one.by} != {_second(other.by)}")
        first, last = self.times(one, "a"), self.times(other, "b")
        return self._all_wait(self.pairs(one, other, conditions), first, last, within)

    def of_one_block(self, one: Act, other: Act) -> list[str]:
        """That two accesses are made by one block, and by no iterations that are independent."""
        sites = [self.kernel.sites[act.number] for act in (one, other)]
        found = [f"i{depth} = j{depth}" for depth in range(self.launch.fixed)]
        if self.unasked is None:
            found.append(f"({self._first_differs(sites, self._common(*sites), False)})")
        return found

    def times(self, act: Act, name: str) -> AccessTimes:
        """When an access runs, its instances under a name."""
        return AccessTimes(name, iterators(len(self.kernel.sites[act.number].scopes)), act.when)

    def pairs(self, one: Act, other: Act, conditions: Iterable[str]) -> isl.UnionMap:
        """The instances `a` of the first and `b` of the second access that are to one element."""
        left, right = (self.kernel.sites[act.number] for act in (one, other))
        mine, its = iterators(len(left.scopes)), _second(iterators(len(right.scopes)))
        held = [self.sets.constraints(self._asked_at(one)), _second(self.sets.constraints(self._asked_at(other)))]
        every = [*held, *self._one_element(one.access, other.access), *conditions]
        return self.sets.map(f"a[{mine}] -> b[{its}] : {' and '.join(every)}")

    def _one_element(self, one: Access, other: Access) -> Iterator[str]:
        """That two accesses are to one element: an index from data may be any, and of distinct data two that are
        equal are one element of these."""
        buffer = self.kernel.buffer(one.buffer)
        for mine, its, dim in zip(one.indices, other.indices, buffer.dims, strict=True):
            match mine, its:
                case Affine(), Affine() if not dim.collapsed:
                    yield f"{isl_affine(mine)} = {_second(isl_affine(its))}"
                case Access(), Access() if not dim.collapsed and mine.buffer == its.buffer:
                    if self.kernel.buffer(mine.buffer).distinct:
                        yield from self._one_element(mine, its)

    def _all_wait(self, pairs: isl.UnionMap, first: AccessTimes, last: AccessTimes, within: Path | None) -> bool:
        """Whether each pair of which the first is before the last has a barrier between them."""
        in_order = pairs.intersect(self._before(first, last))
        if in_order.is_empty():
            return True
        return bool(in_order.is_subset(self._before(first, within).apply_range(self._before(within, last))))

    def _before(self, first: AccessTimes | Path | None, last: AccessTimes | Path | None) -> isl.UnionMap:
        """The pairs of which the first is before the last in time: accesses, or waits of the block or of the warp
        code inside the scope at a path."""
        known = self.orders.get((first, last))
        if known is None:
            one, other = (
                self.sets.map(one.text) if isinstance(one, AccessTimes) else self._waiting(one)
                for one in (first, last)
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
        read = AccessTimes("a", own, self.reading.time(path, WAITS + 1))
        written = AccessTimes("b", own, self.reading.time(path, WAITS - 1))
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
                yield self.passed(f"w{number}", path, self.reading.time(here, -BEFORE))
        if within is None:
            for number, path in enumerate(self._through_memory()):
                yield self.passed(f"m{number}", path[:-1], self.reading.time(path, WAITS))

    def passed(self, name: str, path: Path, when: tuple[str, ...]) -> str:
        """When the code of the node at a path comes to a place of it."""
        around = ancestors(self.kernel, (*path, 0))
        own = iterators(depth_inside(self.kernel, path))
        return f"{name}[{own}] -> [{', '.join(when)}] : {self.sets.constraints(around)}"


def _second(text: str) -> str:
    return re.sub(r"\bi(\d+)\b", r"j\1", text)
