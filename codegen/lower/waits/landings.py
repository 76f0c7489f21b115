"""Asynchronous copies to shared memory: a thread starts them, goes on, and waits for them where they are needed.

A copy of 4, 8 or 16 bytes from global to shared memory may be asynchronous on GPUs that have `cp.async`. Those that
a thread starts between two commits are a group; groups land in order, and a thread waits until no more than so many
are on their way. It does so in front of barriers of its block, behind which all threads see what has landed.

Here it is said which copies of a kernel are asynchronous, where groups end, and how many may be on their way at
each barrier, counted in the first iterations of its loops. That this is right is proved apart from it
(`landing_proof`). Where none may be on its way at any barrier, nothing is gained, and copies stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.walk import statements, with_blocks
from dojoir.codegen.lower.gpu.launches import Launched
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.places_to_wait import Barriers, Position
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Guard, Kernel, Path, Scope, Site, Statement, holds
from dojoir.ir.places import sites_inside
from dojoir.support.frozen import dataclass

ROUNDS = 12
"""How many iterations of a loop are looked at where it is counted what is on its way."""


@dataclass(frozen=True)
class Landings:
    """The statements that are asynchronous copies, the places at which groups of them end, and how many groups may
    be on their way at the barriers that wait for others."""

    copies: frozenset[Path] = frozenset()
    commits: frozenset[Position] = frozenset()
    waits: Mapping[Position, int] = field(default_factory=dict)


NONE = Landings()


def landings_of(threads: Threads, barriers: Barriers) -> Landings:
    """The copies of a kernel that land later."""
    kernel = threads.kernel
    copies: set[Path] = set()
    commits: set[Position] = set()
    waits: dict[Position, int] = {}
    for launched in threads.launches:
        inside = [site for site in kernel.sites if launched.holds(site.path) and site.ancestors]
        found = [site.path for site in inside if _may_be(threads, launched, site)]
        if found:
            copies.update(found)
            ends = frozenset(_ends(kernel, launched, found))
            commits |= ends
            waits |= _Walk(threads, launched, barriers, frozenset(found), ends).counted()
    return Landings(frozenset(copies), frozenset(commits), waits) if any(waits.values()) else NONE


def without_idle_waits(body: tuple[lir.Stmt, ...]) -> tuple[lir.Stmt, ...]:
    """The code of a launch without commits and waits, if no copy in it lands later: none is wide enough."""
    if any(isinstance(stmt, lir.Start) for stmt in statements(body)):
        return body
    kept = (stmt for stmt in body if not isinstance(stmt, lir.Commit | lir.Land))
    return tuple(with_blocks(stmt, without_idle_waits) for stmt in kept)


def waiting_for_all(landings: Landings) -> Landings:
    """The same copies, with no group on its way behind any barrier that waits for some."""
    return replace(landings, waits=dict.fromkeys(landings.waits, 0))


def _may_be(threads: Threads, launched: Launched, site: Site) -> bool:
    """Whether a statement moves whole chunks from an array that its launch does not write to shared memory, one
    after another."""
    kernel, statement, innermost = threads.kernel, site.statement, site.ancestors[-1]
    phase = launched.phase_of(site.path)
    if phase is None or phase.is_warp_code or statement.op != "=" or statement.condition is not None:
        return False
    if not (isinstance(statement.value, Access) and isinstance(innermost, Scope) and "v" in innermost.marks):
        return False
    to, source = (kernel.buffer(access.buffer) for access in (statement.target, statement.value))
    lanes = innermost.extent.constant or 0
    return (
        to.storage == "shared"
        and source.storage == "heap"
        and to.dtype == source.dtype
        and lanes * to.dtype.itemsize % lir.WORD == 0
        and not any(
            launched.holds(other.path) and other.statement.target.buffer == source.name for other in kernel.sites
        )
    )


def _ends(kernel: Kernel, launched: Launched, copies: Collection[Path]) -> Iterator[Position]:
    """Behind the phases of some statements, and outside of conditions: one for those next to each other."""
    nodes: set[Path] = set()
    for path in copies:
        phase = launched.phase_of(path)
        assert phase is not None
        node = phase.path
        while len(node) - 1 > len(launched.body) and isinstance(kernel.at(node[:-1]), Guard):
            node = node[:-1]
        nodes.add(node)
    for *around, number in nodes:
        if (*around, number + 1) not in nodes:
            yield tuple(around), number + 1


Key = tuple[int | None, ...]
"""Which elements of an array code of threads touches: an index, where all threads have the same."""


@dataclass
class _Walk:
    """The first iterations of the loops of a block, in which it is counted how many groups are committed behind one
    that must have landed at a barrier."""

    threads: Threads
    launched: Launched
    barriers: Barriers
    copies: frozenset[Path]
    commits: frozenset[Position]
    groups: int = 0
    passed: list[tuple[int, Position]] = field(default_factory=list)
    """The barriers, each with the number of groups at that time."""
    issued: list[tuple[str, Key, int, int]] = field(default_factory=list)
    """The copies on their way: the array, the elements, the group, and how many barriers were passed before."""
    waits: dict[Position, int] = field(default_factory=dict)

    def counted(self) -> dict[Position, int]:
        """How many groups may be on their way at barriers."""
        kernel, path = self.threads.kernel, self.launched.body
        children = self.launched.children(kernel, path)
        self._among(path, children, (0,) * kernel.depth_of((*path, 0)))
        return self.waits

    def _among(self, path: Path, children: range, iteration: tuple[int, ...]) -> None:
        for i in children:
            self._come((path, i))
            self._visit((*path, i), iteration)
        self._come((path, children.stop))

    def _come(self, place: Position) -> None:
        self.groups += place in self.commits
        if place in self.barriers:
            self.passed.append((self.groups, place))

    def _visit(self, path: Path, iteration: tuple[int, ...]) -> None:
        node = self.threads.kernel.at(path)
        sizes = {size.name: size.value or 1 << 20 for size in self.threads.kernel.sizes}
        if isinstance(node, Statement) or any(phase.path == path for phase in self.launched.phases):
            for site in sites_inside(self.threads.kernel, path):
                self._run(site, sizes, iteration)
            return
        inside = range(len(node.body))
        if isinstance(node, Guard):
            if all(holds(condition, sizes, iteration) for condition in node.conditions):
                self._among(path, inside, iteration)
            return
        for i in range(min(ROUNDS, *(bound.evaluate(sizes, iteration) for bound in node.extent.bounds))):
            self._among(path, inside, (*iteration, i))

    def _run(self, site: Site, sizes: Mapping[str, int], iteration: tuple[int, ...]) -> None:
        def key(access: Access) -> Key:
            return tuple(
                i.evaluate(sizes, iteration)
                if isinstance(i, Affine) and all(depth < len(iteration) for depth in i.iterators)
                else None
                for i in access.indices
            )

        for access in site.statement.accesses:
            self._land(access.buffer, key(access))
        if site.path in self.copies:
            target = site.statement.target
            self.issued.append((target.buffer, key(target), self.groups, len(self.passed)))

    def _land(self, buffer: str, key: Key) -> None:
        """Has what is on its way to some elements land at the last barrier."""
        for one in [one for one in self.issued if one[0] == buffer and _meet(one[1], key)]:
            _, _, group, before = one
            if len(self.passed) > before:
                groups, place = self.passed[-1]
                self.waits[place] = min(self.waits.get(place, groups), groups - group - 1)
                self.issued.remove(one)


def _meet(one: Key, other: Key) -> bool:
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))
