"""The work of one statement in a block of a GPU, from the text alone: what its warps issue and load, the sectors
that they ask of the second cache, and the steps of a thread that wait for each other.

A compiler is taken to keep what is in registers there, to load neighbours at once where they are aligned, and to
decide conditions of what is written out. The first cache keeps what the innermost loops touch, and no stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import ceil, gcd, inf, prod

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.ir.affine import Affine, FloorDiv, Mod
from dojoir.ir.expressions import parts
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import Access, Buffer, Cast, Condition, Expr, Kernel, Op, Scope, Statement, holds
from dojoir.ir.places import sites_inside
from dojoir.ir.words import BLOCK, GRID
from dojoir.support.frozen import dataclass
from dojoir.types.quads import QUAD, multiplies_bytes

SECTOR = 32
"""The bytes that come from the second cache together."""

BANKS = 128
"""How many bytes of shared memory a multiprocessor loads in a cycle."""

SCHEDULERS = 4
"""How many warps of a multiprocessor begin an instruction in a cycle."""

RESIDENT = 2048
"""The most threads on a multiprocessor at a time."""

HIT = 0.25
"""The share of a load's cycles that one from the first cache takes."""

TEST = 4
"""Instructions of a condition."""

MOST_ASKED = 4096
"""Of how many iterations that are written out it is found which of them are alike for a condition."""

DIVISION = 6
"""Instructions of a division of an index by a constant that is no power of two."""

PREDICATE = 0.35
"""Those of each statement under conditions, to have their answers at hand: there are few registers for these."""

SLOW = {"div": 9, "sqrt": 8, "rsqrt": 4, "exp": 4, "log": 4, "exp2": 4, "log2": 4, "tanh": 15, "erf": 20, "pow": 30,
        "sigmoid": 10, "sin": 20, "cos": 20, "tan": 30, "atan": 20, "expm1": 15, "log1p": 15, "floordiv": 20,
        "mod": 20, "log10": 6, "erfc": 40, "sinh": 25, "cosh": 20, "asin": 25, "acos": 25, "asinh": 40, "acosh": 40,
        "atanh": 40, "atan2": 40, "hypot": 15, "fmod": 60, "floor_mod": 60, "floor_div": 70}  # fmt: skip
"""Instructions of operations that are no single one."""

THREADS, GRID_MARKS = frozenset({*BLOCK, "lane"}), frozenset(GRID)
"""The marks of scopes over threads, and over blocks."""


@dataclass(frozen=True)
class CountedLoop:
    """A scope around a statement: how often it runs, and its marks."""

    trips: int
    marks: tuple[str, ...]
    fixed: bool = True
    """Whether that is so in all iterations of the loops around it."""

    most: int = 0
    """How often a scope over threads runs at most, by a constant bound: a launch has so many for it. Else 0."""

    group: int = 1
    """How many threads execute it together as one instruction."""

    def has(self, marks: frozenset[str]) -> bool:
        return not marks.isdisjoint(self.marks)


class Arrays:
    """The arrays of a kernel at given sizes, in bytes, on a machine."""

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


def multiplied_on_units(
    statement: Statement, machine: Machine, buffer: Callable[[str], Buffer], computed: bool = False
) -> int:
    """How many products of two elements, which a statement adds up, the matrix units of a multiprocessor do in a
    cycle; 0 where it is no such sum, or they have not its type. Factors that are `computed` and rounded to a type
    may be asked for, too: a schedule can store them."""
    match statement.value:
        case Op("mul", factors) if statement.op == "+=":
            read = [factor.arg if isinstance(factor, Cast) else factor for factor in factors]
            types = {_multiplied_type(one, buffer, computed) for one in read}
            if len(types) == 1 or types in ({"i8", "u8"}, {"f8e4m3", "f8e5m2"}):
                return min(map(machine.products, types))
    return 0


def gain_of_units(kernel: Kernel, machine: Machine) -> float:
    """How many times as many products as multiply-adds in f32 a multiprocessor does in a cycle, by the instructions
    on matrix units that a kernel uses; 0 where it uses none."""
    found = [
        multiplied_on_units(site.statement, machine, kernel.buffer)
        for path, node in kernel.walk()
        if isinstance(node, Scope) and any(isinstance(h, Use) and h.instruction.group > 1 for h in node.hints)
        for site in sites_inside(kernel, path)
    ]
    return max(found, default=0) / (32 * SCHEDULERS)


def _multiplied_type(factor: Expr, buffer: Callable[[str], Buffer], computed: bool) -> str:
    match factor:
        case Access():
            return buffer(factor.buffer).dtype.name
        case Cast(dtype=dtype) if computed:
            return dtype.name
    return ""


def operations_of(statement: Statement) -> int:
    """How many instructions a statement is, loads and stores aside: a product that is added is one."""
    ops = [part for part in parts(statement.value) if isinstance(part, Op)]
    return max(1, sum(SLOW.get(op.name, 1) for op in ops))


WIDE = 2
"""How many times longer a warp's operation on f64 takes: there are half as many units (H200: 67 TFLOP/s in f32, 34
in f64)."""

FOUR_WARPS = 1.5
"""How much faster matrix units are for four warps that multiply together."""

FASTEST = ("lane", "bx", "by", "bz")
"""The marks of scopes over threads, from the one whose threads are neighbours in a warp on."""


def warps_of(loops: Iterable[CountedLoop]) -> int:
    """How many warps of a block have something to do in some scopes over threads. Where the threads of a row of the
    block fill warps, those are counted of each row that run; the others end at once."""
    width, warps = 1, 1
    for loop in sorted(loops, key=lambda loop: min(FASTEST.index(m) for m in loop.marks if m in FASTEST)):
        if width >= 32:
            warps *= max(1, loop.trips)
        elif width * max(loop.most, loop.trips) > 32:
            warps = ceil(width * max(1, loop.trips) / 32)
        width *= max(loop.most, loop.trips, 1)
    return warps


class Work:
    """The work of one statement in a block: issue cycles of its warps, sectors, the dependence chain of a
    thread."""

    def __init__(
        self,
        arrays: Arrays,
        statement: Statement,
        loops: tuple[CountedLoop, ...],
        asked: tuple[Condition, ...],
        host: int,
    ) -> None:
        self.arrays, self.loops, self.host, rates = arrays, loops, host, arrays.rates
        grouped = next((d for d, loop in enumerate(loops) if loop.group > 1), len(loops))
        inside = range(host, grouped)
        self.blocks = prod(loops[d].trips for d in inside if loops[d].has(GRID_MARKS))
        self.own = [d for d in inside if not loops[d].has(GRID_MARKS | THREADS)]
        shared = [d for d in inside if loops[d].has(THREADS)]
        self.threads = max(1, prod(loops[d].trips for d in shared))
        self.warps = warps_of([loops[d] for d in shared])
        self.resident = self.threads * max(1, min(32, RESIDENT // max(32, self.threads)))
        if self.blocks < arrays.machine.multiprocessors:
            self.resident = self.threads
        self.thread = next((d for d in reversed(shared) if loops[d].trips > 1), None)
        serial = prod(loops[d].trips for d in self.own)
        if self.sums_in_quads(statement):
            serial //= QUAD
        self.touched: dict[str, float] = {}
        self.words: dict[str, float] = {}
        self.shared: set[str] = set()
        self.sectors = 0.0
        spelled = {d for d in self.own if {"u", "v"}.intersection(loops[d].marks)}
        tests = sum(self.asked_of(condition, spelled) for condition in asked)
        rounds = prod(loops[d].trips for d in self.own if d not in spelled)
        kept = PREDICATE * serial if tests else 0.0
        self.issued, self.loaded, self.chain = 0.0, 0.0, 0.0
        if grouped < len(loops):
            self.issued, self.loaded, self.chain = self._together(statement, grouped)
            return
        operations = operations_of(statement)
        sums = statement.accumulation is not None or any(isinstance(part, Op) for part in parts(statement.value))
        if sums and arrays.buffers[statement.target.buffer].dtype.name == "f64":
            operations *= WIDE
        self.issued = self.warps * (serial * operations + kept + TEST * tests * rounds) / SCHEDULERS
        self.issued += self.warps * sum(map(self.division, self.divisions(statement, asked))) / SCHEDULERS
        apart = {d for d in spelled if self.moves(statement.target, d)}
        steps = prod(loops[d].trips for d in self.own if d not in apart)
        self.chain = steps * (rates.sum if statement.accumulation is not None else 1)
        if statement.accumulation is not None:
            together = [d for d in shared if loops[d].trips > 1 and not self.moves(statement.target, d)]
            if together:
                self.chain += rates.in_warp if all("lane" in loops[d].marks for d in together) else rates.together
        waits, near = [0.0], set[tuple[object, ...]]()
        for access in dict.fromkeys(statement.reads):
            place = _but_offsets(access)
            waits.append(self.access(access, near=place in near))
            near.add(place)
        if not self._lands_later(statement):
            self.chain += max(waits)
        self.access(statement.target, stored=True)

    def _together(self, statement: Statement, at: int) -> tuple[float, float, float]:
        """The demands of the instruction that the scopes from depth `at` on are, which a group of threads executes:
        cycles of the units of a multiprocessor, of its loads, and those that the group waits for."""
        lanes, rates, buffers = self.loops[at].group, self.arrays.rates, self.arrays.buffers
        groups, times = self.threads, prod(self.loops[d].trips for d in self.own)
        self.threads, self.warps = self.threads * lanes, self.threads * ceil(lanes / 32)
        every = range(at, len(self.loops))
        elements, loaded = prod(self.loops[d].trips for d in every), 0.0
        for access in dict.fromkeys((*statement.reads, statement.target)):
            buffer = buffers[access.buffer]
            if buffer.storage == "shared":
                self.shared.add(access.buffer)
                loaded += groups * times * self.box(access, every) / BANKS
            elif buffer.storage == "reg":
                sums = statement.accumulation is not None and access == statement.target
                size = max(buffer.dtype.itemsize, 4) if sums else buffer.dtype.itemsize
                held = self.box(access, [*self.own, *every]) // buffer.dtype.itemsize * size
                self.words[access.buffer] = held / 4 / lanes
        rate = multiplied_on_units(statement, self.arrays.machine, buffers.__getitem__)
        rate = int(rate * FOUR_WARPS) if lanes > 32 else rate
        steps = prod(self.loops[d].trips for d in self.own if not self.moves(statement.target, d))
        issued = groups * times * (elements / rate if rate else 1 / SCHEDULERS)
        return issued, loaded, steps * (rates.near if rate else rates.near / rates.ahead)

    def _lands_later(self, statement: Statement) -> bool:
        """Whether a statement copies from memory to one of several stages in shared memory: nobody waits for it."""
        target = self.arrays.buffers[statement.target.buffer]
        staged = target.storage == "shared" and any(dim.collapsed for dim in target.dims)
        value = statement.value
        return staged and isinstance(value, Access) and self.arrays.buffers[value.buffer].storage == "heap"

    def sums_in_quads(self, statement: Statement) -> bool:
        """Whether the innermost scope of a thread adds up four products of bytes that lie side by side in shared
        memory, which is one instruction."""
        if not self.own or self.loops[self.own[-1]] != CountedLoop(QUAD, ("u",)):
            return False
        reads = [access for access in statement.reads if access != statement.target]
        near = all(self.step(access, self.own[-1]) == 1 for access in reads)
        inside = all(self.arrays.buffers[access.buffer].storage == "shared" for access in reads)
        return near and inside and multiplies_bytes(statement, self.arrays.buffers.__getitem__)

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
        it, and not at all for those of which a compiler can tell. Each time where they are more than anyone writes
        out, as those of a scope of open extent are."""
        iterators = condition.left.iterators | condition.right.iterators
        own, others = sorted(spelled & iterators), sorted(iterators - spelled)
        if not own:
            return 0
        count = prod(self.loops[d].trips for d in own)
        if count > MOST_ASKED:
            return count
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
        return holds(condition, self.arrays.sizes, tuple(known.get(d, 0) for d in range(len(self.loops))))

    def access(self, access: Access, *, stored: bool = False, near: bool = False) -> float:
        """Adds what an access asks for, and gives the cycles that a thread waits for all of its loads."""
        buffer, rates = self.arrays.buffers[access.buffer], self.arrays.rates
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
        lanes = min(32, ceil(self.threads / self.warps))
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
        return requests * self.arrays.rates.near

    def missed(self, access: Access, deepest: int) -> float:
        """The sectors of a block that the first cache does not have. It keeps what the innermost loops touch that
        leave room for the other blocks there."""
        inner = [d for d in range(self.host, len(self.loops)) if self.loops[d].has(THREADS)]
        room = self.arrays.rates.kept * self.threads / self.resident
        kept = inf
        for n in range(deepest, -1, -1):
            inside = self.sectors_of(access, [*inner, *self.own[n:]])
            if inside * SECTOR > room:
                break
            kept = inside * prod(self.loops[d].trips for d in self.own[:n])
        return kept

    def sectors_of(self, access: Access, depths: Sequence[int]) -> float:
        """How many sectors an access touches while some iterators run."""
        itemsize = self.arrays.buffers[access.buffer].dtype.itemsize
        near = max((abs(self.step(access, d) or 0) * self.loops[d].trips for d in depths
                    if abs(self.step(access, d) or 0) <= SECTOR), default=itemsize)  # fmt: skip
        return self.box(access, depths) / min(SECTOR, max(near, itemsize))

    def together(self, access: Access) -> int:
        """How many neighbours one instruction moves: those of a scope in lanes, or of one that is written out,
        where their first is at a multiple of so many."""
        itemsize = self.arrays.buffers[access.buffer].dtype.itemsize
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
        strides = self.arrays.strides[access.buffer]
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
        count = self.arrays.buffers[access.buffer].dtype.itemsize
        for index, extent in zip(access.indices, self.arrays.shapes[access.buffer], strict=True):
            if isinstance(index, Access):
                count *= min(extent, prod(self.loops[d].trips for d in depths if self.moves(index, d)))
                continue
            reach = [abs(self.value(index, d, self.loops[d].trips - 1) - self.value(index, d, 0)) for d in depths
                     if d in index.iterators]  # fmt: skip
            count *= min(extent, 1 + sum(reach))
        return count

    def step(self, access: Access, depth: int) -> int | None:
        """By how many bytes an access moves with an iterator; None where data say."""
        strides = self.arrays.strides[access.buffer]
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
        return index.evaluate(self.arrays.sizes, place)


def _divisions(affine: Affine) -> Iterator[FloorDiv | Mod]:
    for atom, _ in affine.terms:
        if isinstance(atom, FloorDiv | Mod):
            yield atom
            yield from _divisions(atom.numerator)


def _but_offsets(access: Access) -> tuple[object, ...]:
    """The part that accesses to neighbours share."""
    return (access.buffer, *(i.terms if isinstance(i, Affine) else _but_offsets(i) for i in access.indices))
