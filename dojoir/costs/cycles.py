"""About how many cycles a CPU takes for a text: what its ports, its longest chain and its caches ask for.

What a compiler does with an innermost loop is counted as done. It writes loops of few iterations out, keeps what
stays where it is in registers, and runs a loop in lanes that steps by one element and carries nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, prod

from dojoir.backends.host import machine_for
from dojoir.backends.machine import Machine
from dojoir.costs.cost import cost
from dojoir.costs.features import SLOW, CountedTree, EnclosingScope, counted_at
from dojoir.costs.launches import floor_seconds
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Op, expr_accesses, parts
from dojoir.ir.nodes import Access, Guard, Kernel, Node, Scope, Statement
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

LINE_CYCLES = (1.2, 3.0, 6.0)
"""About how many cycles a line takes that is not in the first, second, or any cache."""

LATENCY, LOOP, CALL, HERTZ = 4.0, 1.0, 6000.0, 3e9
"""About the cycles of a sum that waits for itself, of an iteration, of sharing work out; cycles in a second."""

ISSUED = 5.0
"""Operations that begin in a cycle."""

EXTREME = 3.0
"""Operations of a maximum that a NaN gets through."""

APART, SHUFFLED = 2.5, 1.5
"""Operations for an element that is loaded into its lane alone, and for a vector of those a few elements apart."""

HIDDEN = 0.3
"""The share of the shorter of computing and of waiting for memory that the longer one does not hide."""

WRITTEN_OUT = 50
"""How many statements compilers write out of loops in each other, whose extents are numbers."""

BEGUN, ADDED_UP = 12.0, 13.0
"""The cycles of beginning a loop that a compiler runs in lanes, which asks whether arrays overlap and what is left
over; the operations of adding up the lanes of a sum."""

FORWARDED = 9.0
"""The cycles of a sum in memory that waits for itself: it is stored and loaded between."""

PARTS, LEFT = 4, 1.7
"""Independent parts of a sum in lanes; vectors that leftover lanes take more where there are no masks."""


@dataclass(frozen=True)
class Ports:
    """The demands of one run of some nodes on each port, their longest chain, and the cycles of loops in them."""

    sums: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    chain: float = 0.0
    loops: float = 0.0

    def __add__(self, other: Ports) -> Ports:
        return Ports(
            self.sums + other.sums,
            self.loads + other.loads,
            self.stores + other.stores,
            max(self.chain, other.chain),
            self.loops + other.loops,
        )

    @property
    def cycles(self) -> float:
        issued = (self.sums + self.loads + self.stores) / ISSUED
        return max(self.sums / 2, self.loads / 2, self.stores, self.chain, issued) + self.loops


@dataclass(frozen=True)
class CostedScope:
    """A scope on the way. It is `flat` where it is written out, or one vector or a few, so that what is inside runs
    for all of it at once; else a loop, of which `lanes` iterations run at once. By `hand` says that the text marks
    its lanes."""

    trips: int
    flat: bool
    lanes: int = 1
    by_hand: bool = True


class Cycles:
    """The cycles of a kernel whose sizes are numbers."""

    def __init__(self, counted: CountedTree) -> None:
        self.counted, self.machine = counted, counted.machine

    def nodes(
        self, nodes: tuple[Node, ...], around: tuple[EnclosingScope, ...], levels: tuple[CostedScope, ...]
    ) -> Ports:
        total = Ports()
        for node in nodes:
            match node:
                case Statement():
                    total += self.statement(node, levels)
                case Guard(conditions, body):
                    total += Ports(sums=len(conditions)) + self.nodes(body, around, levels)
                case Scope():
                    total += self.scope(node, around, levels)
        return total

    def scope(self, scope: Scope, around: tuple[EnclosingScope, ...], levels: tuple[CostedScope, ...]) -> Ports:
        trips = self.counted.trips(scope, tuple([loop.trips for loop in around]))
        if not trips:
            return Ports()
        level = self.level(scope, trips, levels)
        found = self.nodes(scope.body, (*around, EnclosingScope(trips, scope.marks)), (*levels, level))
        if level.flat:
            return found
        begun = BEGUN if level.lanes > 1 and not level.by_hand else 0.0
        steps = ceil(trips / level.lanes) + (LEFT if trips % level.lanes and not self.machine.masks else 0)
        shared = min(trips, max(1, self.machine.cores)) if "p" in scope.marks else 1
        return Ports(loops=(found.cycles + LOOP) * steps / shared + begun + (CALL if shared > 1 else 0))

    def level(self, scope: Scope, trips: int, levels: tuple[CostedScope, ...]) -> CostedScope:
        """The form in which a compiler leaves a scope."""
        lanes = self.lanes(scope)
        if "v" in scope.marks:
            inner = any(isinstance(node, Scope) for node in scope.body)
            return CostedScope(trips, inner or trips <= 8 * lanes, lanes)
        if "u" in scope.marks:
            return CostedScope(trips, True)
        if not scope.marks and self.written_out(scope):
            return CostedScope(trips, True)
        if not scope.marks and not any(level.lanes > 1 for level in levels) and self.in_lanes(scope, len(levels)):
            return CostedScope(trips, False, lanes, by_hand=False)
        return CostedScope(trips, False)

    def written_out(self, scope: Scope) -> bool:
        """Whether a compiler writes a loop out, and those inside."""
        total, node = 1, scope
        while node.extent.constant is not None and total * node.extent.constant * len(node.body) <= WRITTEN_OUT:
            total *= node.extent.constant
            inner = [child for child in node.body if isinstance(child, Scope)]
            if not inner or {"u", "v"} & {*inner[0].marks}:
                return True
            if len(inner) > 1 or inner[0].marks:
                return False
            node = inner[0]
        return False

    def in_lanes(self, scope: Scope, depth: int) -> bool:
        """Whether a compiler runs a loop in lanes: of statements that go on by an element or a few, and in which no
        iteration needs what another leaves."""
        written = set()
        statements = self.inside(scope.body)
        if statements is None:
            return False
        for statement in statements:
            step = self.counted.step(statement.target, depth)
            if self.counted.buffers[statement.target.buffer].storage == "reg" and not statement.accumulation:
                written.add(statement.target.buffer)
                continue
            if step != 1:
                return False
            written.add(statement.target.buffer)
        for statement in statements:
            for access in expr_accesses(statement.value):
                step = self.counted.step(access, depth)
                divided = any(depth in index.divided for index in access.indices if isinstance(index, Affine))
                if step is None or abs(step) > 4 or divided:
                    return False
                kept = self.counted.buffers[access.buffer].storage == "reg"
                same = any(access == other.target for other in statements)
                if access.buffer in written and not kept and not same:
                    return False
        return True

    def inside(self, nodes: tuple[Node, ...]) -> list[Statement] | None:
        """The statements in some nodes, all loops between written out; None where one is none, or a condition is
        there."""
        found: list[Statement] = []
        for node in nodes:
            if isinstance(node, Statement):
                found.append(node)
            elif isinstance(node, Guard) or node.marks or not self.written_out(node):
                return None
            else:
                inner = self.inside(node.body)
                if inner is None:
                    return None
                found += inner
        return found

    def lanes(self, scope: Scope) -> int:
        """How many elements of the widest type inside a vector holds."""
        widest = max((self.counted.buffers[name].dtype.itemsize for name in scope.buffers), default=4)
        return max(1, self.machine.vector_bytes // max(1, widest))

    def statement(self, statement: Statement, levels: tuple[CostedScope, ...]) -> Ports:
        copies = 1.0
        for level in levels:
            copies *= self.vectors(level) if level.flat else 1
        loop = max((d for d, level in enumerate(levels) if not level.flat), default=None)
        target = statement.target
        sums = self.operations(statement)
        narrow = sum(self.counted.buffers[a.buffer].dtype.itemsize < 4 for a in statement.accesses)
        found = Ports(sums=(sums + narrow) * copies)
        still = loop is not None and self.counted.step(target, loop) == 0
        for access in dict.fromkeys(statement.reads):
            if access != target and not (loop is not None and self.counted.step(access, loop) == 0):
                found += Ports(loads=self.moved(access, levels))
        for depth, level in enumerate(levels):
            if statement.accumulation and level.lanes > 1 and self.counted.step(target, depth) == 0:
                found += Ports(sums=ADDED_UP / (1 if level.flat else ceil(level.trips / level.lanes)))
        own = statement.accumulation is not None or target in statement.reads
        if still:
            if own:
                level = levels[loop or 0]
                chain = LATENCY / PARTS if level.lanes > 1 else LATENCY
                found += Ports(chain=chain * (sums if statement.accumulation is None else 1))
        elif self.counted.buffers[target.buffer].storage != "reg":
            found += Ports(stores=self.moved(target, levels))
            if own:
                again = prod(
                    level.trips
                    for depth, level in enumerate(levels)
                    if level.flat and level.lanes == 1 and self.counted.step(target, depth) == 0
                )
                vector = any(level.lanes > 1 and level.by_hand for level in levels)
                chain = again * FORWARDED if vector and again > 1 else 0.0
                found += Ports(loads=self.moved(target, levels), chain=chain)
        return found

    def operations(self, statement: Statement) -> float:
        """The operations of a statement, a product that is added as one."""
        names = [part.name for part in parts(statement.value) if isinstance(part, Op)]
        if statement.accumulation:
            names.append({"+=": "add", "*=": "mul"}.get(statement.accumulation, "max"))
        total = sum(SLOW.get(name, EXTREME if name in ("max", "min") else 1.0) for name in names)
        return total - min(names.count("mul"), names.count("add") + names.count("sub"))

    def vectors(self, level: CostedScope) -> float:
        """How often something is done for a level that is flat."""
        whole = ceil(level.trips / level.lanes)
        return whole + (LEFT if level.trips % level.lanes and level.lanes > 1 and not self.machine.masks else 0)

    def moved(self, access: Access, levels: tuple[CostedScope, ...]) -> float:
        """The loads or stores of an access in an iteration of the loop around it."""
        if self.counted.buffers[access.buffer].storage == "reg":
            return 0.0
        count = 1.0
        for depth, level in enumerate(levels):
            step = self.counted.step(access, depth)
            if step == 0:
                continue
            if level.lanes > 1 and (step is None or abs(step) != 1):
                near = step is not None and abs(step) <= 4 and not level.by_hand
                each = abs(step) * SHUFFLED if near and step is not None else level.lanes * APART
                count *= each * (self.vectors(level) if level.flat else 1)
            elif level.flat:
                count *= self.vectors(level)
        return count


@public
def estimate(kernel: Kernel, sizes: Mapping[str, int], target: str = "llvm", threads: int | None = None) -> float:
    """About how many seconds a kernel takes at given sizes on the machine of a target. A guess from the text alone,
    always the same for the same text and machine, and no more than an order among schedules of one kernel. Nothing
    is built and nothing runs. Raises ArgumentError for sizes that do not fit the kernel, or an unknown target."""
    machine = machine_for(target)
    return seconds_of(kernel, sizes, machine if threads is None else replace(machine, cores=threads))


@public
def floor(kernel: Kernel, sizes: Mapping[str, int], target: str = "llvm", threads: int | None = None) -> float:
    """About the seconds that no schedule of a kernel takes less than on the machine of a target, by the constants
    of `estimate`: the operations on floats in whole vectors, two a cycle, their loads and stores, or the bytes that
    have to come through the caches that do not hold them, whichever is longest. Raises as `estimate`."""
    machine = machine_for(target)
    if machine.kind == "gpu":
        return floor_seconds(kernel, machine, sizes)
    counts = cost(kernel).at(**sizes)
    cores = max(1, machine.cores if threads is None else threads)
    computing = max(counts.flops / (machine.vector_bytes / 4) / 2, counts.bytes / machine.vector_bytes) / 2 / cores
    held = (*machine.caches[:2], machine.held)
    passed = (cycles for size, cycles in zip(held, LINE_CYCLES, strict=False) if counts.bytes > size)
    return max(computing, counts.bytes / machine.line * sum(passed), 1.0) / HERTZ


def seconds_of(kernel: Kernel, sizes: Mapping[str, int], machine: Machine) -> float:
    """The seconds of a kernel on a CPU. Raises ArgumentError for sizes that do not fit it."""
    counted = counted_at(kernel, sizes, machine)
    computing = Cycles(counted).nodes(counted.kernel.body, (), ()).cycles
    kept = sum(prod(counted.shapes[b.name]) * b.dtype.itemsize for b in kernel.buffers if b.storage == "reg")
    computing *= max(1.0, kept / machine.vector_bytes / machine.registers)
    lines = (brought / machine.line for brought in counted.brought())
    waiting = sum(line * cycles for line, cycles in zip(lines, LINE_CYCLES, strict=True))
    return (max(computing, waiting) + HIDDEN * min(computing, waiting)) / HERTZ
