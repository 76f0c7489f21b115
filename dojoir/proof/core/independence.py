"""Whether the iterations of a scope are independent: what the marks `p` and `v` promise.

Two iterations of the scope (of one run of it) conflict where both touch one element, or one byte of two, and one of
them writes.
A temporary whose every use is inside the scope is each iteration's own, where its storage has room for that.
There only a value that crosses iterations is a conflict; what a read gets are all accumulations since the last
assignment. Under `v` and the marks of a GPU, accumulations by one operator into an element that all iterations
share are no conflict, if their order is free: lanes and threads put together what they have, blocks by atomics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import islpy as isl

from dojoir.ir.nodes import Commuting, Kernel, Path, Scope
from dojoir.ir.packing import in_halves
from dojoir.ir.paths import is_inside
from dojoir.ir.places import is_uniform, siblings
from dojoir.ir.words import BLOCK, GRID, LEVELS
from dojoir.sets.flow import flow_of
from dojoir.sets.kernel_sets import KernelSets, iterators, sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Conflict:
    """Iterations of the scope at `path` that are not independent. `pairs` relates statement instances of other
    iterations that touch one element of `buffer`, or, where the conflict is `carried`, each write to the reads in
    other iterations that get its value."""

    path: Path
    pairs: isl.UnionMap
    buffer: str | None = None

    @property
    def carried(self) -> bool:
        """Whether a value crosses iterations; else they touch the same storage."""
        return self.buffer is None


THREADS = frozenset({*BLOCK, "lane"})
"""The marks of the threads of a block."""

COLLECTIVE = frozenset({"v", *LEVELS})
"""The marks whose iterations may put together what they accumulate into one element, by an atomic if need be."""


def private_buffers(kernel: Kernel, path: Path, mark: str) -> frozenset[str]:
    """The temporaries whose every use is inside the scope at `path`, and of which each of its iterations has one of
    its own under `mark`. `reg` and `stack` are a thread's own; `shared` is a block's, so its threads have it
    together; `heap` on a GPU is nobody's own. On cores and in lanes all are."""
    users, sites = kernel.users, kernel.sites
    return frozenset(
        name
        for name in siblings(kernel, path)[path[-1]].buffers
        if _has_room(kernel, name, mark) and all(is_inside(sites[k].path, path) for k in users[name])
    )


def _has_room(kernel: Kernel, name: str, mark: str) -> bool:
    """Whether each iteration of a scope under `mark` can have its own of a temporary."""
    buffer = kernel.buffer(name)
    if buffer.role != "tmp" or mark not in LEVELS:
        return buffer.role == "tmp"
    return buffer.storage in ("reg", "stack") or (buffer.storage == "shared" and mark in GRID)


def may_share(sets: KernelSets, number: int, depth: int, mark: str) -> bool:
    """Whether iterations of the scope at `depth` may accumulate, by statement `number`, into an element that they
    share under `mark`. Those that touch elements apart share none, whatever the mark."""
    kernel = sets.kernel
    statement = kernel.sites[number].statement
    if statement.apart is not None:
        return True
    return mark in COLLECTIVE and sets.is_free(number) and is_uniform(kernel, statement.target, depth)


def find_conflict(kernel: Kernel, path: Path, mark: str, seen: frozenset[str] = frozenset()) -> Conflict | None:
    """Two iterations of the scope at `path` that may not run side by side under `mark`, or None. Through the
    buffers in `seen` it is known that there are none."""
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    sets = sets_of(kernel)
    depth = kernel.depth_of(path)
    private = private_buffers(kernel, path, mark)
    shared = _shared_conflict(sets_of(in_halves(kernel)), path, depth, private | seen, mark)
    return shared or _carried_value(sets, path, depth, private - seen)


def carries(kernel: Kernel, path: Path, name: str) -> bool:
    """Whether an iteration of the scope at `path` gets a value through the buffer `name` from another one. As of
    `find_conflict`, the kernel is in the form without writes that data decide (`dojoir.sets.data_writes`)."""
    return _carried_value(sets_of(kernel), path, kernel.depth_of(path), frozenset({name})) is not None


Finder = Callable[[Kernel, Path, str], "Conflict | None"]
"""The type of a conflict finder: `find_conflict`, or an equivalent that is faster."""


def _prefixes(sets: KernelSets, numbers: list[int], depth: int, reads: bool) -> isl.UnionMap:
    """Each instance (or read) to the iterators down to `depth`."""
    outer = f"[{iterators(depth + 1)}]"
    pieces = []
    for k in numbers:
        own = iterators(len(sets.kernel.sites[k].scopes))
        if not reads:
            pieces.append(f"s{k}[{own}] -> {outer}")
            continue
        for read in sets.reads[k]:
            gathered = "".join(f", g{d}" for d in read.gathers)
            pieces.append(f"{read.name}[{own}{gathered}] -> {outer}")
    return sets.map(*pieces)


def _pairs(depth: int, different: str) -> str:
    left = ", ".join(f"a{d}" for d in range(depth + 1))
    right = ", ".join(f"b{d}" for d in range(depth + 1))
    return f"[{left}] -> [{right}] : {different}"


def _shared_conflict(
    sets: KernelSets, path: Path, depth: int, ignored: frozenset[str], mark: str
) -> Conflict | None:
    kernel = sets.kernel
    numbers = [k for k in sets.numbers if is_inside(kernel.sites[k].path, path)]
    writes: dict[str, dict[Commuting | None, list[str]]] = {}  # None where iterations may not share them
    reads: dict[str, list[str]] = {}
    for k in numbers:
        statement = kernel.sites[k].statement
        if statement.target.buffer not in ignored:
            alike = statement.commuting if may_share(sets, k, depth, mark) else None
            writes.setdefault(statement.target.buffer, {}).setdefault(alike, []).append(sets.write_text(k))
        for read in sets.reads[k]:
            if read.access.buffer not in ignored:
                reads.setdefault(read.access.buffer, []).append(sets.read_by_statement(read))
    if not writes:
        return None
    same_run = " and ".join([*(f"a{d} = b{d}" for d in range(depth)), f"a{depth} != b{depth}"])
    prefix = _prefixes(sets, numbers, depth, reads=False)
    apart = prefix.apply_range(sets.map(_pairs(depth, same_run))).apply_range(prefix.reverse())
    for name in sorted(writes):
        for alike, mine in writes[name].items():
            others = (texts for other, texts in writes[name].items() if other != alike or alike is None)
            both = reduce(list.__add__, others, reads.get(name, []))
            if both:
                touching = sets.map(*mine).apply_range(sets.map(*both).reverse())
                met = touching.intersect(apart)
                if not met.is_empty():
                    return Conflict(path, met, name)
    return None


def _carried_value(sets: KernelSets, path: Path, depth: int, private: frozenset[str]) -> Conflict | None:
    kernel = sets.kernel
    numbers = [k for k in sets.numbers if is_inside(kernel.sites[k].path, path)]
    users = [(k, read) for k in numbers for read in sets.reads[k] if read.access.buffer in private]
    if not users:
        return None
    sources = reduce(isl.UnionMap.union, (flow_of(sets, name).sources for name in sorted(private)), sets.map())
    private_reads = sets.map(*(sets.read_text(read) for _, read in users)).domain()
    same = sets.map(_pairs(depth, " and ".join(f"a{d} = b{d}" for d in range(depth + 1))))
    within = (
        _prefixes(sets, numbers, depth, reads=False)
        .apply_range(same)
        .apply_range(_prefixes(sets, numbers, depth, reads=True).reverse())
    )
    crossing = sources.intersect_range(private_reads).subtract(within)
    return None if crossing.is_empty() else Conflict(path, crossing)
