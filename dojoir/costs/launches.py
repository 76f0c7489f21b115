"""About how long a kernel takes on a GPU, from its text alone: what a plan is chosen by.

Each launch takes the longest of what it asks of the parts of the machine. These are memory, for the elements that
are touched at all; the second cache, for the sectors of 32 bytes that warps ask for, the arithmetic and the load
units of the multiprocessors that have a block, and the longest chain of steps that wait for each other in a
thread, once for each wave of blocks. What has no mark of a grid runs on one thread. `thread_work` says what a
statement asks for.

Source: S. Hong and H. Kim, "An analytical model for a GPU architecture with memory-level and thread-level
parallelism awareness" (2009), of which this keeps the two parallelisms and drops the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product
from math import ceil, prod

from dojoir.backends.machine import Machine
from dojoir.costs.thread_work import (
    GRID_MARKS,
    RESIDENT,
    SCHEDULERS,
    SECTOR,
    SLOW,
    THREADS,
    Arrays,
    CountedLoop,
    Work,
    multiplied_on_units,
)
from dojoir.ir.affine import SizeVar
from dojoir.ir.expressions import affine_parts, parts
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import Buffer, Condition, Guard, Kernel, Node, Op, Path, Scope, Site, Statement, holds
from dojoir.support.memo import Memo
from dojoir.types.quads import QUAD, multiplies_bytes

LARGE = 24
"""The exponent of the sizes that stand for unknown ones: the argument that most of them are in has two to this
power elements. So a product of three is one of large matrices."""

MANY, FEW = 1 << 20, 64
"""Open sizes at which the memory of temporaries is asked for."""

REGISTERS, OWN_REGISTERS = 1 << 16, 32
"""The registers of a multiprocessor, of 4 bytes, and those that a thread has beside its arrays."""

SAMPLES = 8
"""At so many iterations of a loop around a scope its extent is asked for."""


def launch_seconds(kernel: Kernel, machine: Machine, sizes: Mapping[str, int]) -> float:
    """About how many seconds a kernel takes on a GPU at given sizes, launches included. Never fails on a
    well-formed kernel; sizes that are not given are large ones."""
    return _Launches(kernel, machine, known_sizes(kernel, sizes)).seconds(kernel.body, ())


def node_seconds(kernel: Kernel, path: Path, machine: Machine, sizes: Mapping[str, int]) -> float:
    """The same for one node at the top of the text."""
    assert len(path) == 1
    return _Launches(kernel, machine, known_sizes(kernel, sizes)).seconds([kernel.at(path)], ())


def floor_seconds(kernel: Kernel, machine: Machine, sizes: Mapping[str, int], path: Path | None = None) -> float:
    """The least that a kernel, or the node at `path`, can take on a GPU, whatever its schedule. Its arguments, or
    what it touches, once through memory, or its operations at the peak of all multiprocessors."""
    launches = _Launches(kernel, machine, known_sizes(kernel, sizes))
    far = float(sum(launches.bytes[buffer.name] for buffer in kernel.arguments))
    nodes = kernel.body
    if path is not None:
        nodes, far = (kernel.at(path),), launches.touched(kernel.at(path))
    operations = 0.0
    for node in nodes:
        for statement, loops, _ in launches.statements(node, ()):
            together = launches.at_once(statement)
            operations += _least_operations(statement, [loop.trips for loop in loops]) / together
    lanes = 32 * SCHEDULERS * max(1, machine.multiprocessors)
    return launches.rates.launch + max(far / launches.rates.memory, operations / lanes / launches.rates.clock)


def temporary_share(kernel: Kernel, sizes: Mapping[str, int]) -> float:
    """How many times the memory of its arguments the temporaries of a kernel take that lie in memory: the most of
    it at given sizes, and where any two of the open ones are large."""
    some = combinations_with_replacement(kernel.runtime_sizes, 2)
    large = [{name: MANY if name in two else FEW for name in kernel.runtime_sizes} for two in some]
    return max(share_at(kernel, each) for each in (sizes, *large))


def share_at(kernel: Kernel, sizes: Mapping[str, int]) -> float:
    """The same at given sizes; those that are not given are large."""
    known = known_sizes(kernel, sizes)
    own = sum(_bytes(b, known) for b in kernel.buffers if b.role == "tmp" and b.storage == "heap")
    return own / max(1, sum(_bytes(b, known) for b in kernel.arguments))


def _bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    extents = (max(1, dim.extent.evaluate(sizes)) for dim in buffer.dims if not dim.collapsed)
    return buffer.dtype.itemsize * prod(extents)


def _least_operations(statement: Statement, trips: Sequence[int]) -> float:
    """How many instructions a statement is in all iterations, whatever the schedule: what is the same in all
    iterations of a scope can be computed once."""
    ops = [part for part in parts(statement.value) if isinstance(part, Op)]
    found = float(prod(trips)) * max(1, sum(part.name not in SLOW for part in ops))
    for part in ops:
        along = {depth for affine in affine_parts(part) for depth in affine.iterators}
        found += SLOW.get(part.name, 0) * prod(trips[depth] for depth in along)
    return found


def crosses_launches(kernel: Kernel) -> bool:
    """Whether a temporary that is not in memory is used by several launches, which nothing but memory connects."""
    apart = [buffer.name for buffer in kernel.buffers if buffer.role == "tmp" and buffer.storage != "heap"]
    if not apart:
        return False
    places: dict[str, set[Path]] = {}
    for site in kernel.sites:
        for name in site.statement.buffers.intersection(apart):
            places.setdefault(name, set()).add(_launch_of(site))
    return any(len(places.get(name, ())) > 1 for name in apart)


def _launch_of(site: Site) -> Path:
    """The place of the launch that a statement is in: of the outermost scope with a mark of a GPU, or of all that
    host code runs on one thread there."""
    for n, node in enumerate(site.ancestors, 1):
        if isinstance(node, Scope) and _is_grid(node):
            return site.path[:n]
    return site.path[:1]


def known_sizes(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a kernel: fixed ones, given ones, and large ones for all others."""
    known = {size.name: sizes.get(size.name, size.value) for size in kernel.sizes}
    unknown = {name for name, value in known.items() if value is None}
    arrays = (
        {atom.name for dim in b.dims for atom in dim.extent.atoms() if isinstance(atom, SizeVar)}
        for b in kernel.arguments
    )
    most = max((len(unknown & of) for of in arrays), default=0) or len(unknown)
    return {name: 1 << LARGE // most if value is None else value for name, value in known.items()}


class _Launches(Arrays):
    """The launches of a kernel."""

    def at_once(self, statement: Statement) -> float:
        """How many iterations of a statement a lane of a multiprocessor does in a cycle at most."""
        on_units = multiplied_on_units(statement, self.machine, self.buffers.__getitem__, computed=True)
        if on_units:
            return max(1.0, on_units / (32 * SCHEDULERS))
        return QUAD if multiplies_bytes(statement, self.buffers.__getitem__) else 1

    def seconds(self, nodes: Sequence[Node], around: tuple[CountedLoop, ...]) -> float:
        """Of nodes of host code, in loops of the host."""
        times, total = prod(loop.trips for loop in around), 0.0
        for node in nodes:
            if isinstance(node, Guard) and not all(map(self.may_hold, node.conditions)):
                continue
            if isinstance(node, Guard) and _has_grid(node):
                total += self.seconds(node.body, around)
            elif isinstance(node, Scope) and _has_grid(node) and not _is_grid(node):
                total += self.seconds(node.body, (*around, self.loop(node, around)))
            else:
                total += times * self.launch(node, around)
        return total

    def may_hold(self, condition: Condition) -> bool:
        """Whether a condition of host code holds, or is on an iterator."""
        return bool(condition.left.iterators | condition.right.iterators) or holds(condition, self.sizes, ())

    def loop(self, scope: Scope, around: Sequence[CountedLoop]) -> CountedLoop:
        """A scope, with its mean number of iterations over those of the loops around it: of some that are evenly
        spaced. Threads wait for the one of them that has most."""
        bounds = scope.extent.bounds
        asked = sorted({depth for bound in bounds for depth in bound.iterators})
        waited = [d for d in asked if around[d].has(THREADS)]
        means = []
        for others in self.samples(around, [d for d in asked if d not in waited]):
            most = 0
            for threads in self.samples(around, waited):
                known = {**others, **threads}
                place = tuple(known.get(d, 0) for d in range(len(around)))
                most = max(most, min(bound.evaluate(self.sizes, place) for bound in bounds))
            means.append(most)
        trips = sum(means) / len(means)
        most = (scope.constant_bound or 0) if THREADS.intersection(scope.marks) else 0
        group = max((hint.instruction.group for hint in scope.hints if isinstance(hint, Use)), default=1)
        return CountedLoop(ceil(trips) if trips < 1 else round(trips), scope.marks, not asked, most, group)

    def samples(self, around: Sequence[CountedLoop], depths: Sequence[int]) -> list[dict[int, int]]:
        """Values of the iterators of some loops, evenly spaced, together with each other's."""
        spaced = [
            range(max(1, n)) if n <= SAMPLES else [i * (n - 1) // (SAMPLES - 1) for i in range(SAMPLES)]
            for n in (around[d].trips for d in depths)
        ]
        return [dict(zip(depths, values, strict=True)) for values in product(*spaced)]

    def launch(self, node: Node, around: tuple[CountedLoop, ...]) -> float:
        """Seconds of one launch. They follow from the node, the loops around it, and the declarations of what it
        uses, at these sizes: a plan asks for them again whenever it tries something elsewhere."""
        declared = tuple(self.buffers[name] for name in sorted(node.buffers))
        asked = node, around, declared, tuple(self.sizes.items()), self.machine
        known = _launches.get(asked)
        return known if known is not None else _launches.put(asked, self._launch(node, around))

    def _launch(self, node: Node, around: tuple[CountedLoop, ...]) -> float:
        found = [Work(self, *work, len(around)) for work in self.statements(node, around)]
        if not found:
            return self.rates.launch
        blocks = max(work.blocks for work in found)
        threads = max(work.threads for work in found)
        multiprocessors = max(1, self.machine.multiprocessors)
        resident = self.resident(found, threads)
        waves = ceil(blocks / (multiprocessors * resident))
        rounds = ceil(blocks / multiprocessors)  # of a multiprocessor, one block after the other
        issued, loaded = sum(work.issued for work in found), sum(work.loaded for work in found)
        apart = sum(max(work.issued, work.loaded) for work in found)
        block = self.rates.begin + max(issued, loaded) + (apart - max(issued, loaded)) / resident
        chain = waves * (block + sum(work.chain for work in found))
        far = self._touched(found) / self.rates.memory
        cache = blocks * sum(work.sectors for work in found) * SECTOR / self.rates.cache
        asked = far, cache, rounds * block / self.rates.clock, chain / self.rates.clock
        return self.rates.launch + max(asked) + self.rates.hidden * (sum(asked) - max(asked))

    def resident(self, found: Sequence[Work], threads: int) -> int:
        """How many blocks a multiprocessor has at a time, by its threads, registers and shared memory."""
        registers, shared = dict[str, float](), set[str]()
        for work in found:
            shared |= work.shared
            for name, words in work.words.items():
                registers[name] = max(words, registers.get(name, 0.0))
        each = min(self.machine.thread_registers or 255, OWN_REGISTERS + sum(registers.values()))
        room = max(1, self.machine.shared_bytes)
        limits = (
            32,
            RESIDENT // max(32, threads),
            int(REGISTERS / each / max(32, threads)),
            room // max(1, sum(self.bytes[name] for name in shared)),
        )
        return max(1, min(limits))

    def touched(self, node: Node) -> float:
        """The bytes of arrays that a node touches."""
        return self._touched([Work(self, *work, 0) for work in self.statements(node, ())])

    def _touched(self, found: Sequence[Work]) -> float:
        touched: dict[str, float] = {}
        for work in found:
            for name, amount in work.touched.items():
                touched[name] = min(self.bytes[name], touched.get(name, 0.0) + amount)
        return sum(touched.values())

    def statements(
        self, node: Node, around: tuple[CountedLoop, ...], asked: tuple[Condition, ...] = ()
    ) -> Iterator[tuple[Statement, tuple[CountedLoop, ...], tuple[Condition, ...]]]:
        """The statements of a node, with the loops around each and the conditions that it is under."""
        if isinstance(node, Statement):
            yield node, around, asked
            return
        inside = (*around, self.loop(node, around)) if isinstance(node, Scope) else around
        asked = (*asked, *node.conditions) if isinstance(node, Guard) else asked
        for child in node.body:
            yield from self.statements(child, inside, asked)


_launches: Memo[tuple[object, ...], float] = Memo(2048, of_key=True)
"""The seconds of launches."""


def _is_grid(node: Scope) -> bool:
    return any(mark in GRID_MARKS or mark in THREADS for mark in node.marks)


def _has_grid(node: Node) -> bool:
    if isinstance(node, Statement):
        return False
    return (isinstance(node, Scope) and _is_grid(node)) or any(map(_has_grid, node.body))
