"""About how long a kernel takes on a GPU, from its text alone: what a plan is chosen by.

Each launch takes the longest of what it asks of the parts of the machine. These are memory, for the elements that
are touched at all; the second cache, for the sectors of 32 bytes that warps ask for, the arithmetic and the load
units of the multiprocessors that have a block, and the longest chain of steps that wait for each other in a
thread, once for each wave of blocks. What has no mark of a grid runs on one thread.

Source: S. Hong and H. Kim, "An analytical model for a GPU architecture with memory-level and thread-level
parallelism awareness" (2009), of which this keeps the two parallelisms and drops the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import ceil, gcd, inf, prod

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.ir.affine import Affine, FloorDiv, Mod
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Condition, Guard, Kernel, Node, Op, Path, Scope, Site, Statement, holds
from dojoir.proof.core.marks import BLOCK, GRID
from dojoir.support.frozen import dataclass

LARGE = 24
"""The exponent of the size that stands for unknown ones: their product is two to this power."""

SECTOR = 32
"""The bytes that come from the second cache together."""

REGISTERS, OWN_REGISTERS = 1 << 16, 32
"""The registers of a multiprocessor, of 4 bytes, and those that a thread has beside its arrays."""

SCHEDULERS = 4
"""How many warps of a multiprocessor begin an instruction in a cycle."""

RESIDENT = 2048
"""The most threads on a multiprocessor at a time."""

HIT = 0.25
"""The share of a load's cycles that one from the first cache takes."""

TEST = 4
"""Instructions of a condition."""

DIVISION = 6
"""Instructions of a division of an index by a constant that is no power of two."""

PREDICATE = 0.35
"""Those of each statement under conditions, to have their answers at hand: there are few registers for these."""

SAMPLES = 8
"""At so many iterations of a loop around a scope its extent is asked for."""

SLOW = {"div": 9, "sqrt": 8, "rsqrt": 4, "exp": 4, "log": 4, "exp2": 4, "log2": 4, "tanh": 15, "erf": 20, "pow": 30,
        "sigmoid": 10, "sin": 20, "cos": 20, "tan": 30, "atan": 20, "expm1": 15, "log1p": 15, "floordiv": 20,
        "mod": 20}  # fmt: skip
"""Instructions of operations that are no single one."""

THREADS = frozenset({*BLOCK, "lane"})


@dataclass(frozen=True)
class Loop:
    """A scope around a statement: how often it runs, and its marks."""

    trips: int
    marks: tuple[str, ...]
    fixed: bool = True
    """Whether that is so in all iterations of the loops around it."""

    def has(self, marks: frozenset[str]) -> bool:
        return not marks.isdisjoint(self.marks)


def launch_seconds(kernel: Kernel, machine: Machine, sizes: Mapping[str, int]) -> float:
    """About how many seconds a kernel takes on a GPU at given sizes, launches included. Never fails on a
    well-formed kernel; sizes that are not given are large ones."""
    return _Launches(kernel, machine, _known(kernel, sizes)).seconds(kernel.body, ())


def node_seconds(kernel: Kernel, path: Path, machine: Machine, sizes: Mapping[str, int]) -> float:
    """The same for one node at the top of the text."""
    assert len(path) == 1
    return _Launches(kernel, machine, _known(kernel, sizes)).seconds([kernel.at(path)], ())


def floor_seconds(kernel: Kernel, machine: Machine, sizes: Mapping[str, int], path: Path | None = None) -> float:
    """The least that a kernel, or the node at `path`, can take on a GPU, whatever its schedule. Its arguments, or
    what it touches, once through memory, or its operations at the peak of all multiprocessors."""
    launches = _Launches(kernel, machine, _known(kernel, sizes))
    far = float(sum(launches.bytes[buffer.name] for buffer in kernel.arguments))
    nodes = kernel.body
    if path is not None:
        nodes, far = (kernel.at(path),), launches.touched(kernel.at(path))
    operations = 0.0
    for node in nodes:
        for statement, loops, _ in launches.statements(node, ()):
            operations += prod(loop.trips for loop in loops) * _operations(statement)
    lanes = 32 * SCHEDULERS * max(1, machine.multiprocessors)
    return launches.rates.launch + max(far / launches.rates.memory, operations / lanes / launches.rates.clock)


def crosses_launches(kernel: Kernel) -> bool:
    """Whether a temporary that is not in memory is used by several launches, which nothing but memory connects."""
    places: dict[str, set[Path]] = {}
    for site in kernel.sites:
        for access in site.statement.accesses:
            for one in access.accesses():
                places.setdefault(one.buffer, set()).add(_launch_of(site))
    return any(
        len(places.get(buffer.name, ())) > 1
        for buffer in kernel.buffers
        if buffer.role == "tmp" and buffer.storage != "heap"
    )


def _launch_of(site: Site) -> Path:
    """The place of the launch that a statement is in: of the outermost scope with a mark of a GPU, or of all that
    host code runs on one thread there."""
    for n, node in enumerate(site.ancestors, 1):
        if isinstance(node, Scope) and _is_grid(node):
            return site.path[:n]
    return site.path[:1]


def _known(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a kernel: fixed ones, given ones, and large ones for all others."""
    known = {size.name: sizes.get(size.name, size.value) for size in kernel.sizes}
    unknown = sum(value is None for value in known.values())
    return {name: 1 << LARGE // unknown if value is None else value for name, value in known.items()}


def _operations(statement: Statement) -> int:
    """How many instructions a statement is, loads and stores aside: a product that is added is one."""
    ops = [part for part in parts(statement.value) if isinstance(part, Op)]
    return max(1, sum(SLOW.get(op.name, 1) for op in ops))


class _Launches:
    def __init__(self, kernel: Kernel, machine: Machine, sizes: Mapping[str, int]) -> None:
        self.sizes, self.machine, self.rates = sizes, machine, machine.rates
        self.buffers = {buffer.name: buffer for buffer in kernel.buffers}
        self.strides: dict[str, tuple[int, ...]] = {}
        self.bytes: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for buffer in kernel.buffers:
            shape = [1 if d.collapsed else max(1, d.extent.evaluate(sizes)) for d in buffer.dims]
            self.shapes[buffer.name] = tuple(shape)
            strides, stride = [0] * len(shape), buffer.dtype.itemsize
            for d in reversed(buffer.order or range(len(shape))):
                strides[d] = 0 if buffer.dims[d].collapsed else stride
                stride *= shape[d]
            self.strides[buffer.name], self.bytes[buffer.name] = tuple(strides), stride

    def seconds(self, nodes: Sequence[Node], around: tuple[Loop, ...]) -> float:
        """Of nodes of host code, in loops of the host."""
        times, total = prod(loop.trips for loop in around), 0.0
        for node in nodes:
            if isinstance(node, Guard) and _has_grid(node):
                if all(self.may_hold(condition) for condition in node.conditions):
                    total += self.seconds(node.body, around)
            elif isinstance(node, Scope) and _has_grid(node) and not _is_grid(node):
                total += self.seconds(node.body, (*around, self.loop(node, around)))
            else:
                total += times * self.launch(node, around)
        return total

    def may_hold(self, condition: Condition) -> bool:
        """Whether a condition of host code holds, or is on an iterator."""
        return bool(condition.left.iterators | condition.right.iterators) or holds(condition, self.sizes, ())

    def loop(self, scope: Scope, around: Sequence[Loop]) -> Loop:
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
        return Loop(ceil(trips) if trips < 1 else round(trips), scope.marks, not asked)

    def samples(self, around: Sequence[Loop], depths: Sequence[int]) -> list[dict[int, int]]:
        """Values of the iterators of some loops, evenly spaced, together with each other's."""
        spaced = [
            range(max(1, n)) if n <= SAMPLES else [i * (n - 1) // (SAMPLES - 1) for i in range(SAMPLES)]
            for n in (around[d].trips for d in depths)
        ]
        return [dict(zip(depths, values, strict=True)) for values in product(*spaced)]

    def launch(self, node: Node, around: tuple[Loop, ...]) -> float:
        """Seconds of one launch."""
        found = [_Work(self, *work, len(around)) for work in self.statements(node, around)]
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

    def resident(self, found: Sequence[_Work], threads: int) -> int:
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
        return self._touched([_Work(self, *work, 0) for work in self.statements(node, ())])

    def _touched(self, found: Sequence[_Work]) -> float:
        touched: dict[str, float] = {}
        for work in found:
            for name, amount in work.touched.items():
                touched[name] = min(self.bytes[name], touched.get(name, 0.0) + amount)
        return sum(touched.values())

    def statements(
        self, node: Node, around: tuple[Loop, ...], asked: tuple[Condition, ...] = ()
    ) -> Iterator[tuple[Statement, tuple[Loop, ...], tuple[Condition, ...]]]:
        """The statements of a node, with the loops around each and the conditions that it is under."""
        if isinstance(node, Statement):
            yield node, around, asked
            return
        inside = (*around, self.loop(node, around)) if isinstance(node, Scope) else around
        asked = (*asked, *node.conditions) if isinstance(node, Guard) else asked
        for child in node.body:
            yield from self.statements(child, inside, asked)


class _Work:
    """The work of one statement in a block: issue cycles of its warps, sectors, the dependence chain of a
    thread."""

    def __init__(
        self,
        launches: _Launches,
        statement: Statement,
        loops: tuple[Loop, ...],
        asked: tuple[Condition, ...],
        host: int,
    ) -> None:
        self.launches, self.loops, self.host, rates = launches, loops, host, launches.rates
        inside = range(host, len(loops))
        self.blocks = prod(loops[d].trips for d in inside if loops[d].has(GRID_MARKS))
        self.own = [d for d in inside if not loops[d].has(GRID_MARKS | THREADS)]
        shared = [d for d in inside if loops[d].has(THREADS)]
        self.threads = max(1, prod(loops[d].trips for d in shared))
        self.warps = ceil(self.threads / 32)
        self.resident = self.threads * max(1, min(32, RESIDENT // max(32, self.threads)))
        if self.blocks < launches.machine.multiprocessors:
            self.resident = self.threads
        self.thread = next((d for d in reversed(shared) if loops[d].trips > 1), None)
        serial = prod(loops[d].trips for d in self.own)
        self.touched: dict[str, float] = {}
        self.words: dict[str, float] = {}
        self.shared: set[str] = set()
        self.sectors = 0.0
        spelled = {d for d in self.own if {"u", "v"}.intersection(loops[d].marks)}
        tests = sum(self.asked_of(condition, spelled) for condition in asked)
        rounds = prod(loops[d].trips for d in self.own if d not in spelled)
        kept = PREDICATE * serial if tests else 0.0
        self.issued: float = (
            self.warps * (serial * _operations(statement) + kept + TEST * tests * rounds) / SCHEDULERS
        )
        self.issued += self.warps * sum(map(self.division, self.divisions(statement, asked))) / SCHEDULERS
        self.loaded = 0.0
        apart = {d for d in spelled if self.moves(statement.target, d)}
        steps = prod(loops[d].trips for d in self.own if d not in apart)
        self.chain: float = steps * (rates.sum if statement.accumulation is not None else 1)
        if statement.accumulation is not None:
            together = [d for d in shared if loops[d].trips > 1 and not self.moves(statement.target, d)]
            if together:
                self.chain += rates.in_warp if all("lane" in loops[d].marks for d in together) else rates.together
        waits, near = [0.0], set[tuple[object, ...]]()
        for access in dict.fromkeys(statement.reads):
            place = _but_offsets(access)
            waits.append(self.access(access, near=place in near))
            near.add(place)
        self.chain += max(waits)
        self.access(statement.target, stored=True)

    def divisions(self, statement: Statement, asked: Iterable[Condition]) -> set[FloorDiv | Mod]:
        """The divisions in the indices and conditions of a statement, each once."""
        indices = [index for access in statement.accesses for one in access.accesses() for index in one.indices]
        sides = [side for condition in asked for side in (condition.left, condition.right)]
        affine = [index for index in (*indices, *sides) if isinstance(index, Affine)]
        return {atom for index in affine for atom in _divisions(index)}

    def division(self, atom: FloorDiv | Mod) -> float:
        """The instructions of a division in a thread."""
        each = 1 if atom.divisor & (atom.divisor - 1) == 0 else DIVISION
        depths = Affine.atom(atom).iterators
        return each * prod(self.loops[d].trips for d in self.own if d in depths)

    def asked_of(self, condition: Condition, spelled: set[int]) -> int:
        """How often a condition is asked for all iterations that are written out: once for those that are alike for
        it, and not at all for those of which a compiler can tell."""
        iterators = condition.left.iterators | condition.right.iterators
        own, others = sorted(spelled & iterators), sorted(iterators - spelled)
        if not own:
            return 0
        found = [
            {self.holds(condition, (*zip(own, at, strict=True), *end)) for end in self.ends(others)}
            for at in product(*(range(self.loops[d].trips) for d in own))
        ]
        return sum(len(answers) > 1 for answers in found)

    def ends(self, depths: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
        """The first and the last of the iterators of some depths, together with each other's."""
        for chosen in product(*({0, max(self.loops[d].trips - 1, 0)} for d in depths)):
            yield tuple(zip(depths, chosen, strict=True))

    def holds(self, condition: Condition, at: Iterable[tuple[int, int]]) -> bool:
        """Whether a condition holds where iterators are so, and others 0."""
        known = dict(at)
        return holds(condition, self.launches.sizes, tuple(known.get(d, 0) for d in range(len(self.loops))))

    def access(self, access: Access, *, stored: bool = False, near: bool = False) -> float:
        """Adds what an access asks for, and gives the cycles that a thread waits for all of its loads."""
        buffer, rates = self.launches.buffers[access.buffer], self.launches.rates
        if buffer.storage in ("reg", "stack") or (buffer.role == "in" and not buffer.dims):
            return self.in_registers(access)
        deepest = max((n for n, d in enumerate(self.own, 1) if self.moves(access, d)), default=0)
        times = prod(
            self.loops[d].trips
            for d in self.own[:deepest]
            if self.moves(access, d) or not {"u", "v"}.intersection(self.loops[d].marks)
        )
        vector = self.together(access)
        requests = max(1.0, times / vector)
        if buffer.storage == "shared":
            self.shared.add(access.buffer)
            self.loaded += requests * self.warps * max(1, vector // 2)
            return requests * rates.near / rates.ahead
        itemsize = buffer.dtype.itemsize
        item = vector * itemsize
        lanes = min(32, self.threads)
        step = self.step(access, self.thread) if self.thread is not None else 0
        apart = SECTOR if step is None else abs(step)
        sectors = max(1.0, min(lanes * ceil(item / SECTOR), ((lanes - 1) * apart + item) / SECTOR))
        asked = requests * self.warps * sectors
        missed = min(asked, self.missed(access, deepest))
        missed = asked if stored else 0.0 if near else missed  # the first cache keeps no stores
        self.loaded += requests * self.warps * max(1.0, sectors / 2 * max(missed / asked, HIT))
        self.sectors += missed
        chain = requests * (rates.far * missed / asked + rates.near) / rates.ahead
        every = range(self.host, len(self.loops))
        most = prod(self.loops[d].trips for d in every if self.moves(access, d)) * SECTOR
        self.touched[access.buffer] = self.touched.get(access.buffer, 0.0) + min(self.box(access, every), most)
        for index in access.indices:
            if isinstance(index, Access):
                chain += self.access(index)
        return chain

    def in_registers(self, access: Access) -> float:
        """The cycles that a thread waits for its own array: none for registers, which have no index that is known
        only when a thread runs. Where there is one, the array is in memory."""
        own = [d for d in self.own if self.step(access, d) != 0]
        if all({"u", "v"}.intersection(self.loops[d].marks) and self.loops[d].fixed for d in own):
            self.words[access.buffer] = self.box(access, own) / 4
            return 0.0
        requests = prod(self.loops[d].trips for d in self.own)
        self.loaded += requests * self.warps
        return requests * self.launches.rates.near

    def missed(self, access: Access, deepest: int) -> float:
        """The sectors of a block that the first cache does not have. It keeps what the innermost loops touch that
        leave room for the other blocks there."""
        inner = [d for d in range(self.host, len(self.loops)) if self.loops[d].has(THREADS)]
        room = self.launches.rates.kept * self.threads / self.resident
        kept = inf
        for n in range(deepest, -1, -1):
            inside = self.sectors_of(access, [*inner, *self.own[n:]])
            if inside * SECTOR > room:
                break
            kept = inside * prod(self.loops[d].trips for d in self.own[:n])
        return kept

    def sectors_of(self, access: Access, depths: Sequence[int]) -> float:
        """How many sectors an access touches while some iterators run."""
        itemsize = self.launches.buffers[access.buffer].dtype.itemsize
        near = max((abs(self.step(access, d) or 0) * self.loops[d].trips for d in depths
                    if abs(self.step(access, d) or 0) <= SECTOR), default=itemsize)  # fmt: skip
        return self.box(access, depths) / min(SECTOR, max(near, itemsize))

    def together(self, access: Access) -> int:
        """How many neighbours one instruction moves: those of a scope in lanes, or of one that is written out,
        where their first is at a multiple of so many."""
        itemsize = self.launches.buffers[access.buffer].dtype.itemsize
        for d in reversed(self.own):
            loop = self.loops[d]
            if {"u", "v"}.isdisjoint(loop.marks):
                break
            if self.moves(access, d):
                if self.step(access, d) != itemsize or not loop.fixed:
                    return 1
                apart = [self.start(access), ACCESS_BYTES, loop.trips * itemsize]
                apart += [self.step(access, other) or 0 for other in range(len(self.loops)) if other != d]
                return max(1, gcd(*apart) // itemsize)
        return 1

    def start(self, access: Access) -> int:
        """The bytes from the start of an array to where all iterators are 0."""
        strides = self.launches.strides[access.buffer]
        affine = [(i, s) for i, s in zip(access.indices, strides, strict=True) if isinstance(i, Affine)]
        return sum(stride * self.value(index, 0, 0) for index, stride in affine)

    def moves(self, access: Access, depth: int) -> bool:
        """Whether an access goes elsewhere with an iterator."""
        return any(
            self.moves(index, depth) if isinstance(index, Access) else depth in index.iterators
            for index in access.indices
        )

    def box(self, access: Access, depths: Iterable[int]) -> int:
        """The bytes of the box that an access touches while some iterators run."""
        count = self.launches.buffers[access.buffer].dtype.itemsize
        for index, extent in zip(access.indices, self.launches.shapes[access.buffer], strict=True):
            if isinstance(index, Access):
                count *= min(extent, prod(self.loops[d].trips for d in depths if self.moves(index, d)))
                continue
            reach = [abs(self.value(index, d, self.loops[d].trips - 1) - self.value(index, d, 0)) for d in depths
                     if d in index.iterators]  # fmt: skip
            count *= min(extent, 1 + sum(reach))
        return count

    def step(self, access: Access, depth: int) -> int | None:
        """By how many bytes an access moves with an iterator; None where data say."""
        strides = self.launches.strides[access.buffer]
        found = 0
        for index, stride in zip(access.indices, strides, strict=True):
            if isinstance(index, Access):
                if self.moves(index, depth):
                    return None
            elif depth in index.iterators:
                found += stride * (self.value(index, depth, 1) - self.value(index, depth, 0))
        return found

    def value(self, index: Affine, depth: int, at: int) -> int:
        place = tuple(at if d == depth else 0 for d in range(len(self.loops)))
        return index.evaluate(self.launches.sizes, place)


def _divisions(affine: Affine) -> Iterator[FloorDiv | Mod]:
    for atom, _ in affine.terms:
        if isinstance(atom, FloorDiv | Mod):
            yield atom
            yield from _divisions(atom.numerator)


def _but_offsets(access: Access) -> tuple[object, ...]:
    """What is the same of accesses to neighbours."""
    return (access.buffer, *(i.terms if isinstance(i, Affine) else _but_offsets(i) for i in access.indices))


GRID_MARKS = frozenset(GRID)


def _is_grid(node: Scope) -> bool:
    return any(mark in GRID_MARKS or mark in THREADS for mark in node.marks)


def _has_grid(node: Node) -> bool:
    if isinstance(node, Statement):
        return False
    return (isinstance(node, Scope) and _is_grid(node)) or any(map(_has_grid, node.body))
