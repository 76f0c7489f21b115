"""The accesses of one block's threads to shared and global memory, and which of them can conflict.

Two accesses meet where two different threads of a block make them to one element, one of them writing. In one
phase that cannot be (its iterations are independent); between phases, and between the iterations of a loop around
them, it needs a barrier (`dojoir.codegen.lower.waits.barriers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import islpy as isl

from dojoir.codegen.lower.gpu.groups import inside
from dojoir.codegen.lower.gpu.threads import Collective, Launched, Nest, Phase, Threads
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Site
from dojoir.ir.paths import is_inside
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass

STEP_LIMIT = 300_000
"""How many isl operations the question whether two accesses meet may take; past them, they do."""

Place = tuple[float, ...]
"""A path, with fractions for what a collective does after its phase: it writes behind its own barrier."""

WROTE_PARTS, MET, READ_PARTS, STORED = 0.25, 0.5, 0.6, 0.75
"""When, behind its phase, a collective has written its partial results, passes its barrier, reads them, stores."""


@dataclass(frozen=True)
class Touch:
    """One access by the threads from number `first` (in isl's notation) on, of which there are `span`."""

    number: int
    access: Access
    writes: bool
    place: Place
    first: str
    span: int


@dataclass(frozen=True)
class Parts:
    """The partial results of the warps in a collective, which are written before its barrier and read after."""

    place: Place
    writes: bool


def touches_of(threads: Threads, launched: Launched) -> tuple[Touch, ...]:
    """The accesses of a launch to memory that its threads share, and that it writes."""
    kernel = threads.kernel
    sets = sets_of(kernel)
    written = {site.statement.target.buffer for site in kernel.sites if launched.holds(site.path)}
    common = {name for name in written if kernel.buffer(name).storage in ("shared", "heap")}
    found: list[Touch] = []
    for number, site in enumerate(kernel.sites):
        if launched.holds(site.path):
            found += (
                touch for touch in _of_statement(threads, launched, sets, number) if touch.access.buffer in common
            )
    return tuple(found)


def _of_statement(threads: Threads, launched: Launched, sets: KernelSets, number: int) -> Iterator[Touch]:
    site = threads.kernel.sites[number]
    phase = launched.phase_of(site.path)
    first, span = runs_by(launched, phase, site)
    reads = [access for read in sets.reads[number] for access in read.access.accesses()]
    for access in dict.fromkeys(reads):
        yield Touch(number, access, False, site.path, first, span)
    collective = threads.collectives.get(site.path)
    stored: Place = site.path
    if collective is not None:
        assert phase is not None
        at = len(collective.nest.path) - 1
        stored = (*site.path[:at], site.path[at] + STORED)
        first = _leader(launched, phase, collective)
    together = inside(threads.groups, site.path) is not None
    yield Touch(number, site.statement.target, True, stored, first, span if together else 1)


def runs_by(launched: Launched, phase: Phase | None, site: Site) -> tuple[str, int]:
    """The threads that run a statement: the first of them, and how many. What all of them run alike, they all read;
    what they write, the first writes."""
    if phase is None:
        return "0", launched.threads
    base = _number(phase, frozenset())
    if not phase.is_warp_code:
        return base, 1
    for group in phase.groups:
        if is_inside(site.path, group.path):
            return _of_lane(base, phase, group), phase.alike(group)
    return base, phase.lanes


def thread_at(launched: Launched, site: Site, iteration: tuple[int, ...]) -> str:
    """Who runs a statement in one of its iterations, in words: `thread 3`, `all threads`."""
    phase = launched.phase_of(site.path)
    if phase is None:
        return "all threads"
    lanes = phase.lanes if phase.is_warp_code else 1
    number = sum(lanes * s * iteration[d] for d, s in zip(phase.nest.depths, phase.nest.strides, strict=True))
    for group in phase.groups:
        if is_inside(site.path, group.path):
            first = number + sum(apart * iteration[d] for d, apart in phase.lane(group).items())
            alike = phase.alike(group)
            return f"thread {first}" if alike == 1 else f"threads {first} to {first + alike - 1}"
    return f"thread {number}" if lanes == 1 else f"threads {number} to {number + lanes - 1}"


def _number(phase: Phase, without: frozenset[int]) -> str:
    """The number of the thread at the iterators of a phase (of the first lane, if it has warp code inside)."""
    lanes = phase.lanes if phase.is_warp_code else 1
    terms = [
        f"{stride * lanes}*i{depth}"
        for depth, stride in zip(phase.nest.depths, phase.nest.strides, strict=True)
        if depth not in without
    ]
    return " + ".join(terms) or "0"


def _leader(launched: Launched, phase: Phase, collective: Collective) -> str:
    base = _number(phase, frozenset(collective.depths))
    if collective.nest not in phase.groups:
        return base
    return _of_lane(base, phase, collective.nest, frozenset(collective.depths))


def _of_lane(base: str, phase: Phase, group: Nest, without: frozenset[int] = frozenset()) -> str:
    """The number of the thread at the iterators of a nest of lanes, the first of several that run one alike."""
    lanes = (f"{apart}*i{d}" for d, apart in phase.lane(group).items() if d not in without)
    return " + ".join([base, *lanes])


def parts_of(threads: Threads, launched: Launched) -> Iterator[Parts]:
    """The partial results that collectives of whole blocks leave in shared memory."""
    for collective in dict.fromkeys(threads.collectives.values()):
        path = collective.nest.path
        if launched.holds(path) and meets_in_memory(collective, threads.warp):
            yield Parts((*path[:-1], path[-1] + WROTE_PARTS), True)
            yield Parts((*path[:-1], path[-1] + READ_PARTS), False)


def meets_in_memory(collective: Collective, warp: int) -> bool:
    """Whether a collective needs shared memory, and a barrier: where its threads are not all in one warp."""
    return not 1 <= collective.width <= warp or collective.width & (collective.width - 1) != 0


@dataclass(frozen=True)
class Meetings:
    """Which touches of a launch meet. `fixed` is the number of iterators (of the host and the grid) that two
    statements of one block share; in warp code, those of the group of lanes as well."""

    sets: KernelSets
    fixed: int

    def meet(self, one: Touch, other: Touch, shared: int, carried: int | None, next_only: bool = False) -> bool:
        """Whether two threads make the accesses to one element, `one` before `other`. In one iteration of all the
        `shared` scopes around both, or in an earlier one of that at depth `carried` (the one right before, if
        `next_only`)."""
        if one.access.buffer != other.access.buffer or not (one.writes or other.writes):
            return False
        if self._plainly_apart(one, other, shared, carried):
            return False
        try:
            with limited_in_part(STEP_LIMIT):
                return not self.sets.is_empty(self.text(one, other, shared, carried, next_only))
        except (StepLimitReached, isl.Error):
            return True

    def text(self, one: Touch, other: Touch, shared: int, carried: int | None, next_only: bool = False) -> str:
        """The pairs of instances, for isl."""
        sites = self.sets.kernel.sites
        left, right = sites[one.number], sites[other.number]
        conditions = [self._constraints(left), second(self._constraints(right))]
        conditions += [f"i{depth} = j{depth}" for depth in range(shared if carried is None else carried)]
        if carried is not None:
            conditions.append(f"i{carried} + 1 {'=' if next_only else '<='} j{carried}")
        conditions += self._one_element(one, other)
        if one.span == other.span == 1:
            conditions.append(f"({one.first}) != ({second(other.first)})")
        domain, range_ = iterators(len(left.scopes)), second(iterators(len(right.scopes)))
        found = sorted({g for c in conditions for g in re.findall(r"\b[gh]\d+\b", c)})
        gathered = f"exists {', '.join(found)} : " if found else ""
        return f"[{domain}] -> [{range_}] : {gathered}{' and '.join(conditions)}"

    def _constraints(self, site: Site) -> str:
        return self.sets.constraints(site.ancestors)

    def _one_element(self, one: Touch, other: Touch) -> Iterator[str]:
        dims = self.sets.kernel.buffer(one.access.buffer).dims
        for d, dim in enumerate(dims):
            if not dim.collapsed:
                mine, its = one.access.indices[d], other.access.indices[d]
                a = isl_affine(mine) if isinstance(mine, Affine) else f"g{d}"
                b = second(isl_affine(its)) if isinstance(its, Affine) else f"h{d}"
                yield f"{a} = {b}"

    def _plainly_apart(self, one: Touch, other: Touch, shared: int, carried: int | None) -> bool:
        """Whether it is seen from the text that they are to different elements, or made by one thread."""
        dims = self.sets.kernel.buffer(one.access.buffer).dims
        for mine, its, dim in zip(one.access.indices, other.access.indices, dims, strict=True):
            if dim.collapsed or not (isinstance(mine, Affine) and isinstance(its, Affine)):
                continue
            same = shared if carried is None else carried
            difference = mine - its
            if (
                difference.is_constant
                and difference.offset != 0
                and all(depth < same for depth in mine.iterators | its.iterators)
            ):
                return True
        return False


def second(text: str) -> str:
    return re.sub(r"\bi(\d+)\b", r"j\1", text)
