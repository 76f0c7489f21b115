"""The memory accesses and barriers of each thread: read off the text of a kernel alone.

This is the other half of a wall. Barriers are derived from `threads` and `meetings`; whether they are enough is
proved from what stands here, which shares nothing with them, so that no error there can blind both. It is kept
simpler than they are. Who runs a statement is a number in mixed radix of the marks around it, and when is the list
of child numbers and iterators from the outside in.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from math import prod

from dojoir.ir.affine import Affine
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import MAY_ASSIGN, Access, Kernel, Node, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.support.frozen import dataclass

GRID = frozenset({"gx", "gy", "gz"})
BLOCK = frozenset({"bx", "by", "bz"})
LANE = frozenset({"lane"})
THREAD = BLOCK | LANE

TICKS = 1000
"""How far apart in time the children of a node are."""
WAITS, STORES = 500, 750
"""When, behind the scopes of its threads, what they put together passes its barrier, and is stored. What they leave
in shared memory is written before the barrier and read after it."""


@dataclass(frozen=True)
class LaunchedPart:
    """Block code that is one launch: some children of the node at `root`, below the first `fixed` iterators."""

    root: Path
    first: int
    last: int
    fixed: int

    def holds(self, path: Path) -> bool:
        """Whether a node is in it."""
        at = len(self.root)
        return is_inside(path, self.root) and len(path) > at and self.first <= path[at] <= self.last


@dataclass(frozen=True)
class Act:
    """An access of a statement at the time `when`, in its iterators: by the thread whose number is `by`, or by all
    that run it (None)."""

    number: int
    access: Access
    writes: bool
    by: str | None
    when: tuple[str, ...]


@dataclass(frozen=True)
class Digit:
    """A scope whose iterations are threads: its place, its depth, and how many there are at most."""

    path: Path
    depth: int
    extent: int
    is_lane: bool


@dataclass(frozen=True)
class CooperativeSum:
    """A cooperative accumulation of a nest's threads into elements that they share. The place of the outermost
    scope of the nest, the thread that stores it, and whether some of them must leave what they have in shared
    memory."""

    path: Path
    by: str
    through_memory: bool


def launches_of(kernel: Kernel) -> tuple[LaunchedPart, ...]:
    """The launches of a kernel: nests of grid scopes, and what stands beside them in host code."""
    return tuple(_launches(kernel, ()))


def _launches(kernel: Kernel, path: Path) -> Iterator[LaunchedPart]:
    children = body(kernel, path)
    of_host = [i for i, child in enumerate(children) if _holds(child, GRID)]
    begin = 0
    for i in (*of_host, len(children)):
        if begin < i:
            yield LaunchedPart(path, begin, i - 1, depth_inside(kernel, path))
        begin = i + 1
    for i in of_host:
        inner = (*path, i)
        if not marked(children[i], GRID):
            yield from _launches(kernel, inner)
            continue
        while len(body(kernel, inner)) == 1 and marked(body(kernel, inner)[0], GRID):
            inner = (*inner, 0)
        yield LaunchedPart(inner, 0, len(body(kernel, inner)) - 1, depth_inside(kernel, inner))


def marked(node: Node, marks: frozenset[str]) -> bool:
    """Whether a node is a scope with one of `marks`."""
    return isinstance(node, Scope) and not marks.isdisjoint(node.marks)


def _holds(node: Node, marks: frozenset[str]) -> bool:
    """Whether a node is such a scope, or has one inside."""
    return marked(node, marks) or (not isinstance(node, Statement) and any(_holds(n, marks) for n in node.body))


def body(kernel: Kernel, path: Path) -> tuple[Node, ...]:
    """The children of the node at `path`."""
    node = kernel.at(path) if path else kernel
    assert not isinstance(node, Statement)
    return node.body


def depth_inside(kernel: Kernel, path: Path) -> int:
    """How many iterators there are in the body of the node at `path`."""
    return sum(isinstance(node, Scope) for node in ancestors(kernel, (*path, 0)))


def lanes_of(node: Node) -> int:
    """How many lanes of a group run a scope: as its iterations, with those of a scope of lanes that is all it has,
    or together as an instruction; 1 for any other."""
    if not isinstance(node, Scope):
        return 1
    if marked(node, LANE):
        inside = lanes_of(node.body[0]) if len(node.body) == 1 and marked(node.body[0], LANE) else 1
        return max(node.constant_bound or 1, 1) * inside
    return max((hint.instruction.group for hint in node.hints if isinstance(hint, Use)), default=1)


@dataclass(frozen=True)
class Reading:
    """A kernel read for warps of `warp` threads."""

    kernel: Kernel
    warp: int

    # -- when ------------------------------------------------------------------------------------------------
    @cached_property
    def longest(self) -> int:
        """The number of components of a time (see `time`), the same for all statements."""
        return 2 * max(len(site.path) for site in self.kernel.sites) + 2

    def time(self, path: Path, late: int = 0) -> tuple[str, ...]:
        """The time at which the node at `path`, which need not be there, runs: positions and iterators from the
        outermost scope on, compared lexicographically. `late` is added to the last position."""
        found: list[str] = []
        depth = 0
        around = ancestors(self.kernel, path)
        for child, node in zip(path, around, strict=False):
            found.append(str(child * TICKS))
            if isinstance(node, Scope):
                found.append(f"i{depth}")
                depth += 1
        found.append(str(path[-1] * TICKS + late))
        return (*found, *["0"] * (self.longest - len(found)))

    # -- who -------------------------------------------------------------------------------------------------
    def digits(self, path: Path) -> tuple[Digit, ...]:
        """The scopes around a node whose iterations are threads, outermost first."""
        found: list[Digit] = []
        depth = 0
        for length, node in enumerate(ancestors(self.kernel, path), 1):
            if isinstance(node, Scope):
                if marked(node, THREAD):
                    extent = node.constant_bound
                    assert extent is not None, "how many threads there are is a constant"
                    found.append(Digit(path[:length], depth, max(extent, 1), marked(node, LANE)))
                depth += 1
        return tuple(found)

    def lanes_below(self, digits: tuple[Digit, ...]) -> int:
        """How many lanes each thread that `digits` count is in truth: as many of those inside of the innermost
        scope of a block as have the same digits."""
        blocks = [digit for digit in digits if not digit.is_lane] or digits[:1]
        if not blocks:
            return 1
        inside = max((lanes_of(node) for _, node in self._scopes_in(blocks[-1].path)), default=1)
        return max(1, inside // prod(digit.extent for digit in digits if digit.is_lane))

    def _scopes_in(self, path: Path) -> Iterator[tuple[Path, Scope]]:
        for own, node in self.kernel.walk():
            if isinstance(node, Scope) and is_inside(own, path):
                yield own, node

    def has_threads(self, launch: LaunchedPart) -> bool:
        """Whether a block of a launch has more threads than one."""
        inside = (self.digits(site.path) for site in self.kernel.sites if launch.holds(site.path))
        return any(prod(digit.extent for digit in found) * self.lanes_below(found) > 1 for found in inside)

    def thread(self, digits: tuple[Digit, ...], without: tuple[Digit, ...] = ()) -> str:
        """The number of the thread (its first lane) at some iterators; those of `without` are 0."""
        number, stride = ["0"], self.lanes_below(digits)
        for digit in reversed(digits):
            if digit not in without:
                number.append(f"{stride}*i{digit.depth}")
            stride *= digit.extent
        return " + ".join(number)

    def warp_code(self, path: Path) -> Path | None:
        """The innermost scope of a block around a node, where there is warp code in it: code around lanes that
        are not all of it."""
        blocks = [digit for digit in self.digits(path) if not digit.is_lane]
        if not blocks:
            return None
        inner = blocks[-1].path
        lanes = [
            own
            for own, node in self._scopes_in(inner)
            if (lanes_of(node) > 1 or marked(node, LANE)) and not marked(self.kernel.at(own[:-1]), LANE)
        ]
        return inner if lanes and not (lanes == [(*inner, 0)] and len(body(self.kernel, inner)) == 1) else None

    # -- what ------------------------------------------------------------------------------------------------
    def acts(self, launch: LaunchedPart) -> Iterator[Act]:
        """The accesses of a launch's threads to memory that others see and that some of them write."""
        inside = [(n, site) for n, site in enumerate(self.kernel.sites) if launch.holds(site.path)]
        written = {site.statement.target.buffer for _, site in inside}
        for number, site in inside:
            for act in self._of_statement(number, site):
                if act.access.buffer in written and self._is_common(act.access.buffer):
                    yield act

    def _is_common(self, name: str) -> bool:
        buffer = self.kernel.buffer(name)
        return buffer.role != "tmp" or buffer.storage not in ("reg", "stack")

    def _of_statement(self, number: int, site: Site) -> Iterator[Act]:
        digits, target = self.digits(site.path), site.statement.target
        when, by = self.time(site.path), self.thread(digits)
        alone = bool(digits) and self.lanes_below(digits) == 1 and not self._shares_out(digits, target)
        grouped = any(lanes_of(node) > 1 and not marked(node, LANE) for node in site.scopes)
        for read in _reads(site.statement):
            yield Act(number, read, False, by if alone else None, when)
        together = self.together(site)
        if together is not None:
            stored = self.time(together.path, STORES)
            yield Act(number, target, True, together.by, stored)
        else:
            yield Act(number, target, True, None if grouped and not alone else by, when)

    def _shares_out(self, digits: tuple[Digit, ...], target: Access) -> bool:
        """Whether a statement in lanes assigns to registers and two digits count the lanes of some nest: then
        several lanes may run each of its iterations."""
        held = self.kernel.buffer(target.buffer).storage in ("reg", "stack")
        lanes = [path for path, node in self.kernel.walk() if marked(node, LANE)]
        return held and bool(digits) and digits[-1].is_lane and any(path[:-1] in lanes for path in lanes)

    def together(self, site: Site) -> CooperativeSum | None:
        """The cooperative accumulation by a statement, if there is one."""
        digits, statement = self.digits(site.path), site.statement
        if statement.accumulation in (None, MAY_ASSIGN) or not digits:
            return None
        nest = digits
        if self.warp_code(site.path) is not None:
            nest = tuple(digit for digit in digits if digit.is_lane)
        if not nest or self._stays_inside(statement.target.buffer, nest[-1].path):
            return None
        indices = [*self._stored(statement.target)]
        if any(isinstance(i, Access) and self._stays_inside(i.buffer, nest[-1].path) for i in indices):
            return None  # each thread has a place of its own
        used = {d for index in indices for d in _iterators(index)}
        shared = tuple(digit for digit in nest if digit.depth not in used and digit.extent > 1)
        if not shared:
            return None
        return CooperativeSum(nest[0].path, self.thread(digits, shared), not self._in_warps(nest, shared))

    def _stays_inside(self, name: str, path: Path) -> bool:
        """Whether a buffer is a temporary of the code inside the scope at `path`, so each thread's own."""
        users = [
            site.path
            for site in self.kernel.sites
            if any(access.buffer == name for access in (*_reads(site.statement), site.statement.target))
        ]
        return self.kernel.buffer(name).role == "tmp" and all(is_inside(user, path) for user in users)

    def _stored(self, access: Access) -> Iterator[Affine | Access]:
        for index, dim in zip(access.indices, self.kernel.buffer(access.buffer).dims, strict=True):
            if not dim.collapsed:
                yield index

    def _in_warps(self, nest: tuple[Digit, ...], shared: tuple[Digit, ...]) -> bool:
        """Whether those that share an element are neighbours in one warp, as many as a power of two: counted."""
        size = prod(digit.extent for digit in shared)
        if size & (size - 1) or size > self.warp:
            return False
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, values in enumerate(product(*(range(digit.extent) for digit in nest))):
            own = tuple(value for value, digit in zip(values, nest, strict=True) if digit not in shared)
            groups.setdefault(own, []).append(number)
        return all(numbers == [*range(numbers[0], numbers[0] + size)] for numbers in groups.values())


def _reads(statement: Statement) -> Iterator[Access]:
    """All elements that a statement reads, those of indices from data too, each once; that it accumulates into is
    what it writes."""
    yield from dict.fromkeys(inner for access in statement.term_reads for inner in access.accesses())


def _iterators(index: Affine | Access) -> frozenset[int]:
    if isinstance(index, Affine):
        return index.iterators
    return frozenset(d for inner in index.indices for d in _iterators(inner))
