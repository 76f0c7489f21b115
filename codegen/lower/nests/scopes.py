"""Scopes, guards and statements as loops, branches and stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import (
    affine_value,
    both,
    compare,
    condition_value,
    extent_value,
    integer,
    smaller,
    spread,
)
from dojoir.codegen.lir.program import FLAG, Type, Value, Var
from dojoir.codegen.lower.access.asked_once import asked_once, conjuncts
from dojoir.codegen.lower.access.conversions import as_stored, convert, number
from dojoir.codegen.lower.access.elements import ElementAccess, lane_condition
from dojoir.codegen.lower.access.expr import combination, evaluate, operate
from dojoir.codegen.lower.access.fetch import fetch_ahead
from dojoir.codegen.lower.access.instruction import instruct, instruction_of
from dojoir.codegen.lower.access.state import Block, LoweringState, LoweringUnit, Memory, Place, Variable, at_work
from dojoir.codegen.lower.access.touched import runs_at_all
from dojoir.codegen.lower.plans.full_tiles import edge, inside
from dojoir.codegen.lower.plans.placement import STACK_BYTES, Home, begins_with_assignment
from dojoir.codegen.lower.plans.unrolling import copies, rolled
from dojoir.codegen.lower.sums.reductions import accumulate_magnitudes, finish, identity, keep, largest_magnitude
from dojoir.codegen.lower.vectors.contiguous import ContiguousNest, contiguous_nest
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DType
from dojoir.ir.nodes import Extent, Guard, Node, Path, Scope, Statement
from dojoir.ir.places import is_uniform
from dojoir.types.typed import Apply, Load, Typed, TypedStatement

MOST_VERSIONED = 512
"""How many statements, unrolled scopes spelled out, there may be in all versions of what is lowered for full tiles
and cut ones, and for conditions that hold and do not."""

Run = Callable[[Path, Scope, LoweringState, Block, Sequence[Value]], None]
"""Lowers the scope at a path into a block; it ends where one of some lengths (i64) is reached as well."""


class Scopes(ABC):
    """Lowers the nodes of one kernel."""

    def __init__(self, unit: LoweringUnit) -> None:
        self.unit = unit

    @abstractmethod
    def in_lanes(
        self, path: Path, scope: Scope, state: LoweringState, block: Block, lengths: Sequence[Value]
    ) -> None:
        """A scope that runs in lanes, and ends where one of `lengths` is reached as well."""

    @abstractmethod
    def as_one(self, nest: ContiguousNest, state: LoweringState, block: Block) -> None:
        """Scopes inside each other that run in lanes as one loop."""

    @abstractmethod
    def on_cores(self, path: Path, scope: Scope, state: LoweringState, block: Block) -> None:
        """A scope marked `p`."""

    # -- blocks ----------------------------------------------------------------------------------------------
    def body(self, path: Path, nodes: tuple[Node, ...], state: LoweringState) -> tuple[lir.Stmt, ...]:
        """The children of the scope at `path` (empty: of the kernel), with the temporaries that live there."""
        block = Block()
        self.fill(path, nodes, state, block)
        return block.body

    def fill(self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block) -> None:
        """The same, into a block that has begun."""
        state = self._settle(path, nodes, state, block, versions=True)
        self._fetch(path, state, block)
        self._tiles(path, nodes, state, block)

    def _fetch(self, path: Path, state: LoweringState, block: Block) -> None:
        """Emits the prefetches for the hints of the scope at `path`. The iterations of a scope in lanes that are
        left over run one by one, and have been asked for; those of a compiler's lanes are asked for in blocks,
        around them."""
        scope = self.unit.kernel.at(path) if path else None
        if isinstance(scope, Scope) and scope.hints and (state.lanes is not None or path not in self.unit.plans):
            fetch_ahead(self.unit, path, scope, state, block)

    def _tiles(self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block) -> None:
        """The children of a scope: twice, where the tiles inside may be full or cut at an edge."""
        found = None
        if state.lanes is None and _may_fork(nodes, state):
            found = edge(path, nodes, len(state.iterators), self.unit.plans, state.full | state.cut)
        if found is None:
            self._insides(path, nodes, state, block)
            return
        full = replace(state, full=state.full | found.paths, versions=2 * state.versions)
        cut = replace(state, cut=state.cut | found.paths, versions=2 * state.versions)
        self._fork(found.bounds, found.full, full, cut, partial(self._tiles, path, nodes), block)

    def _insides(self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block) -> None:
        """The children of a scope: twice, where the conditions inside may hold for all of a tile; once for the
        threads of a GPU, which would run both one after the other."""
        found = None
        if state.device is None and state.lanes is None and _may_fork(nodes, state):
            found = inside(path, nodes, len(state.iterators), self.unit.plans, state.full, state.asked)
        if found is None:
            self.nodes(path, nodes, self._settle(path, nodes, state, block), block)
            return
        asked = replace(state, asked=state.asked | {found.guard}, versions=2 * state.versions)
        whole = replace(asked, holding=state.holding | {found.guard})
        self._fork(found.least, 0, whole, asked, partial(self._insides, path, nodes), block)

    def _fork(
        self,
        bounds: Iterable[Affine],
        least: int,
        yes: LoweringState,
        no: LoweringState,
        fill: Callable[[LoweringState, Block], None],
        block: Block,
    ) -> None:
        """Two versions of some code: for all `bounds` at `least` that, and else."""
        holds: Value | None = None
        for bound in bounds:
            holds = both(holds, compare("ge", affine_value(bound, yes.iterators), integer(least)))
        assert holds is not None
        whole, other = Block(pending=set(block.pending)), Block(pending=set(block.pending))
        block.pending.clear()
        fill(yes, whole)
        fill(no, other)
        block.emit(lir.If(holds, whole.body, other.body))

    def nodes(self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block) -> None:
        for i, node in enumerate(nodes):
            here = (*path, i)
            match node:
                case Statement():
                    self._statement(here, state, block)
                case Guard():
                    self._guard(here, node, state, block)
                case Scope():
                    self._scope(here, node, state, block)

    # -- temporaries -----------------------------------------------------------------------------------------
    def _settle(
        self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block, versions: bool = False
    ) -> LoweringState:
        """Gives the temporaries of the scope at `path` their places. Where there may be several `versions` of what
        is inside, all but arrays on the stack, of which each has its own. A compiler that finds one in two of them
        keeps what it holds over both, and then not in registers."""
        places: dict[str, Place] = {}
        for name, home in self.unit.homes.items():
            later = versions and state.device is None and not home.is_variable and home.lives == "stack"
            if home.owner == path and name not in state.places and not later:
                inside = state.lanes is not None and state.lanes.depth < len(home.around)
                if home.is_variable:
                    places[name] = self._variable(home, state.lane_count if inside else 1, nodes, block)
                else:
                    places[name] = self.allocate(home, self.lane_copies(home) if inside else 1, block)
        return replace(state, places={**state.places, **places}) if places else state

    def _variable(self, home: Home, lanes: int, nodes: tuple[Node, ...], block: Block) -> Variable:
        dtype = as_stored(home.buffer.dtype, self.unit.target)
        var = Var(Type(dtype, lanes), self.unit.names.fresh(home.buffer.name))
        if begins_with_assignment(home.buffer.name, nodes):
            block.pending.add(var.name)
        else:
            block.emit(lir.Declare(var, spread(number(dtype, 0), lanes)))
        return Variable(var)

    def is_private_to_chunk(self, home: Home) -> bool:
        """Whether each chunk of a scope on the cores needs its own."""
        return any("p" in scope.marks and home.is_private(depth) for depth, scope in enumerate(home.around))

    def lane_copies(self, home: Home) -> int:
        """How many lanes each need their own, in the scope in lanes around all uses."""
        for n in range(1, len(home.owner) + 1):
            plan = self.unit.plans.get(home.owner[:n])
            if plan is not None and home.is_private(self.unit.kernel.depth_of(home.owner[:n])):
                return plan.lanes
        return 1

    def allocate(self, home: Home, copies: int, block: Block) -> Memory:
        """An array for a temporary, each element `copies` times."""
        buffer = home.buffer
        dtype = as_stored(buffer.dtype, self.unit.target)
        elements = home.layout.elements
        lives = home.lives
        if lives == "stack" and elements.constant * copies * dtype.itemsize > STACK_BYTES:
            lives = "heap"
        align = max(buffer.align, 64) if lives == "heap" else buffer.align
        times = Affine.constant(copies)
        array = lir.ProgramArray(
            self.unit.names.fresh(buffer.name), dtype, elements.times(times).value, lives, align
        )
        self.unit.arrays[array.name] = array
        block.emit(lir.Allocate(array))
        return Memory(array.name, home.layout, copies)

    # -- statements ------------------------------------------------------------------------------------------
    def _statement(self, path: Path, state: LoweringState, block: Block) -> None:
        statement = self.unit.typed[path]
        accesses = ElementAccess(self.unit, state, block, path)
        asked = [part for part in conjuncts(statement.condition) if part not in state.settled]
        if asked:
            condition = reduce(lambda one, other: Apply(BOOL, "and", (one, other)), asked)
            self._where(evaluate(condition, accesses), replace(statement, condition=None), accesses)
        else:
            self._do(path, statement, accesses)

    def _where(self, holds: Value, statement: TypedStatement, accesses: ElementAccess) -> None:
        """A statement where a condition on data holds: in one iteration, or in some lanes. Elsewhere nothing is
        read or written, nor can anything fail."""
        inner = Block(pending=set())
        some, state = at_work(self.unit.names, accesses.state, holds, accesses.block)
        self._do(accesses.path, statement, ElementAccess(self.unit, state, inner, accesses.path))
        accesses.block.emit(lir.If(some, inner.body))

    def _do(self, path: Path, statement: TypedStatement, accesses: ElementAccess) -> None:
        state = accesses.state
        if path in state.accumulators:
            kept = state.accumulators[path]
            self._accumulate(kept.at(state.iterators), statement, accesses)
            if kept.touched is not None:
                accesses.block.emit(lir.Assign(kept.touched, lir.Const(FLAG, True)))
        elif (within := accesses.within(statement.target)) is not None:
            self._scatter(statement, within, accesses)
        else:
            self._update(statement, accesses)

    def _update(self, statement: TypedStatement, accesses: ElementAccess) -> None:
        if self._is_shared_reduction(statement, accesses.state):
            self._reduce_in_place(statement, accesses)
        else:
            accesses.store(statement.target, self._spelled(statement, accesses))

    def _scatter(self, statement: TypedStatement, within: Value, accesses: ElementAccess) -> None:
        """Accumulates into the element at indices from data, where they are in range: nothing else is touched."""
        lanes, around = accesses.state.lanes, accesses.block
        if within.type.lanes > 1 and lanes is not None:
            accesses.state = replace(accesses.state, lanes=replace(lanes, mask=both(lanes.mask, within)))
            self._update(statement, accesses)
            return
        accesses.block = Block(pending=around.pending)
        self._update(statement, accesses)
        around.emit(lir.If(within, accesses.block.body))

    def _spelled(self, statement: TypedStatement, accesses: ElementAccess) -> Value:
        """The new element, of the type as stored."""
        if statement.fused:
            added = self._fused(statement, accesses, self._own(statement, accesses))
            return convert(self.unit, statement.value.dtype, statement.dtype, added)
        value = evaluate(statement.value, accesses)
        if statement.op is None:
            return convert(self.unit, statement.value.dtype, statement.dtype, value)
        return self._combined(statement, accesses, value)

    def _own(self, statement: TypedStatement, accesses: ElementAccess) -> Value:
        """The element that a statement accumulates into, in the type in which it does."""
        value = evaluate(Load(statement.dtype, statement.target), accesses)
        return convert(self.unit, statement.dtype, statement.value.dtype, value)

    def _fused(self, statement: TypedStatement, accesses: ElementAccess, into: Value) -> Value:
        """`into` with the product of a fused accumulation added to it."""
        factors = [evaluate(factor, accesses) for factor in statement.factors]
        return operate(self.unit, "fma", statement.value.dtype, *factors, into)

    def _combined(self, statement: TypedStatement, accesses: ElementAccess, value: Value) -> Value:
        """The element combined with `value`, converted to the type as stored."""
        dtype = statement.value.dtype
        assert statement.op is not None
        own = self._own(statement, accesses)
        return convert(self.unit, dtype, statement.dtype, operate(self.unit, statement.op, dtype, own, value))

    def _accumulate(self, var: Var, statement: TypedStatement, accesses: ElementAccess) -> None:
        """Into the variable of a reduction; lanes that are masked keep theirs."""
        assert statement.op is not None
        dtype, own = var.type.dtype, statement.value.dtype  # a sum may be carried in a wider type

        def wide(value: Typed) -> Value:
            return convert(self.unit, own, dtype, evaluate(value, accesses))

        if statement.fused:
            combined = operate(self.unit, "fma", dtype, *map(wide, statement.factors), var)
        else:
            combined = self._combine(statement.op, dtype, wide(statement.value), var)
        mask = accesses.state.mask
        if mask is not None and var.type.lanes > 1:
            combined = lir.Select(mask, combined, var)
        accesses.block.emit(lir.Assign(var, combined))

    def _combine(self, op: str, dtype: DType, value: Value, into: Value) -> Value:
        """`into op value`. max and min look for a NaN in their first operand only: the second is never lost."""
        ordered = (value, into) if op in ("min", "max") else (into, value)
        return operate(self.unit, op, dtype, *ordered)

    def _is_shared_reduction(self, statement: TypedStatement, state: LoweringState) -> bool:
        """Whether all lanes accumulate into one element."""
        if state.lanes is None or statement.op is None:
            return False
        home = self.unit.homes.get(statement.target.buffer)
        if home is not None and state.lanes.depth < len(home.around):
            return False
        return is_uniform(self.unit.kernel, statement.target, state.lanes.depth)

    def _reduce_in_place(self, statement: TypedStatement, accesses: ElementAccess) -> None:
        assert statement.op is not None
        lanes = accesses.state.lane_count
        dtype = statement.value.dtype
        value = spread(evaluate(statement.value, accesses), lanes)
        mask = accesses.state.mask
        if mask is not None:
            value = lir.Select(mask, value, spread(identity(statement.op, dtype), lanes))
        total: Value = lir.Reduce(combination(self.unit, statement.op, dtype), value)
        if accumulate_magnitudes([statement]):
            total = largest_magnitude(value)
        accesses.store(statement.target, self._combined(statement, accesses, total))

    # -- guards ----------------------------------------------------------------------------------------------
    def is_idle(self, path: Path, state: LoweringState) -> bool:
        """Whether the condition at a place need not be asked."""
        return False

    def _guard(self, path: Path, guard: Guard, state: LoweringState, block: Block) -> None:
        if path in state.holding or self.is_idle(path, state):
            self.nodes(path, guard.body, state, block)
            return
        uniform: Value | None = None
        varying: Value | None = None
        for condition in guard.conditions:
            difference = condition.left - condition.right  # what is on both sides makes no difference
            if state.lanes is not None and state.lanes.depth in difference.iterators:
                varying = both(varying, lane_condition(condition, state))
            else:
                uniform = both(uniform, condition_value(condition, state.iterators))
        inner = Block(pending=set())
        if varying is not None:
            within = Block()
            some, active = at_work(self.unit.names, state, varying, inner)
            self.nodes(path, guard.body, active, within)
            inner.emit(lir.If(some, within.body, comment=self.unit.lines[path]))
        else:
            self.nodes(path, guard.body, state, inner)
        if uniform is None:
            block.statements.extend(inner.statements)
        else:
            comment = "" if varying is not None else self.unit.lines[path]
            block.emit(lir.If(uniform, inner.body, comment=comment))

    # -- scopes ----------------------------------------------------------------------------------------------
    def _scope(self, path: Path, scope: Scope, state: LoweringState, block: Block) -> None:
        if path in state.full:
            constants = tuple(bound for bound in scope.extent.bounds if bound.is_constant)
            scope = replace(scope, extent=Extent(constants))
        found = instruction_of(self.unit, path, scope, state) if scope.hints else None
        if found is not None:
            otherwise = Block()
            self._scope(path, replace(scope, hints=()), state, otherwise)
            instruct(self.unit, path, state, *found, otherwise.body, block)
        elif "p" in scope.marks and not state.in_parallel and state.lanes is None:
            self.on_cores(path, scope, state, block)
        elif path in self.unit.plans and state.lanes is None:
            self._asking_once(path, scope, state, block, self.in_lanes)
        elif path in state.spelled:
            self._copies(path, scope, state, block)
        elif path not in self.unit.carried and (nest := self._one_loop(path, scope, state)):
            self.as_one(nest, state, block)
        elif (path in self.unit.held or path in self.unit.carried) and state.lanes is None:
            inner, sums = keep(self.unit, self.unit.carried.get(path, ()), 1, state, block)
            for plan in self.unit.held.get(path, ()):
                accumulators = [a for a in plan.accumulators if a.until == path]
                inner, made = keep(self.unit, accumulators, plan.at_once(self.unit.target), inner, block)
                sums += made
            self._loop(path, scope, inner, block)
            finish(self.unit, sums, path, state, block)
        else:
            self._loop(path, scope, state, block)

    def _one_loop(self, path: Path, scope: Scope, state: LoweringState) -> ContiguousNest | None:
        """The nest that is one loop in lanes, outside of others."""
        return contiguous_nest(self.unit, path, scope, state) if state.lanes is None else None

    def _copies(self, path: Path, scope: Scope, state: LoweringState, block: Block) -> None:
        """The iterations of a scope that runs a constant number of times, one after another."""
        block.emit(lir.Comment(self.unit.lines[path]))
        for i in range(scope.extent.bounds[0].offset):
            inner = replace(state, iterators=(*state.iterators, integer(i)))
            block.statements.extend(self.body(path, scope.body, inner))

    def _loop(self, path: Path, scope: Scope, state: LoweringState, block: Block) -> None:
        self._asking_once(path, scope, state, block, self._iterations)

    def _asking_once(self, path: Path, scope: Scope, state: LoweringState, block: Block, run: Run) -> None:
        """The scope as `run` lowers it, within what is asked once of all its iterations."""
        once = asked_once(self.unit, path, scope, state)
        if once is None:
            run(path, scope, state, block, ())
            return
        code = Block(pending=set())
        accesses = ElementAccess(self.unit, state, code, once.statement)
        holds: Value | None = None
        for part in once.around:
            holds = both(holds, evaluate(part, accesses))
        inner = replace(state, settled=state.settled | once.settled)
        asked, code = code, code if holds is None else Block(pending=set())
        lengths = [
            evaluate(length, ElementAccess(self.unit, state, code, once.statement)) for length in once.lengths
        ]
        run(path, scope, inner, code, lengths)
        if holds is not None:
            asked.emit(lir.If(holds, code.body))
        if runs_at_all(self.unit.kernel, path, scope.extent, state):
            block.statements.extend(asked.statements)
        else:  # what is asked has elements only where the loop runs
            runs = compare("ge", extent_value(scope.extent, state.iterators), integer(1))
            block.emit(lir.If(runs, asked.body))

    def _iterations(
        self, path: Path, scope: Scope, state: LoweringState, block: Block, lengths: Sequence[Value]
    ) -> None:
        """The loop of a scope, which ends where one of `lengths` is reached as well."""
        var = self.unit.loop_var(scope, state.iterators)
        inner = replace(state, iterators=(*state.iterators, var))
        body = self.body(path, scope.body, inner)
        comment = self.unit.lines[path]
        bounds = scope.extent.bounds
        constant = min((bound.offset for bound in bounds if bound.is_constant), default=None)
        reason = rolled(max(constant, 1), scope.body) if "u" in scope.marks and constant is not None else ""
        if "u" in scope.marks and constant is not None and not reason:
            rest = tuple(bound for bound in bounds if not bound.is_constant)
            if rest:
                within = lir.Compare("lt", var, extent_value(Extent(rest), state.iterators))
                body = (lir.If(within, body),)
            block.emit(lir.For(var, integer(0), integer(max(constant, 0)), 1, body, "unroll", comment=comment))
        else:
            comment += f" ({reason})" if reason else ""
            stop = reduce(smaller, lengths, extent_value(scope.extent, state.iterators))
            block.emit(lir.For(var, integer(0), stop, 1, body, comment=comment))


def _may_fork(nodes: tuple[Node, ...], state: LoweringState) -> bool:
    """Whether the children of a scope may be lowered twice. Each question doubles what is spelled out of them, and
    so does each one that is asked inside of that."""
    return 2 * state.versions * copies(nodes) <= MOST_VERSIONED
