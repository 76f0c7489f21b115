"""Cooperative accumulation on a GPU: each thread accumulates a part. Parts are combined by shuffles inside a
warp, through shared memory and a barrier between warps, by atomics between blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, both, compare, divide, integer, mul
from dojoir.codegen.lir.program import (
    ATOMICS,
    FLAG,
    INDEX,
    Assign,
    Atomic,
    Barrier,
    Const,
    Shuffle,
    Type,
    Value,
    Var,
)
from dojoir.codegen.lir.program import Phase as PhaseCode
from dojoir.codegen.lir.walk import variables
from dojoir.codegen.lower.access.conversions import convert
from dojoir.codegen.lower.access.elements import ElementAccess
from dojoir.codegen.lower.access.expr import combination, evaluate, operate
from dojoir.codegen.lower.access.state import Block, KeptReduction, LoweringState, LoweringUnit, Memory
from dojoir.codegen.lower.access.touched import Guess, StatementRuns, asked
from dojoir.codegen.lower.gpu.launches import Collective, ThreadNest, ThreadPhase
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.plans.plan import Accumulator
from dojoir.codegen.lower.sums.by_threads import THREAD, by_one, is_atomic, is_memory, own_number, thread_iterators
from dojoir.codegen.lower.sums.reductions import NAMES, finish, identity, keep
from dojoir.codegen.lower.waits.meetings import meets_in_memory
from dojoir.codegen.math.narrow_floats import bits_of
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DTYPES
from dojoir.ir.expressions import affine_parts
from dojoir.ir.format import format_access
from dojoir.ir.nodes import Path, Scope
from dojoir.ir.where import place
from dojoir.sets.kernel_sets import isl_extent
from dojoir.types.typed import Load, TypedStatement

I32 = DTYPES["i32"]


class Combining:
    """The collectives of one nest of threads: variables for the parts, declared before it, then put together."""

    def __init__(
        self, unit: LoweringUnit, threads: Threads, nest: ThreadNest, state: LoweringState, block: Block
    ) -> None:
        found = [one for one in dict.fromkeys(threads.collectives.values()) if one.nest == nest]
        self.parts = [_ThreadParts(unit, threads.warp, state, block, collective) for collective in found]
        self.accumulators: Mapping[Path, KeptReduction] = {
            path: KeptReduction((), {(): part.var}) for part in self.parts for path in part.collective.paths
        }

    def finish(self, phase: ThreadPhase) -> list[lir.ProgramArray]:
        """Puts the parts together and into the elements that they are for. Gives the shared arrays it needs."""
        return [array for part in self.parts for array in part.finish(phase)]


class _ThreadParts:
    """One collective: a variable in each thread for its part, which `block` declares."""

    def __init__(
        self, unit: LoweringUnit, warp: int, state: LoweringState, block: Block, collective: Collective
    ) -> None:
        self.unit, self.warp, self.state, self.block, self.collective = unit, warp, state, block, collective
        assert state.device is not None
        self.device, self.nest, self.statement = state.device, collective.nest, unit.typed[collective.paths[0]]
        target, op = self.statement.target, self.statement.op
        assert op is not None
        self.operator = op
        inner = range(self.nest.depths.stop, 1 << 16)
        if any(d in inner for affine in affine_parts(target) for d in affine.iterators):
            beside, path = unit.beside, collective.paths[0]
            name = format_access(beside.named(target))
            message = (
                f"{name} is put together by the threads of {_scopes(self.nest)}, and "
                f"which element it is depends on a loop inside of them: swap_scopes brings that loop outside"
            )
            source, span = place(beside.text, beside.place(path))
            raise KernelError(Diagnostic("collective-loop", message, span, source))
        # Of bools `and` and `or` may leave their second operand out, and shuffles are for all threads.
        dtype = I32 if self.statement.value.dtype == BOOL else self.statement.value.dtype
        self.op = combination(unit, op, self.statement.value.dtype)
        self.var = Var(Type(dtype), unit.names.fresh(f"{target.buffer}_{NAMES[op]}"))
        block.emit(lir.Declare(self.var, identity(op, dtype)))

    def finish(self, phase: ThreadPhase) -> Iterator[lir.ProgramArray]:
        """Puts the parts together and into the element. Gives the shared array it needs."""
        if meets_in_memory(self.collective, self.warp):
            array = self._array()
            self._in_memory(array.name)
            yield array
        else:
            width = self.collective.width
            self._by_shuffles(width, self.warp if prod(self.nest.extents) % self.warp == 0 else width)
        self._into(phase)

    # -- putting together ------------------------------------------------------------------------------------
    def _combine(self, other: Value) -> Assign:
        return Assign(self.var, lir.Binary(self.var.type, self.op, self.var, other))

    def _by_shuffles(self, width: int, together: int) -> None:
        """Over each group of `width` threads, a power of two, of the `together` that run this together. Exchanged
        pairs give the same in both threads, but for comparisons, which do not ask for the sign of 0: there all
        take that of the first. The instructions of a GPU order zeros."""
        distance = width // 2
        while distance:
            self.block.emit(self._combine(Shuffle("xor", self.var, integer(distance), together)))
            distance //= 2
        if width > 1 and self.var.type.dtype.is_float and self.op.endswith("_fast"):
            self.block.emit(Assign(self.var, Shuffle("first", self.var, integer(0), width)))

    def _array(self) -> lir.ProgramArray:
        threads = self.device.launched.threads // (1 if self._in_pieces else self.warp)
        name = self.unit.names.fresh(f"{self.var.name}_parts")
        array = lir.ProgramArray(name, self.var.type.dtype, integer(threads), "shared", 16)
        self.unit.arrays[name] = array
        return array

    def _in_memory(self, array: str) -> None:
        """Combines warps through shared memory: the first thread of each warp stores its part, and all threads
        read those of their group."""
        if self._in_pieces:
            self._one_by_one(array)
            return
        warp, width = self.warp, self._width
        self._by_shuffles(warp, warp)
        leaves = lir.Store(array, divide("div", THREAD, warp), self.var)
        self.block.emit(lir.If(compare("eq", divide("rem", THREAD, warp), integer(0)), (leaves,)))
        self.block.emit(Barrier((array,)))
        warps = width // warp
        size = 1 << (warps - 1).bit_length()
        several = width < self.device.launched.threads
        first = mul(divide("div", THREAD, width), integer(warps)) if several else integer(0)
        lane = divide("rem", THREAD, size) if size > 1 else integer(0)
        taken: Value = lir.Load(self.var.type, array, add(first, lane))
        if size != warps:
            taken = lir.Select(compare("lt", lane, integer(warps)), taken, self._nothing)
        self.block.emit(Assign(self.var, taken))
        self._by_shuffles(size, warp)

    @property
    def _nothing(self) -> Value:
        return identity(_plain(self.op), self.var.type.dtype)

    @property
    def _width(self) -> int:
        """How many threads share an element: those of a block without an iteration too, where all that have one do.
        What they have is what each begins with, which adds nothing."""
        all_do = self.device.level != "warp" and self.collective.is_one
        return self.device.launched.threads if all_do else self.collective.width

    @property
    def _in_pieces(self) -> bool:
        """Whether the threads that share an element are no whole number of warps."""
        return self._width < self.warp or self._width % self.warp != 0

    def _one_by_one(self, array: str) -> None:
        """Combines groups that are no whole number of warps: each thread stores its part, and reads those of its
        group one after the other."""
        self.block.emit(lir.Store(array, THREAD, self.var))
        self.block.emit(Barrier((array,)))
        self.block.emit(Assign(self.var, self._nothing))
        offset: Value = integer(0)
        loops: list[tuple[Var, int]] = []
        for depth, extent, stride in zip(self.nest.depths, self.nest.extents, self.nest.strides, strict=True):
            if extent == 1:
                continue
            if depth in self.collective.depths:
                loop = Var(INDEX, self.unit.names.loop("part", (*self.state.iterators, *(v for v, _ in loops))))
                loops.append((loop, extent))
                offset = add(offset, mul(loop, integer(stride)))
            else:
                digit = divide("rem", divide("div", THREAD, stride) if stride > 1 else THREAD, extent)
                offset = add(offset, mul(digit, integer(stride)))
        body: tuple[lir.Stmt, ...] = (self._combine(lir.Load(self.var.type, array, offset)),)
        for loop, extent in reversed(loops):
            body = (lir.For(loop, integer(0), integer(extent), 1, body),)
        self.block.statements.extend(body)

    # -- into the element ------------------------------------------------------------------------------------
    def _into(self, phase: ThreadPhase) -> None:
        """Combines the values of the threads with the element: by each thread, where it has the element in a
        register; else by the first of those that share it."""
        target, collective, device = self.statement.target, self.collective, self.device
        where = self.state.places[target.buffer]
        in_memory = is_memory(self.unit, where)
        lets = Block()
        iterators, within = thread_iterators(self.unit, self.nest, phase, self.state, lets)
        everywhere = collective.is_one and device.level != "warp" and not in_memory
        if everywhere:  # each thread has the element, also those that have no iteration
            iterators = tuple(integer(0) if d in self.nest.depths else v for d, v in enumerate(iterators))
        inside = replace(self.state, iterators=iterators)
        inner = Block()
        first: Value | None = None
        if in_memory:
            if len(collective.depths) == len([e for e in self.nest.extents if e > 1]):
                first = compare("eq", own_number(device), integer(0))
            else:
                for depth in collective.depths:
                    first = both(first, compare("eq", iterators[depth], integer(0)))
        plain = not in_memory or first == compare("eq", THREAD, integer(0))
        if isinstance(where, Memory):  # a variable is each thread's own
            first = both(first, self._some(iterators, within if first is not None else None, inner))
            first = both(first, self._changes())
        body = Block()
        accesses = ElementAccess(self.unit, inside, body, collective.paths[0])
        if in_memory and is_atomic(self.unit, collective.paths[0]):
            in_one_step(accesses, self.statement, self.var)
        else:
            self._update(accesses)
        if first is None:
            inner.statements.extend(body.statements)
        elif first != Const(FLAG, False):
            inner.emit(lir.If(first, body.body))
        depths = {d for i in target.indices if isinstance(i, Affine) for d in i.iterators}
        if everywhere or (plain and depths.isdisjoint(self.nest.depths) and not _uses(inner, lets)):
            self.block.statements.extend(inner.statements)
            return
        every = phase.threads == device.launched.threads or device.level == "warp"
        self.block.emit(PhaseCode(None if every else phase.threads, (*lets.body, *inner.body)))

    def _some(self, iterators: tuple[Value, ...], within: Value | None, block: Block) -> Value | None:
        """Whether those that share an element accumulated into it; None: always. `within`: where the first of them
        has an iteration, which mostly is the same."""
        shared = self.collective.depths
        extents = {d: n for d, n in zip(self.nest.depths, self.nest.extents, strict=True) if d not in shared}
        box = tuple(f"0 <= i{d} < {n}" for d, n in extents.items())
        kept = (*range(self.nest.depth), *extents)
        touch = StatementRuns(self.unit.kernel, self.collective.paths, self.nest.path, kept, box, self.state)
        guess = None if within is None else Guess(self._of_first(), shared, within)
        return asked(self.unit, touch, {d: iterators[d] for d in kept}, block, guess)

    def _changes(self) -> Value | None:
        """Whether anything was accumulated, where that depends on data: what is the neutral value to the bit would
        leave the element as it is, and is not written to it. None: always."""
        sites = {site.path: site.statement for site in self.unit.kernel.sites}
        if all(sites[path].condition is None for path in self.collective.paths):
            return None
        dtype = self.var.type.dtype
        neutral = identity(self.operator, dtype)
        kind = Type(bits_of(dtype))
        own, none = (lir.Bitcast(kind, v) if dtype.is_float else v for v in (self.var, neutral))
        return compare("ne", own, none)

    def _of_first(self) -> tuple[str, ...]:
        """Where the first of the threads that share an element has an iteration, in isl's notation."""
        found = [f"i{d} = 0" for d in self.collective.depths]
        for path, depth in zip(self.nest.paths, self.nest.depths, strict=True):
            scope = self.unit.kernel.at(path)
            assert isinstance(scope, Scope)
            found.append(isl_extent(scope.extent, depth))
        return tuple(found)

    def _update(self, accesses: ElementAccess) -> None:
        statement, dtype = self.statement, self.var.type.dtype
        value = evaluate(Load(statement.dtype, statement.target), accesses)
        own = convert(self.unit, statement.dtype, dtype, value)
        combined = operate(self.unit, self.operator, dtype, own, self.var)
        accesses.store(statement.target, convert(self.unit, dtype, statement.dtype, combined))


def atomically(unit: LoweringUnit, path: Path, accesses: ElementAccess) -> None:
    """Accumulates into an element that other blocks accumulate into as well."""
    statement = unit.typed[path]
    assert statement.op is not None
    if statement.fused:
        factors = [evaluate(factor, accesses) for factor in statement.factors]
        value = operate(unit, "mul", statement.value.dtype, *factors)
    else:
        value = evaluate(statement.value, accesses)
    in_one_step(accesses, statement, value)


def in_one_step(accesses: ElementAccess, statement: TypedStatement, value: Value) -> None:
    """Accumulates a value into the element of a statement as other threads do at the same time: by the instruction
    that there is for it, or by compare and swap."""
    unit, dtype, block = accesses.unit, statement.dtype, accesses.block
    assert statement.op is not None
    where = _memory(accesses.state.places[statement.target.buffer])
    offset = accesses.address(statement.target, where).offset
    own = convert(unit, value.type.dtype, dtype, value)
    op = _plain(combination(unit, statement.op, dtype))
    if dtype.name in ATOMICS.get(statement.op, ()):
        block.emit(Atomic(op, where.array, offset, own))
        return
    kept = Var(own.type, unit.names.fresh(f"{statement.target.buffer}_own"))
    seen = Var(own.type, unit.names.fresh(f"{statement.target.buffer}_seen"))
    block.emit(lir.Let(kept, own))
    block.emit(lir.Declare(seen, identity(statement.op, dtype)))
    block.emit(lir.Swap(seen, where.array, offset, operate(unit, statement.op, dtype, seen, kept)))


def carry(
    unit: LoweringUnit,
    path: Path,
    scope: Scope,
    state: LoweringState,
    block: Block,
    run: Callable[[Path, Scope, LoweringState, Block], None],
) -> None:
    """Lowers the scope at `path` by `run`, with the sums that it carries in variables: declared before it, they go
    into their elements behind it, by an atomic where other blocks add to them too."""
    assert state.device is not None
    spelled = {inner.path for accumulator in unit.carried[path] for inner in accumulator.along}
    inside, made = keep(unit, unit.carried[path], 1, state, block)
    run(path, scope, replace(inside, spelled=inside.spelled | spelled), block)
    for accumulator, kept in made:
        into = _by_atomic if is_atomic(unit, accumulator.paths[0]) else None
        once = Block(pending=block.pending)
        finish(unit, [(accumulator, kept)], path, state, once, into=into)
        by_one(unit, accumulator.target.buffer, state, once, block)


def _by_atomic(accumulator: Accumulator, total: Value, accesses: ElementAccess) -> None:
    """A total goes into an element that other blocks add to as well."""
    in_one_step(accesses, accesses.unit.typed[accumulator.paths[0]], total)


def _memory(where: object) -> Memory:
    assert isinstance(where, Memory)
    return where


def _plain(op: str) -> str:
    return op.removesuffix("_fast").removesuffix("_number")


def _uses(inner: Block, lets: Block) -> bool:
    """Whether one of `lets` is used."""
    names = {stmt.var.name for stmt in lets.statements if isinstance(stmt, lir.Let)}
    return not names.isdisjoint(variables(*inner.body))


def _scopes(nest: ThreadNest) -> str:
    return f"the scope at {'.'.join(map(str, nest.path))}"
