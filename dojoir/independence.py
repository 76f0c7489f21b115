"""Whether the iterations of a scope are independent: what the marks `p` and `v` promise.

Two iterations of the scope (of one run of it) conflict where both touch one element and one of them writes.
A temporary whose every use is inside the scope is each iteration's own: there only a value that crosses
iterations is a conflict. Under `v`, accumulations into an element that all lanes share are no conflict, if
their order is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import islpy as isl

from dojoir.conflicts import agreement, conflicts, never_meet
from dojoir.errors import Party
from dojoir.flow import flow_of
from dojoir.ir import Access, Kernel, Path, Scope
from dojoir.sampled import runs_at
from dojoir.sets import KernelSets, iterators, sets_of
from dojoir.witness import (
    Example,
    Point,
    describe,
    example,
    node_party,
    party,
    read_by,
    statement_text,
    when,
    with_sizes,
)
from dojoir.written import comes_and_goes


@dataclass(frozen=True)
class Conflict:
    """Two iterations of the scope at `path` that are not independent. `left` and `right` of the example are
    statement instances; `carried` says that a value crosses (else both touch the same storage)."""

    path: Path
    example: Example
    buffer: str
    carried: bool

    def parties(self, kernel: Kernel) -> list[Party]:
        """The two statements in their iterations, and the scope."""
        left, right = self.example.left, self.example.right
        mine, its = self._accesses(kernel)
        reads, writes = ("reads", "writes") if self.carried else ("touches", "touches")
        return [
            party(right, kernel, f"{reads} it {when(right, kernel)}", mine),
            party(left, kernel, f"{writes} it {when(left, kernel)}", its),
            node_party(kernel, self.path, "its iterations would run side by side"),
        ]

    def _accesses(self, kernel: Kernel) -> tuple[Access | None, Access | None]:
        """An access of the right statement and one of the left one that touch the same element, at least one of
        them writing it. None where an index is gathered."""
        left, right = self.example.left, self.example.right
        assert left.site is not None
        assert right.site is not None
        wrote, read = kernel.sites[left.site].statement.target, read_by(right, kernel)
        if read is not None:
            return read, wrote
        target = kernel.sites[right.site].statement.target
        for mine in kernel.sites[right.site].statement.accesses:
            for its in kernel.sites[left.site].statement.accesses:
                element = self._element(kernel, mine, right)
                if (mine is target or its is wrote) and element and element == self._element(kernel, its, left):
                    return mine, its
        return None, None

    def _element(self, kernel: Kernel, access: Access, point: Point) -> tuple[int, ...] | None:
        """The element of the buffer that an access touches, after a 0; None for another buffer or a gather."""
        if access.buffer != self.buffer:
            return None
        sizes, iteration = dict(self.example.sizes), point.iteration(kernel)
        found = [0]
        for index, dim in zip(access.indices, kernel.buffer(self.buffer).dims, strict=True):
            if isinstance(index, Access):
                return None
            if not dim.collapsed:
                found.append(index.evaluate(sizes, iteration))
        return tuple(found)

    def message(self, kernel: Kernel) -> str:
        """The conflict in words."""
        left, right = self.example.left, self.example.right
        start = with_sizes(self.example.sizes)
        if self.carried:
            return (
                f"{start}{describe(right, kernel)} reads `{self.buffer}` as written by "
                f"{describe(left, kernel)}, another iteration"
            )
        touch = f"touch the same element of `{self.buffer}`"
        if left.site == right.site:
            both = f"{when(left, kernel)} and {when(right, kernel)}"
            return f"{start}{statement_text(left, kernel)} {both} {touch}"
        return f"{start}{describe(left, kernel)} and {describe(right, kernel)} {touch}"


def private_buffers(kernel: Kernel, path: Path) -> frozenset[str]:
    """The temporaries whose every use is inside the scope at `path`."""
    inside: set[str] = set()
    outside: set[str] = set()
    for site, reads in zip(kernel.sites, sets_of(kernel).reads, strict=True):
        here = inside if site.path[: len(path)] == path else outside
        here.add(site.statement.target.buffer)
        here.update(read.access.buffer for read in reads)
    return frozenset(name for name in inside - outside if kernel.buffer(name).role == "tmp")


def find_conflict(kernel: Kernel, path: Path, mark: str) -> Conflict | None:
    """Two iterations of the scope at `path` that may not run side by side under `mark` (p or v), or None.

    Raises isl.Error where the step limit of the context is reached.
    """
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    sets = sets_of(kernel)
    depth = kernel.depth_of(path)
    private = private_buffers(kernel, path)
    if _is_plain(sets, path, depth, private, mark):
        return None
    return _shared_conflict(sets, path, depth, private, mark) or _carried_value(sets, path, depth, private)


def are_independent(kernel: Kernel, path: Path, mark: str) -> bool:
    """Whether `find_conflict` would find none."""
    return not (mark == "p" and _write_one_element(kernel, path)) and find_conflict(kernel, path, mark) is None


def _write_one_element(kernel: Kernel, path: Path) -> bool:
    """Whether a statement surely runs in the first two iterations of the scope at `path` and writes one element in
    both, of a buffer that is not each iteration's own."""
    depth, private = kernel.depth_of(path), private_buffers(kernel, path)
    for site in kernel.sites:
        target = site.statement.target
        if site.path[: len(path)] == path and target.buffer not in private and is_uniform(kernel, target, depth):
            first = (0,) * len(site.scopes)
            second = (*first[:depth], 1, *first[depth + 1 :])
            if any(all(runs_at(site, sizes, at) for at in (first, second)) for sizes in sets_of(kernel).some_sizes):
                return True
    return False


def _is_plain(sets: KernelSets, path: Path, depth: int, private: frozenset[str], mark: str) -> bool:
    """Whether it is seen from the text that no two iterations conflict: all that may touch one element agree in the
    iterator at `depth`, and each private value is written and read in one iteration."""
    kernel = sets.kernel
    numbers = [k for k in sets.numbers if kernel.sites[k].path[: len(path)] == path]

    def may_share(number: int) -> bool:
        target = kernel.sites[number].statement.target
        return mark == "v" and sets.may_swap(number) and is_uniform(kernel, target, depth)

    for k, a, n, b in conflicts(sets, numbers, may_share, private):
        left, right = (kernel.sites[k], a), (kernel.sites[n], b)
        if depth not in agreement(kernel, left, right, depth) and not never_meet(kernel, left, right, depth):
            return False
    return all(comes_and_goes(kernel, kernel.buffer(name)) for name in private)


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
    sets: KernelSets, path: Path, depth: int, private: frozenset[str], mark: str
) -> Conflict | None:
    kernel = sets.kernel
    numbers = [k for k in sets.numbers if kernel.sites[k].path[: len(path)] == path]
    writes: dict[str, list[str]] = {}
    lanes: dict[str, list[str]] = {}  # accumulations that lanes may share
    reads: dict[str, list[str]] = {}
    for k in numbers:
        statement = kernel.sites[k].statement
        name = statement.target.buffer
        if name not in private:
            free = statement.accumulation is not None and not sets.is_ordered(k, kernel.fp == "strict")
            shared = mark == "v" and free and is_uniform(kernel, statement.target, depth)
            (lanes if shared else writes).setdefault(name, []).append(sets.write_text(k))
        for read in sets.reads[k]:
            if read.access.buffer not in private:
                reads.setdefault(read.access.buffer, []).append(sets.read_by_statement(read))
    same_run = " and ".join([*(f"a{d} = b{d}" for d in range(depth)), f"a{depth} != b{depth}"])
    prefix = _prefixes(sets, numbers, depth, reads=False)
    apart = prefix.apply_range(sets.map(_pairs(depth, same_run))).apply_range(prefix.reverse())
    for name in sorted({*writes, *lanes}):
        for mine, others in (
            (writes.get(name, []), writes.get(name, []) + lanes.get(name, []) + reads.get(name, [])),
            (lanes.get(name, []), reads.get(name, [])),
        ):
            if mine and others:
                touching = sets.map(*mine).apply_range(sets.map(*others).reverse())
                found = example(touching.intersect(apart), kernel)
                if found is not None:
                    return Conflict(path, found, name, carried=False)
    return None


def _carried_value(sets: KernelSets, path: Path, depth: int, private: frozenset[str]) -> Conflict | None:
    kernel = sets.kernel
    numbers = [k for k in sets.numbers if kernel.sites[k].path[: len(path)] == path]
    users = [(k, read) for k in numbers for read in sets.reads[k] if read.access.buffer in private]
    if not users:
        return None
    sources = reduce(
        isl.UnionMap.union, (flow_of(sets, name, strict=False).sources for name in sorted(private)), sets.map()
    )
    private_reads = sets.map(*(sets.read_text(read) for _, read in users)).domain()
    same = sets.map(_pairs(depth, " and ".join(f"a{d} = b{d}" for d in range(depth + 1))))
    within = (
        _prefixes(sets, numbers, depth, reads=False)
        .apply_range(same)
        .apply_range(_prefixes(sets, numbers, depth, reads=True).reverse())
    )
    found = example(sources.intersect_range(private_reads).subtract(within), kernel)
    if found is None:
        return None
    site, ordinal = found.right.site, int(found.right.name.partition("r")[2])
    assert site is not None
    return Conflict(path, found, sets.reads[site][ordinal].access.buffer, carried=True)


def is_uniform(kernel: Kernel, access: Access, depth: int) -> bool:
    """Whether an access touches the same storage at every value of the iterator at `depth`."""
    dims = kernel.buffer(access.buffer).dims
    return not any(
        depth in index.iterators if not isinstance(index, Access) else not is_uniform(kernel, index, depth)
        for index, dim in zip(access.indices, dims, strict=True)
        if not dim.collapsed
    )
