"""The accesses of one block's threads to shared and global memory, and which of them can conflict.

Two accesses meet where two different threads of a block make them to one element, one of them writing. In one
phase that cannot be (its iterations are independent); between phases, and between the iterations of a loop around
them, it needs a barrier (`dojoir.codegen.lower.waits.barriers`). All questions of this side are pairs of iterations
of two statements, those of the second with a `j` in their names (`pairs`); `barrier_proof` has its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import islpy as isl

from dojoir.codegen.lower.gpu.groups import inside
from dojoir.codegen.lower.gpu.launches import Collective, Launched, ThreadPhase
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Guard, Path, Scope, Site
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
class ThreadAccess:
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


def touches_of(threads: Threads, launched: Launched) -> tuple[ThreadAccess, ...]:
    """The accesses of a launch to memory that its threads share, and that it writes."""
    kernel = threads.kernel
    sets = sets_of(kernel)
    written = {site.statement.target.buffer for site in kernel.sites if launched.holds(site.path)}
    common = {name for name in written if kernel.buffer(name).storage in ("shared", "heap")}
    found: list[ThreadAccess] = []
    for number, site in enumerate(kernel.sites):
        if launched.holds(site.path):
            found += (
                touch for touch in _of_statement(threads, launched, sets, number) if touch.access.buffer in common
            )
    return tuple(found)


def _of_statement(threads: Threads, launched: Launched, sets: KernelSets, number: int) -> Iterator[ThreadAccess]:
    site = threads.kernel.sites[number]
    phase = launched.phase_of(site.path)
    first, span = runs_by(launched, phase, site)
    reads = [access for read in sets.reads[number] for access in read.access.accesses()]
    for access in dict.fromkeys(reads):
        yield ThreadAccess(number, access, False, site.path, first, span)
    collective = threads.collectives.get(site.path)
    stored: Place = site.path
    if collective is not None:
        assert phase is not None
        at = len(collective.nest.path) - 1
        stored = (*site.path[:at], site.path[at] + STORED)
        first = _number(phase, collective.nest.path, collective.depths)
    together = inside(threads.groups, site.path) is not None
    yield ThreadAccess(number, site.statement.target, True, stored, first, span if together else 1)


def runs_by(launched: Launched, phase: ThreadPhase | None, site: Site) -> tuple[str, int]:
    """The threads that run a statement: the first of them, and how many. What all of them run alike, they all read;
    what they write, the first writes."""
    if phase is None:
        return "0", launched.threads
    return _number(phase, site.path), phase.alike_at(site.path)


def thread_at(launched: Launched, site: Site, iteration: tuple[int, ...]) -> str:
    """Who runs a statement in one of its iterations, in words: `thread 3`, `all threads`."""
    phase = launched.phase_of(site.path)
    if phase is None:
        return "all threads"
    first = sum(apart * iteration[depth] for depth, (apart, _) in phase.digits(site.path).items())
    alike = phase.alike_at(site.path)
    return f"thread {first}" if alike == 1 else f"threads {first} to {first + alike - 1}"


def _number(phase: ThreadPhase, path: Path, without: Collection[int] = ()) -> str:
    """The number of the thread that runs a node, of its iterators; those at the depths `without` are 0."""
    digits = phase.digits(path).items()
    return " + ".join(f"{apart}*i{depth}" for depth, (apart, _) in digits if depth not in without) or "0"


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


# -- pairs ---------------------------------------------------------------------------------------------------
def second(text: str) -> str:
    """A condition on the iteration of the second statement."""
    return re.sub(r"\bi(\d+)\b", r"j\1", text)


def same(depths: Iterable[int]) -> list[str]:
    """That two iterations are the same in the scopes at some depths."""
    return [f"i{depth} = j{depth}" for depth in depths]


def pairs(
    sets: KernelSets,
    left: Site,
    right: Site,
    conditions: Iterable[str],
    names: tuple[str, str] = ("", ""),
    around: Sequence[Scope | Guard] | None = None,
) -> str:
    """The pairs of iterations of two statements for which conditions hold, for isl. `around` are the nodes that say
    when the first one runs, if not all around it."""
    held = sets.constraints(left.ancestors if around is None else around), second(sets.constraints(right.ancestors))
    one, other = iterators(len(left.scopes)), second(iterators(len(right.scopes)))
    return f"{names[0]}[{one}] -> {names[1]}[{other}] : {' and '.join([*held, *conditions])}"


def some(sets: KernelSets, text: str) -> bool:
    """Whether there are pairs; there may be, where that takes too many steps to know."""
    try:
        with limited_in_part(STEP_LIMIT):
            return not sets.is_empty(text)
    except (StepLimitReached, isl.Error):
        return True


def one_element(sets: KernelSets, one: Access, other: Access, distinct: bool = False) -> Iterator[str]:
    """That two accesses are to one element: an index from data may be any; where `distinct` data are asked, equal
    ones are one element of these."""
    for mine, its, dim in zip(one.indices, other.indices, sets.kernel.buffer(one.buffer).dims, strict=True):
        match mine, its:
            case Affine(), Affine() if not dim.collapsed:
                yield f"{isl_affine(mine)} = {second(isl_affine(its))}"
            case Access(name), Access(its_name) if distinct and not dim.collapsed and name == its_name:
                if sets.kernel.buffer(name).distinct:
                    yield from one_element(sets, mine, its, distinct)


def other_thread(one: ThreadAccess, other: ThreadAccess) -> str | None:
    """That two different threads make two accesses; None where that is so of some."""
    return f"({one.first}) != ({second(other.first)})" if one.span == other.span == 1 else None


def meet(
    sets: KernelSets,
    one: ThreadAccess,
    other: ThreadAccess,
    shared: int,
    carried: int | None,
    next_only: bool = False,
) -> bool:
    """Whether two threads make the accesses to one element, `one` before `other`. In one iteration of all the
    `shared` scopes around both, or in an earlier one of that at depth `carried` (the one right before, if
    `next_only`)."""
    if one.access.buffer != other.access.buffer or not (one.writes or other.writes):
        return False
    fixed = shared if carried is None else carried
    if _plainly_apart(sets, one, other, fixed):
        return False
    conditions = same(range(fixed))
    if carried is not None:
        conditions.append(f"i{carried} + 1 {'=' if next_only else '<='} j{carried}")
    conditions += one_element(sets, one.access, other.access)
    sites, different = sets.kernel.sites, other_thread(one, other)
    conditions += [] if different is None else [different]
    return some(sets, pairs(sets, sites[one.number], sites[other.number], conditions))


def _plainly_apart(sets: KernelSets, one: ThreadAccess, other: ThreadAccess, fixed: int) -> bool:
    """Whether it is seen from the text that two accesses are to different elements in one iteration of the first
    `fixed` scopes."""
    dims = sets.kernel.buffer(one.access.buffer).dims
    for mine, its, dim in zip(one.access.indices, other.access.indices, dims, strict=True):
        if dim.collapsed or not (isinstance(mine, Affine) and isinstance(its, Affine)):
            continue
        apart = mine - its
        if apart.is_constant and apart.offset and all(depth < fixed for depth in mine.iterators | its.iterators):
            return True
    return False
