"""Cooperative accumulation: each thread its part, then all parts by shuffles and, of several warps, in shared
memory behind a barrier. Between blocks, by atomics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Protocol

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, both, compare, divide, integer, mul
from dojoir.codegen.lir.program import (
    ATOMICS,
    FLAG,
    INDEX,
    Atomic,
    Barrier,
    Const,
    Shuffle,
    Swap,
    ThreadNumber,
    Type,
    Value,
    Var,
)
from dojoir.codegen.lir.program import Phase as PhaseCode
from dojoir.codegen.lir.walk import variables
from dojoir.codegen.lower.access.conversions import convert
from dojoir.codegen.lower.access.elements import Accesses
from dojoir.codegen.lower.access.expr import combination, evaluate, operate
from dojoir.codegen.lower.access.state import Block, Device, Kept, Memory, Place, State, Unit
from dojoir.codegen.lower.access.touched import Guess, Touch, asked
from dojoir.codegen.lower.gpu.threads import Collective, Nest, Phase, Threads
from dojoir.codegen.lower.plans.plan import Accumulator
from dojoir.codegen.lower.sums.reductions import NAMES, finish, identity, keep
from dojoir.codegen.lower.waits.meetings import meets_in_memory
from dojoir.codegen.math.narrow_floats import bits_of
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DTYPES
from dojoir.ir.expressions import affine_parts
from dojoir.ir.nodes import Path, Scope
from dojoir.ir.text import format_access
from dojoir.ir.where import place
from dojoir.sets.kernel_sets import isl_extent
from dojoir.types.typed import Load, TypedStatement

I32 = DTYPES["i32"]
THREAD = ThreadNumber(INDEX)


class DeviceLowering(Protocol):
    """The lowering of one kernel for a GPU (`dojoir.codegen.lower.nests.device`)."""

    unit: Unit

    def is_atomic(self, path: Path) -> bool:
        """Whether other threads may do to the element what the statement at a path does."""

    def by_one(self, buffer: str, state: State, code: Block, block: Block) -> None:
        """Code that writes to a buffer, for one thread where all run it alike."""

    def is_memory(self, place: Place) -> bool:
        """Whether a place is an array that other threads see."""

    def own_number(self, device: Device) -> Value:
        """The number of a thread among those that run the same."""

    def thread_iterators(
        self, nest: Nest, phase: Phase, state: State, block: Block
    ) -> tuple[tuple[Value, ...], Value | None]:
        """The iterators of a nest, and where this thread has an iteration."""


class Combining:
    """The collectives of one nest of threads: variables for the parts, declared before it, then put together."""

    def __init__(self, unit: Unit, threads: Threads, nest: Nest, state: State, block: Block) -> None:
        self.unit, self.threads, self.nest, self.state, self.block = unit, threads, nest, state, block
        self.parts: list[tuple[Collective, Var]] = []
        self.accumulators: Mapping[Path, Kept] = {}
        for collective in dict.fromkeys(threads.collectives.values()):
            if collective.nest == nest:
                var = self._declared(collective)
                self.parts.append((collective, var))
                kept = Kept((), {(): var})
                self.accumulators = {**self.accumulators, **dict.fromkeys(collective.paths, kept)}

    def _declared(self, collective: Collective) -> Var:
        statement = self._statement(collective)
        target = statement.target
        assert statement.op is not None
        inner = range(self.nest.depths.stop, 1 << 16)
        if any(d in inner for affine in affine_parts(target) for d in affine.iterators):
            beside, path = self.unit.beside, collective.paths[0]
            name = format_access(beside.named(target))
            message = (
                f"{name} is put together by the threads of {_scopes(self.nest)}, and "
                f"which element it is depends on a loop inside of them: swap_scopes brings that loop outside"
            )
            source, span = place(beside.text, beside.place(path))
            raise KernelError(Diagnostic("collective-loop", message, span, source))
        # Of bools `and` and `or` may leave their second operand out, and shuffles are for all threads.
        dtype = I32 if statement.value.dtype == BOOL else statement.value.dtype
        var = Var(Type(dtype), self.unit.names.fresh(f"{target.buffer}_{NAMES[statement.op]}"))
        self.block.emit(lir.Declare(var, identity(statement.op, dtype)))
        return var

    def _statement(self, collective: Collective) -> TypedStatement:
        return self.unit.typed[collective.paths[0]]

    def finish(self, scopes: DeviceLowering, phase: Phase) -> list[lir.Array]:
        """Puts the parts together and into the elements that they are for. Gives the shared arrays it needs."""
        arrays: list[lir.Array] = []
        for collective, var in self.parts:
            statement = self._statement(collective)
            assert statement.op is not None
            op = combination(self.unit, statement.op, statement.value.dtype)
            if meets_in_memory(collective, self.threads.warp):
                arrays.append(self._array(scopes, collective, var))
                self._in_memory(collective, phase, arrays[-1], op, var)
            else:
                every = prod(self.nest.extents) % self.threads.warp == 0
                self._by_shuffles(op, var, collective.width, self.threads.warp if every else collective.width)
            self._into(scopes, collective, phase, statement, var)
        return arrays

    # -- putting together ------------------------------------------------------------------------------------
    def _combine(self, op: str, var: Var, other: Value) -> None:
        self.block.emit(lir.Assign(var, lir.Binary(var.type, op, var, other)))

    def _by_shuffles(self, op: str, var: Var, width: int, together: int) -> None:
        """Over each group of `width` threads, a power of two, of the `together` that run this together. Exchanged
        pairs give the same in both threads, but for comparisons, which do not ask for the sign of 0: there all
        take that of the first. The instructions of a GPU order zeros."""
        distance = width // 2
        while distance:
            self._combine(op, var, Shuffle("xor", var, integer(distance), together))
            distance //= 2
        if width > 1 and var.type.dtype.is_float and op.endswith("_fast"):
            self.block.emit(lir.Assign(var, Shuffle("first", var, integer(0), width)))

    def _array(self, scopes: DeviceLowering, collective: Collective, var: Var) -> lir.Array:
        assert self.state.device is not None
        threads = self.state.device.launched.threads
        if not self._in_pieces(collective):
            threads //= self.threads.warp
        name = self.unit.names.fresh(f"{var.name}_parts")
        array = lir.Array(name, var.type.dtype, integer(threads), "shared", 16)
        scopes.unit.arrays[name] = array
        return array

    def _in_memory(self, collective: Collective, phase: Phase, array: lir.Array, op: str, var: Var) -> None:
        """Over warps: the first thread of each leaves what it has, and all take the results of their group."""
        warp, width = self.threads.warp, self._width(collective)
        barrier = Barrier((array.name,))
        if self._in_pieces(collective):
            self._one_by_one(collective, phase, array, op, var)
            return
        self._by_shuffles(op, var, warp, warp)
        number = divide("div", THREAD, warp)
        leaves = lir.Store(array.name, number, var)
        self.block.emit(lir.If(compare("eq", divide("rem", THREAD, warp), integer(0)), (leaves,)))
        self.block.emit(barrier)
        warps = width // warp
        size = 1 << (warps - 1).bit_length()
        first = mul(divide("div", THREAD, width), integer(warps)) if self._several(width) else integer(0)
        lane = divide("rem", THREAD, size) if size > 1 else integer(0)
        taken: Value = lir.Load(var.type, array.name, add(first, lane))
        if size != warps:
            taken = lir.Select(compare("lt", lane, integer(warps)), taken, identity(_plain(op), var.type.dtype))
        self.block.emit(lir.Assign(var, taken))
        self._by_shuffles(op, var, size, warp)

    def _width(self, collective: Collective) -> int:
        """How many threads share an element: those of a block without an iteration too, where all that have one do.
        What they have is what each begins with, which adds nothing."""
        device = self.state.device
        assert device is not None
        return device.launched.threads if device.level != "warp" and collective.is_one else collective.width

    def _in_pieces(self, collective: Collective) -> bool:
        """Whether those who share an element are not whole warps."""
        width = self._width(collective)
        return width < self.threads.warp or width % self.threads.warp != 0

    def _several(self, width: int) -> bool:
        assert self.state.device is not None
        return width < self.state.device.launched.threads

    def _one_by_one(self, collective: Collective, phase: Phase, array: lir.Array, op: str, var: Var) -> None:
        """Groups that are not whole warps: each thread leaves its part, and goes through those of its group."""
        self.block.emit(lir.Store(array.name, THREAD, var))
        self.block.emit(Barrier((array.name,)))
        self.block.emit(lir.Assign(var, identity(_plain(op), var.type.dtype)))
        offset: Value = integer(0)
        loops: list[tuple[Var, int]] = []
        for depth, extent, stride in zip(self.nest.depths, self.nest.extents, self.nest.strides, strict=True):
            if extent == 1:
                continue
            if depth in collective.depths:
                loop = Var(INDEX, self.unit.names.loop("part", (*self.state.iterators, *(v for v, _ in loops))))
                loops.append((loop, extent))
                offset = add(offset, mul(loop, integer(stride)))
            else:
                digit = divide("rem", divide("div", THREAD, stride) if stride > 1 else THREAD, extent)
                offset = add(offset, mul(digit, integer(stride)))
        taken = lir.Binary(var.type, op, var, lir.Load(var.type, array.name, offset))
        body: tuple[lir.Stmt, ...] = (lir.Assign(var, taken),)
        for loop, extent in reversed(loops):
            body = (lir.For(loop, integer(0), integer(extent), 1, body),)
        self.block.statements.extend(body)

    # -- into the element ------------------------------------------------------------------------------------
    def _into(
        self, scopes: DeviceLowering, collective: Collective, phase: Phase, statement: TypedStatement, var: Var
    ) -> None:
        """Combines the values of the threads with the element: by each thread, where it has the element in a
        register; else by the first of those that share it."""
        where = self.state.places[statement.target.buffer]
        device = self.state.device
        assert device is not None
        lets = Block()
        iterators, within = scopes.thread_iterators(self.nest, phase, self.state, lets)
        everywhere = collective.is_one and device.level != "warp" and not scopes.is_memory(where)
        if everywhere:  # each thread has the element, also those that have no iteration
            iterators = tuple(integer(0) if d in self.nest.depths else v for d, v in enumerate(iterators))
        inside = replace(self.state, iterators=iterators)
        inner = Block()
        first: Value | None = None
        if scopes.is_memory(where):
            if len(collective.depths) == len([e for e in self.nest.extents if e > 1]):
                first = compare("eq", scopes.own_number(device), integer(0))
            else:
                for depth in collective.depths:
                    first = both(first, compare("eq", iterators[depth], integer(0)))
        plain = not scopes.is_memory(where) or first == compare("eq", THREAD, integer(0))
        if isinstance(where, Memory):  # a variable is each thread's own
            first = both(first, self._some(collective, iterators, within if first is not None else None, inner))
            first = both(first, self._changes(collective, statement, var))
        body = Block()
        accesses = Accesses(self.unit, inside, body, collective.paths[0])
        if scopes.is_memory(where) and scopes.is_atomic(collective.paths[0]):
            in_one_step(accesses, statement, var)
        else:
            self._update(statement, accesses, var)
        if first is None:
            inner.statements.extend(body.statements)
        elif first != Const(FLAG, False):
            inner.emit(lir.If(first, body.body))
        depths = {d for i in statement.target.indices if isinstance(i, Affine) for d in i.iterators}
        if everywhere or (plain and depths.isdisjoint(self.nest.depths) and not _uses(inner, lets)):
            self.block.statements.extend(inner.statements)
            return
        every = phase.threads == device.launched.threads or device.level == "warp"
        self.block.emit(PhaseCode(None if every else phase.threads, (*lets.body, *inner.body)))

    def _some(
        self, collective: Collective, iterators: tuple[Value, ...], within: Value | None, block: Block
    ) -> Value | None:
        """Whether those that share an element accumulated into it; None: always. `within`: where the first of them
        has an iteration, which mostly is the same."""
        depths = [d for d in self.nest.depths if d not in collective.depths]
        extents = dict(zip(self.nest.depths, self.nest.extents, strict=True))
        box = tuple(f"0 <= i{d} < {extents[d]}" for d in depths)
        kept = (*range(self.nest.depth), *depths)
        touch = Touch(self.unit.kernel, collective.paths, self.nest.path, kept, box, self.state)
        guess = None if within is None else Guess(self._of_first(collective), collective.depths, within)
        return asked(self.unit, touch, {d: iterators[d] for d in kept}, block, guess)

    def _changes(self, collective: Collective, statement: TypedStatement, var: Var) -> Value | None:
        """Whether anything was accumulated, where that depends on data: what is the neutral value to the bit would
        leave the element as it is, and is not written to it. None: always."""
        sites = {site.path: site.statement for site in self.unit.kernel.sites}
        if all(sites[path].condition is None for path in collective.paths):
            return None
        assert statement.op is not None
        bits = bits_of(var.type.dtype) if var.type.dtype.is_float else var.type.dtype
        neutral = identity(statement.op, var.type.dtype)
        own, none = (lir.Bitcast(Type(bits), v) if var.type.dtype.is_float else v for v in (var, neutral))
        return compare("ne", own, none)

    def _of_first(self, collective: Collective) -> tuple[str, ...]:
        """Where the first of the threads that share an element has an iteration, in isl's notation."""
        found = [f"i{d} = 0" for d in collective.depths]
        for path, depth in zip(self.nest.paths, self.nest.depths, strict=True):
            scope = self.unit.kernel.at(path)
            assert isinstance(scope, Scope)
            found.append(isl_extent(scope.extent, depth))
        return tuple(found)

    def _update(self, statement: TypedStatement, accesses: Accesses, var: Var) -> None:
        assert statement.op is not None
        dtype = var.type.dtype
        own = convert(
            self.unit, statement.dtype, dtype, evaluate(Load(statement.dtype, statement.target), accesses)
        )
        combined = operate(self.unit, statement.op, dtype, own, var)
        accesses.store(statement.target, convert(self.unit, dtype, statement.dtype, combined))


def atomically(unit: Unit, path: Path, accesses: Accesses) -> None:
    """Accumulates into an element that other blocks accumulate into as well."""
    statement = unit.typed[path]
    assert statement.op is not None
    if statement.fused:
        factors = [evaluate(factor, accesses) for factor in statement.factors]
        value = operate(unit, "mul", statement.value.dtype, *factors)
    else:
        value = evaluate(statement.value, accesses)
    in_one_step(accesses, statement, value)


def in_one_step(accesses: Accesses, statement: TypedStatement, value: Value) -> None:
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
    block.emit(Swap(seen, where.array, offset, operate(unit, statement.op, dtype, seen, kept)))


def carry(
    scopes: DeviceLowering,
    path: Path,
    scope: Scope,
    state: State,
    block: Block,
    run: Callable[[Path, Scope, State, Block], None],
) -> None:
    """Lowers the scope at `path` by `run`, with the sums that it carries in variables: declared before it, they go
    into their elements behind it, by an atomic where other blocks add to them too."""
    unit = scopes.unit
    assert state.device is not None
    spelled = {inner.path for accumulator in unit.carried[path] for inner in accumulator.along}
    inside, made = keep(unit, unit.carried[path], 1, state, block)
    run(path, scope, replace(inside, spelled=inside.spelled | spelled), block)
    for accumulator, kept in made:
        into = _by_atomic if scopes.is_atomic(accumulator.paths[0]) else None
        once = Block(pending=block.pending)
        finish(unit, [(accumulator, kept)], path, state, once, into=into)
        scopes.by_one(accumulator.target.buffer, state, once, block)


def _by_atomic(accumulator: Accumulator, total: Value, accesses: Accesses) -> None:
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


def _scopes(nest: Nest) -> str:
    return f"the scope at {'.'.join(map(str, nest.path))}"
