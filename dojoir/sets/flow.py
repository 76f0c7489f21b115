"""Value-based flow: which writes each read of a kernel gets its value from.

Source of the method: P. Feautrier, "Dataflow analysis of array and scalar references" (1991), as isl computes
it. Accumulations are may-writes and plain assignments must-writes, so the sources of a read are the last
assignment to its element and all accumulations since. A set, which is what the value depends on when they commute.
An accumulation may also be asked for as what it is, a read of its own element and then a write (`ordered`). Where
the order counts among those of one operator, or where another operator comes between.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

import islpy as isl

from dojoir.ir.nodes import Buffer, Commuting, Guard, Kernel, Path, Scope, Site
from dojoir.sets.flow_check import FlowInput, compute_flow, without_equal_dims
from dojoir.sets.flow_maps import Flow
from dojoir.sets.kernel_sets import KernelSets, Read
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass
from dojoir.support.memo import Memo, charge, spent

STEPS = 64
"""The steps charged for a statement when the texts are made from which a flow is computed."""


def flow_of(sets: KernelSets, buffer: str, ordered: frozenset[int] = frozenset()) -> Flow:
    """The flow of a kernel through one buffer. The accumulations by the statements `ordered` are each a read and a
    write; what the others add to an element is a set.

    Raises StepLimitReached where isl finds none that holds (`dojoir.sets.flow_check`)."""
    here = ordered.intersection(users_of(sets, buffer)) if ordered else ordered
    known = sets.flows.get((buffer, here))
    if known is not None:
        charge(known[1])
        return known[0]
    start = spent()
    found = _compute(sets, buffer, here)
    sets.flows[buffer, here] = found, spent() - start
    return found


def whole_flow(sets: KernelSets, ordered: frozenset[int] = frozenset(), without: Collection[str] = ()) -> Flow:
    """The flow of a kernel through all of its buffers, except those `without`."""
    flows = [flow_of(sets, buffer.name, ordered) for buffer in sets.kernel.buffers if buffer.name not in without]
    nothing = sets.map()
    return Flow(
        reduce(isl.UnionMap.union, (flow.sources for flow in flows), nothing),
        reduce(isl.UnionMap.union, (flow.initial for flow in flows), nothing),
    )


def users_of(sets: KernelSets, buffer: str) -> tuple[int, ...]:
    """The numbers of the statements that touch a buffer."""
    return sets.kernel.users.get(buffer, ())


def flows_alike(one: KernelSets, other: KernelSets, buffer: str, strict: bool) -> bool:
    """Whether the texts show that two kernels have the same flow through a buffer, apart from the numbers of the
    statements that touch it. A quick yes: no means only that the texts do not show it."""
    if one.sizes != other.sizes:
        return False
    if _same_sites(one.kernel, other.kernel, buffer):
        return True
    given = (_Given.of(sets, buffer, sets.ordered(strict)).texts for sets in (one, other))
    return next(given) == next(given)


def _same_sites(one: Kernel, other: Kernel, buffer: str) -> bool:
    """Whether two kernels declare a buffer alike and touch it by the same statements between the same bounds and
    guards, in the same order. All texts that a flow is computed from are made from these (`_Given`)."""
    were, are = one.users.get(buffer, ()), other.users.get(buffer, ())
    alike = one.fp == other.fp and one.buffer(buffer) == other.buffer(buffer) and len(were) == len(are)
    pairs = [(one.sites[k], other.sites[n]) for k, n in zip(were, are, strict=True)] if alike else []
    return (
        alike
        and all(old.statement == new.statement and same_bounds(old, new) for old, new in pairs)
        and (all(old.path == new.path for old, new in pairs) or _places(one, were) == _places(other, are))
    )


def same_bounds(one: Site, other: Site) -> bool:
    """Whether two statements are in as many scopes and guards, with the same extents and conditions."""
    if one.ancestors is other.ancestors:
        return True
    pairs = zip(one.ancestors, other.ancestors, strict=False)
    return len(one.ancestors) == len(other.ancestors) and all(a is b or _bounds(a) == _bounds(b) for a, b in pairs)


def _bounds(node: Scope | Guard) -> object:
    return node.extent if isinstance(node, Scope) else node.conditions


def _places(kernel: Kernel, numbers: tuple[int, ...]) -> tuple[Path, ...]:
    """The paths of some statements, by ascending numbers, in a copy of the tree that holds nothing else."""
    sites = kernel.sites
    children: dict[Path, list[int]] = {}
    for k in numbers:
        for level, child in enumerate(sites[k].path):
            used = children.setdefault(sites[k].path[:level], [])
            if child not in used:
                used.append(child)
    return tuple(
        tuple(children[sites[k].path[:level]].index(child) for level, child in enumerate(sites[k].path))
        for k in numbers
    )


@dataclass(frozen=True)
class _Given:
    """The input of the flow through one buffer: the texts of its sure writes, its other writes, its reads, and
    when each of them runs. Statements are numbered as `users` does, so that two kernels with equal input share
    the result."""

    users: Users
    must: tuple[str, ...]
    may: tuple[str, ...]
    reads: tuple[str, ...]
    schedule: tuple[str, ...]

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        return self.must, self.may, self.reads, self.schedule

    @staticmethod
    def of(sets: KernelSets, buffer: str, ordered: frozenset[int]) -> _Given:
        users = Users.of(sets, buffer)
        charge(STEPS * len(users.numbers))
        must: list[str] = []
        may: list[str] = []
        reads: list[str] = []
        schedule: list[str] = []
        for k in users.numbers:
            site = sets.kernel.sites[k]
            if site.statement.target.buffer == buffer:
                free = k not in ordered and site.statement.accumulation is not None
                (may if free else must).append(users.named(sets.write_text(k)))
                schedule.append(users.time(k))
                if k in ordered:
                    reads.append(users.named(sets.write_text(k, name="t")))
                    schedule.append(users.time(k, "t"))
            for read in sets.reads[k]:
                if read.access.buffer == buffer:
                    reads.append(users.named(sets.read_text(read)))
                    schedule.append(users.time(k, read=read))
        declared = sets.kernel.buffer(buffer)
        if declared in sets.returned:
            reads.append(sets.box_text(declared, f"out_{buffer}"))
            schedule.append(users.final_time(declared))
        return _Given(users, tuple(must), tuple(may), tuple(reads), tuple(schedule))


def _compute(sets: KernelSets, buffer: str, ordered: frozenset[int]) -> Flow:
    given = _Given.of(sets, buffer, ordered)
    users = given.users
    if not given.must and not given.may:
        return Flow(sets.map(), users.back(sets.map(*given.reads)))
    key = (sets.sizes, given.texts)
    found = _flows.get(key)
    if found is None:
        accesses = FlowInput(*(sets.map(*texts) for texts in given.texts))
        sites = (sets.kernel.sites[k] for k in users.numbers)
        found = _flows.put(key, Flow(*compute_flow(accesses, sites)))
    return Flow(users.back(found.sources), users.back(found.initial))


_Texts = tuple[str, tuple[tuple[str, ...], ...]]

_flows: Memo[_Texts, Flow] = Memo(2048, of_key=True)
"""The flows through one buffer, by all that they follow from, the names of statements being those of `Users`."""

_pairs: Memo[_Texts, isl.UnionMap] = Memo(2048, of_key=True)
"""The dependences through one buffer, in the same way."""


@dataclass(frozen=True)
class Users:
    """The statements that touch a buffer, numbered from 0, in a copy of the tree that holds nothing else.

    The texts made with these numbers do not change when another part of the kernel does, so what was computed
    from them is found again. `numbers` are the statements in the kernel; `paths` their places in the copy.
    """

    sets: KernelSets
    numbers: tuple[int, ...]
    paths: tuple[Path, ...]

    @staticmethod
    def of(sets: KernelSets, buffer: str) -> Users:
        return Users.among(sets, users_of(sets, buffer))

    @staticmethod
    def among(sets: KernelSets, numbers: tuple[int, ...]) -> Users:
        """Some statements, by ascending numbers."""
        return Users(sets, numbers, _places(sets.kernel, numbers))

    @cached_property
    def _dims(self) -> int:
        return max((len(self.sets.kernel.sites[k].ancestors) * 2 + 1 for k in self.numbers), default=0) + 1

    def named(self, text: str) -> str:
        """The text of a map of one of these statements, with its number among them in place of that in the
        kernel."""
        name, _, rest = text.partition("[")
        number, part, read = name[1:].partition("r")
        return f"{name[0]}{self.numbers.index(int(number))}{part}{read}[{rest}"

    def time(self, number: int, name: str = "s", read: Read | None = None) -> str:
        """When a statement, or one of its reads, runs."""
        return self.timed(number, self.sets.schedule_text(number, read, name))

    def timed(self, number: int, schedule: str) -> str:
        """The text of when a statement, or one of its reads, runs: as in the kernel, with its place among these."""
        text = self.named(schedule).partition(" -> ")[0]
        site = self.sets.kernel.sites[number]
        path = self.paths[self.numbers.index(number)]
        return f"{text} -> [{', '.join(self.sets.time(site, path, self._dims))}]"

    def final_time(self, buffer: Buffer) -> str:
        """When the read of a returned buffer runs: after everything."""
        text = self.sets.final_time(buffer).partition(" -> ")[0]
        last = max((path[0] for path in self.paths), default=0) + 1
        return f"{text} -> [{', '.join([str(last)] + ['0'] * (self._dims - 1))}]"

    def back(self, found: isl.UnionMap) -> isl.UnionMap:
        """A map between instances that are numbered as here, with the numbers of the kernel."""
        if self.numbers == tuple(range(len(self.numbers))):
            return found
        pieces: list[isl.Map] = []
        found.foreach_map(pieces.append)
        result = self.sets.map()
        for piece in pieces:
            for side in (isl.dim_type.in_, isl.dim_type.out):
                name = piece.get_tuple_name(side) or ""
                kind, (number, part, read) = name[:1], name[1:].partition("r")
                if kind in {"s", "t"} and number.isdigit():
                    piece = piece.set_tuple_name(side, f"{kind}{self.numbers[int(number)]}{part}{read}")
            result = result.union(isl.UnionMap.from_map(piece))
        return result


def dependences(sets: KernelSets, among: range | None = None) -> isl.UnionMap:
    """The pairs of statement instances whose order matters: the first runs before the second, both touch one
    element of storage, and one of them writes it. Two accumulations that commute are no pair. Any order of
    the instances that keeps every pair in order keeps the flow.

    Both instances are of the statements `among` (by default all): whether two make a pair does not depend on
    what others do between them. The order of float accumulations counts where the kernel is `fp strict`.
    """
    numbers = sets.numbers if among is None else among
    known = sets.orders.get(numbers)
    if known is not None:
        charge(known[1])
        return known[0]
    start = spent()
    parts = (_buffer_dependences(sets, b.name, numbers) for b in sets.kernel.buffers if b.role != "in")
    found = reduce(isl.UnionMap.union, parts, sets.map())
    sets.orders[numbers] = found, spent() - start
    return found


def _buffer_dependences(sets: KernelSets, buffer: str, among: range) -> isl.UnionMap:
    users = Users.among(sets, tuple(k for k in users_of(sets, buffer) if k in among))
    assigned: list[str] = []
    accumulated: dict[Commuting | None, list[str]] = {}
    read: list[str] = []
    for k in users.numbers:
        statement = sets.kernel.sites[k].statement
        if statement.target.buffer == buffer:
            among_others = accumulated.setdefault(statement.commuting, []) if sets.is_free(k) else assigned
            among_others.append(users.named(sets.write_text(k)))
        read += [users.named(sets.read_by_statement(r)) for r in sets.reads[k] if r.access.buffer == buffer]
    times = [users.time(k) for k in users.numbers]
    free = list(accumulated.values())
    key = (sets.sizes, tuple(map(tuple, (assigned, read, times, *free))))
    found = _pairs.get(key)
    if found is None:
        charge(_weight(max((len(sets.kernel.sites[k].scopes) for k in users.numbers), default=0)))
        found = _pairs.put(key, _composed(sets, assigned, free, read, times))
    return users.back(found)


def _weight(depth: int) -> int:
    """The steps charged for ordering statements in so many scopes, besides those that isl counts. isl's
    operations take longer the more dimensions their sets have: in 63 scopes a few thousand of them took half a
    minute. Up to 20 scopes nothing is charged."""
    return int(max(0, depth - 20) ** 3 * 50)


def _composed(
    sets: KernelSets, assigned: list[str], free: list[list[str]], read: list[str], times: list[str]
) -> isl.UnionMap:
    """The pairs of accesses that do not commute, composed through their elements, of which the first runs before
    the second. (isl's computation of flow, with writes that nothing is sure of, gives the same in up to 25 times
    the time.)"""

    def touching_one(first: list[str], second: list[str]) -> isl.UnionMap:
        return sets.map(*first).apply_range(sets.map(*second).reverse()) if first and second else sets.map()

    times_of = without_equal_dims(sets.map(*times))
    before = times_of.gist_params(times_of.params())  # only to be intersected with accesses, which know the sizes
    accumulated = [text for texts in free for text in texts]
    pairs = touching_one(assigned + accumulated, assigned + read)
    pairs = pairs.union(touching_one(assigned + read, accumulated)).union(touching_one(read, assigned))
    for texts in free if len(free) > 1 else ():
        pairs = pairs.union(
            touching_one(texts, [text for others in free if others is not texts for text in others])
        )
    return pairs.intersect(before.lex_lt_union_map(before))
