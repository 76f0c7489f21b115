"""A kernel for a GPU: launches around the code of blocks, in which phases are the code of threads.

Everything that is a decision is taken here: which thread runs which iteration, where barriers stand, what lives in
registers and what in shared memory, how threads put together what they accumulate. The printers only spell it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, compare, extent_value, integer
from dojoir.codegen.lir.program import INDEX, Barrier, BlockNumber, Launch, Type, Value, Var
from dojoir.codegen.lir.program import Phase as PhaseCode
from dojoir.codegen.lir.walk import variables
from dojoir.codegen.lower.access.conversions import as_stored
from dojoir.codegen.lower.access.elements import ElementAccess
from dojoir.codegen.lower.access.instruction import instruct
from dojoir.codegen.lower.access.state import (
    Block,
    LaunchPlace,
    LoweringState,
    LoweringUnit,
    Memory,
    Place,
    Variable,
)
from dojoir.codegen.lower.gpu.grids import has_room, in_launches
from dojoir.codegen.lower.gpu.groups import has_proxy
from dojoir.codegen.lower.gpu.launches import Launched, ThreadNest
from dojoir.codegen.lower.gpu.thread_plan import Threads, mark_of
from dojoir.codegen.lower.nests.parallel import CoreScopes, captured
from dojoir.codegen.lower.plans.placement import BufferMention, Home
from dojoir.codegen.lower.sums.by_threads import by_one, is_atomic, thread_iterators
from dojoir.codegen.lower.sums.collectives import Combining, atomically, carry
from dojoir.codegen.lower.sums.partial_sums import in_parts
from dojoir.codegen.lower.vectors.wide import MOST_LANES, Widening, size_divisors
from dojoir.codegen.lower.waits.acts import body
from dojoir.codegen.lower.waits.barrier_proof import are_separated_unasked
from dojoir.codegen.lower.waits.exchanges import Exchanges
from dojoir.codegen.lower.waits.landings import Landings, without_idle_waits
from dojoir.codegen.lower.waits.places_to_wait import Barriers
from dojoir.codegen.lower.waits.speculated import LaunchConditions, cleared, loaded_before
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.buffer_rules import SWIZZLED_ROWS
from dojoir.ir.dtypes import F32
from dojoir.ir.expressions import expr_accesses
from dojoir.ir.nodes import Access, Condition, Extent, Guard, Node, Path, Scope, Statement
from dojoir.ir.where import place as place_in_text
from dojoir.ir.words import GRID
from dojoir.types.typed import TypedStatement


class DeviceScopes(CoreScopes):
    """Lowers the nodes of one kernel for a GPU."""

    def __init__(self, unit: LoweringUnit, threads: Threads, barriers: Barriers, landings: Landings) -> None:
        super().__init__(unit)
        self.threads, self.barriers, self.landings = threads, barriers, landings
        self.shared: list[lir.ProgramArray] = []
        self.cleared: set[str] = set()
        self.sums: set[str] = set()
        self.separated: dict[Path, bool] = {}
        self.exchanges = {id(launched): Exchanges(threads, launched) for launched in threads.launches}
        self.divisors: Mapping[str, int] = {}
        self.widening = Widening(self._in_memory, self.divisors, unit.names.fresh)

    def workspace(self, home: Home, block: Block) -> Memory:
        """A temporary in global memory: an array for all launches."""
        dtype = as_stored(home.buffer.dtype, self.unit.target)
        name = self.unit.names.fresh(home.buffer.name)
        array = lir.ProgramArray(name, dtype, home.layout.elements.value, "heap", max(home.buffer.align, 256))
        self.unit.arrays[name] = array
        block.emit(lir.Allocate(array))
        return Memory(name, home.layout)

    # -- host code -------------------------------------------------------------------------------------------
    def nodes(self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block) -> None:
        """The children of a node: of the host, launches; of a block, with barriers between them."""
        if state.device is None:
            self._host(path, nodes, state, block)
            return
        if state.device.level == "thread":
            super().nodes(path, nodes, state, block)
            return
        children = state.device.launched.children(self.unit.kernel, path)
        for i in children:
            self._barrier(path, i, state.device, block)
            node = nodes[i]
            match node:
                case Scope() if (nest := self._nest_at((*path, i), state.device)) is not None:
                    self._threads((*path, i), nest, state, block)
                case _:
                    self._plain((*path, i), node, state, block)
        self._barrier(path, children.stop, state.device, block)

    def _plain(self, path: Path, node: Node, state: LoweringState, block: Block) -> None:
        match node:
            case Statement():
                self._statement(path, state, block)
            case Scope():
                self._scope(path, node, state, block)
            case _:
                self._guard(path, node, state, block)

    def is_idle(self, path: Path, state: LoweringState) -> bool:
        device = state.device
        if device is None or device.level != "thread":
            return False
        conditions = LaunchConditions(self.threads, device.launched)
        if not conditions.is_idle(path) or not self._is_apart(path):
            return False
        read = (state.places[name] for name in conditions.shared(path))
        self.cleared.update(place.array for place in read if isinstance(place, Memory))
        return True

    def _guard(self, path: Path, guard: Guard, state: LoweringState, block: Block) -> None:
        device, inner = state.device, Block(pending=block.pending)
        super()._guard(path, guard, state, inner)
        around = (self.unit.kernel.at(path[:end]) for end in range(1, len(path)))
        wide = any(isinstance(node, Scope) and "v" in node.marks for node in around)  # asked once, for neighbours
        asked = not (wide or state.lanes) and any(isinstance(stmt, lir.If) for stmt in inner.statements)
        if device is not None and device.level == "thread" and asked:
            names = LaunchConditions(self.threads, device.launched).loadable_before(path)
            names = names if names and self._is_apart(path) else set()
            arrays = {place.array for name in names if isinstance(place := state.places[name], Memory)}
            self.cleared |= arrays
            inner.statements = [*loaded_before(inner.statements, arrays, self.unit.names.fresh)]
        block.statements.extend(inner.statements)

    def _is_apart(self, path: Path) -> bool:
        """Whether a thread that does not ask the condition of the guard at a path reads nothing in shared memory
        that another one may write at that time."""
        if path not in self.separated:
            kernel, warp = self.threads.kernel, self.threads.warp
            self.separated[path] = are_separated_unasked(kernel, warp, self.barriers, path)
        return self.separated[path]

    def _host(self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block) -> None:
        starts = {launched.first: launched for launched in self.threads.launches if launched.parent == path}
        for i, node in enumerate(nodes):
            if i in starts:
                self._launch(starts[i], nodes, state, block)
            elif not any(launched.holds((*path, i)) for launched in self.threads.launches):
                self._plain((*path, i), node, state, block)

    def _launch(self, launched: Launched, nodes: tuple[Node, ...], state: LoweringState, block: Block) -> None:
        """One kernel of the device. What it needs of the host is computed there, and given to it."""
        self.shared, self.cleared = [], set()
        self.divisors = size_divisors((*self.unit.kernel.facts, *self._conditions_around(launched)))
        self.widening = Widening(self._in_memory, self.divisors, self.unit.names.fresh)
        grid: list[Value] = [integer(1)] * 3
        inner, body, parts_of = Block(), nodes, dict[int, Var]()
        iterators = list(state.iterators)
        for path in launched.grid:
            scope = self.unit.kernel.at(path)
            assert isinstance(scope, Scope)
            axis = GRID.index(mark_of(scope, GRID) or "gx")
            grid[axis] = extent_value(scope.extent, state.iterators)
            var = self.unit.loop_var(scope, iterators)
            number: Value = BlockNumber(INDEX, axis)
            if axis and not has_room(scope, self.unit.target.grid[axis]):
                parts_of[axis] = Var(INDEX, self.unit.names.fresh(f"{var.name}_first"))
                own = Var(INDEX, self.unit.names.fresh(f"{var.name}_block"))
                inner.emit(lir.Let(own, number))
                number = add(own, parts_of[axis])
            inner.emit(lir.Let(var, number))
            iterators.append(var)
            body = scope.body
        device = LaunchPlace("block", launched)
        inside = replace(state, iterators=tuple(iterators), device=device)
        self.fill(launched.body, body, inside, inner)
        clear = [array for array in self.shared if array.name in self.cleared]
        code = in_parts(inner.body, frozenset(self.sums), self.unit.names)
        code = (*cleared(clear, launched.threads, self.unit.names.fresh), *without_idle_waits(code))
        shared = {array.name for array in self.shared}
        captures, arrays = captured(code, shared, self.unit)
        order = [*(array.name for array in self.unit.kernel.arguments), *self.unit.arrays]
        sizes = [*order, *self.unit.kernel.runtime_sizes]
        launch = Launch(
            self.unit.names.fresh(self._launch_name()),
            tuple(grid[: max((n for n, e in enumerate(grid) if e != integer(1)), default=0) + 1]),
            launched.threads,
            tuple(sorted(self.shared, key=lambda array: -array.align)),  # without gaps between them
            tuple(sorted(captures, key=lambda var: _place_of(var, sizes, parts_of))),
            tuple(sorted(arrays, key=lambda array: order.index(array.name))),
            code,
            "; ".join(self.unit.lines[path] for path in launched.grid),
            tuple(
                (array.name, self.widening.wide[array.name]) for array in arrays if array.name in self.widening.wide
            ),
            self._alone(launched, state),
        )
        block.emit(in_launches(launch, parts_of, self.unit.target.grid, self.unit.names.fresh))

    def _alone(self, launched: Launched, state: LoweringState) -> frozenset[str]:
        """The arrays of global memory through which the threads of a launch exchange nothing."""
        exchanged = self.exchanges[id(launched)].exchanged
        places = {name: place.array for name, place in state.places.items() if isinstance(place, Memory)}
        return frozenset(places.values()) - {array for name, array in places.items() if name in exchanged}

    def _conditions_around(self, launched: Launched) -> Iterator[Condition]:
        """The conditions that host code has checked before a launch."""
        path = launched.grid[0] if launched.grid else launched.parent
        for end in range(len(path)):
            node = self.unit.kernel.at(path[:end]) if end else None
            if isinstance(node, Guard):
                yield from node.conditions

    def _launch_name(self) -> str:
        return f"{self.unit.kernel.name}_kernel"

    # -- block code ------------------------------------------------------------------------------------------
    def _barrier(self, path: Path, at: int, device: LaunchPlace, block: Block) -> None:
        about = self.barriers.get((path, at))
        if (path, at) in self.landings.commits:
            block.emit(lir.Commit())
        if (path, at) in self.landings.waits:
            block.emit(lir.Land(self.landings.waits[path, at]))
        if about:
            lanes = device.phase.lanes if device.level == "warp" and device.phase else 0
            if lanes > self.threads.warp:
                source, span = place_in_text(
                    self.unit.kernel, (*path, min(at, len(body(self.unit.kernel, path)) - 1))
                )
                message = (
                    f"{lanes} threads that execute an instruction together would wait for each other here, for "
                    f"{', '.join(about)}: split_scopes, so that the block does"
                )
                raise KernelError(Diagnostic("broken-block", message, span, source))
            proxy = not lanes and has_proxy(self.threads.groups, device.launched.holds)
            block.emit(Barrier(about, lanes, proxy))

    def _nest_at(self, path: Path, device: LaunchPlace) -> ThreadNest | None:
        if device.level == "block":
            return next((phase.nest for phase in device.launched.phases if phase.path == path), None)
        assert device.phase is not None
        return next((nest for nest in device.phase.groups if nest.path == path), None)

    def _threads(self, path: Path, nest: ThreadNest, state: LoweringState, block: Block) -> None:
        """The code of threads, then what they put together."""
        device = state.device
        assert device is not None
        phase = device.phase or device.launched.phase_of(path)
        assert phase is not None
        combining = Combining(self.unit, self.threads, nest, state, block)
        inner = Block()
        iterators, within = thread_iterators(self.unit, nest, phase, state, inner)
        last = self.unit.kernel.at(nest.paths[-1])
        assert isinstance(last, Scope)
        warp_code = phase.is_warp_code and device.level == "block"
        below = LaunchPlace("warp" if warp_code else "thread", device.launched, phase)
        inside = replace(
            state,
            iterators=iterators,
            device=below,
            accumulators={**state.accumulators, **combining.accumulators},
        )
        body = self.body(nest.paths[-1], last.body, inside)
        if within is not None:
            inner.emit(lir.If(within, body))
        else:
            inner.statements.extend(body)
        inner = without_dead_lets(inner)
        text = "; ".join(self.unit.lines[own] for own in nest.paths)
        if device.level == "warp":
            block.emit(PhaseCode(None, inner.body, text))
        else:
            every = phase.threads == device.launched.threads
            block.emit(PhaseCode(None if every else phase.threads, inner.body, text))
        self.shared += combining.finish(phase)

    # -- temporaries -----------------------------------------------------------------------------------------
    def _settle(
        self, path: Path, nodes: tuple[Node, ...], state: LoweringState, block: Block, versions: bool = False
    ) -> LoweringState:
        """Gives the temporaries of the scope at `path` their places: those of the host are arrays of the device,
        and have theirs. All at once: an array in registers is one for the whole of a launch."""
        if state.device is None:
            return state
        launched = state.device.launched
        places: dict[str, Place] = {}
        for name, home in self.unit.homes.items():
            if home.owner != path or name in state.places:
                continue
            if not all(launched.holds(use.site.path) for use in home.uses):
                continue
            if home.buffer.storage == "shared":
                memory = self.allocate(home, 1, Block())
                align = max(home.buffer.align, ACCESS_BYTES, SWIZZLED_ROWS * home.buffer.swizzle)
                array = replace(
                    self.unit.arrays[memory.array], lives="shared", align=align, swizzle=home.buffer.swizzle
                )
                self.unit.arrays[memory.array] = array
                self.shared.append(array)
                places[name] = memory
            elif home.layout.is_single:
                places[name] = self._variable(home, 1, nodes, block)
            else:
                places[name] = self.allocate(home, 1, block)
        return replace(state, places={**state.places, **places}) if places else state

    # -- statements ------------------------------------------------------------------------------------------
    def _statement(self, path: Path, state: LoweringState, block: Block) -> None:
        device = state.device
        assert device is not None, "host code has no statements"
        target = self.unit.typed[path].target
        inner = Block(pending=block.pending)
        super()._statement(path, state, inner)
        self._note_sum(path, state)
        by_one(self.unit, target.buffer, state, inner, block)

    def _update(self, statement: TypedStatement, accesses: ElementAccess) -> None:
        device = accesses.state.device
        assert device is not None
        if is_atomic(self.unit, accesses.path):
            atomically(self.unit, accesses.path, accesses)
        else:
            super()._update(statement, accesses)

    def _where(self, holds: Value, statement: TypedStatement, accesses: ElementAccess) -> None:
        """A conditional load that is part of a wide access: all elements are loaded, and a select keeps those
        whose condition holds. Loads under a condition on data are in bounds whether or not it holds (see
        `data_writes`)."""
        kept = accesses.state.accumulators.get(accesses.path)
        if kept is not None and kept.touched is None and self._differs_among_neighbours(accesses.path):
            inner = Block(pending=set())
            self._do(accesses.path, statement, ElementAccess(self.unit, accesses.state, inner, accesses.path))
            match inner.statements:
                case [lir.Assign(var, value)] if holds.type.lanes == 1:
                    accesses.block.emit(lir.Assign(var, lir.Select(holds, value, var)))
                    return
        super()._where(holds, statement, accesses)

    def _differs_among_neighbours(self, path: Path) -> bool:
        """Whether a statement is alone with others in a scope marked `v` along which its condition goes, and reads
        nothing at an index from data."""
        scope, statement = self.unit.kernel.at(path[:-1]), self.unit.kernel.at(path)
        if not (isinstance(scope, Scope) and "v" in scope.marks and isinstance(statement, Statement)):
            return False
        if statement.condition is None or any(
            isinstance(i, Access) for read in statement.reads for i in read.indices
        ):
            return False
        depth = self.unit.kernel.depth_of(path[:-1])
        indices = [index for read in expr_accesses(statement.condition) for index in read.indices]
        return any(isinstance(index, Affine) and depth in index.iterators for index in indices)

    def _note_sum(self, path: Path, state: LoweringState) -> None:
        """Remembers the variable of f32 that a statement adds to, if it does, in any order."""
        statement = self.unit.typed[path]
        place = state.places[statement.target.buffer]
        uses = self.unit.uses[statement.target.buffer]
        if statement.op != "add" or self.unit.kernel.fp == "strict" or any(map(_is_of_itself, uses)):
            return
        if path in state.accumulators:
            self.sums.update(var.name for var in state.accumulators[path].variables.values() if _is_f32(var))
        elif isinstance(place, Variable) and _is_f32(place.var):
            self.sums.add(place.var.name)

    # -- scopes ----------------------------------------------------------------------------------------------
    def _scope(self, path: Path, scope: Scope, state: LoweringState, block: Block) -> None:
        """A scope as a loop: of the host, of a block, or of one thread; its iterations side by side where that is
        asked for and there are few."""
        group = self.threads.groups.get(path)
        if group is not None:
            block.emit(lir.Comment(self.unit.lines[path]))
            instruct(self.unit, path, state, group.instruction, group.fit, (), block)
        elif path in state.spelled:
            self._copies(path, scope, state, block)
        elif state.device is not None and path in self.unit.carried:
            carry(self.unit, path, scope, state, block, self._run)
        else:
            self._run(path, scope, state, block)

    def _run(self, path: Path, scope: Scope, state: LoweringState, block: Block) -> None:
        device, bound = state.device, scope.constant_bound
        side_by_side = device is not None and device.level == "thread" and "v" in scope.marks
        if not side_by_side or bound is None or not 1 < bound <= MOST_LANES:
            self._loop(path, scope, state, block)
            return
        bodies = [
            self.body(path, scope.body, replace(state, iterators=(*state.iterators, integer(n))))
            for n in range(bound)
        ]
        later = (*path, 0) in self.landings.copies
        whole = (later and self.widening.started(bodies)) or self.widening.widened(bodies)
        rest = tuple(limit for limit in scope.extent.bounds if not limit.is_constant)
        if not rest:
            block.emit(lir.Comment(self.unit.lines[path]))
            block.statements.extend(whole)
            return
        part = Block()
        self._loop(path, scope, state, part)
        full = compare("ge", extent_value(Extent(rest), state.iterators), integer(bound))
        block.emit(lir.If(full, tuple(whole), part.body, self.unit.lines[path]))

    def _in_memory(self, name: str) -> lir.ProgramArray | None:
        """An array that is not in registers, if wide accesses may be made at all."""
        array = self.unit.arrays.get(name)
        return array if array is not None and self.unit.target.wide and array.lives != "stack" else None


def _is_of_itself(use: BufferMention) -> bool:
    """Whether a use is an assignment of an element by itself, as `s = s + x`: of that the order counts."""
    statement = use.site.statement
    return statement.op == "=" and any(read.buffer == statement.target.buffer for read in statement.term_reads)


def _is_f32(var: Var) -> bool:
    return var.type == Type(F32)


def _place_of(var: Var, sizes: Sequence[str], parts_of: Mapping[int, Var]) -> int:
    """Where what a launch takes from the host stands among its arguments: numbers of first blocks are last."""
    if var in parts_of.values():
        return len(sizes)
    return sizes.index(var.name) if var.name in sizes else -1


def without_dead_lets(block: Block) -> Block:
    """A block without those of its first lets that nothing in it reads."""
    kept: list[lir.Stmt] = []
    read: set[str] = set()
    for stmt in reversed(block.statements):
        if isinstance(stmt, lir.Let) and stmt.var.name not in read and stmt.var.type == INDEX:
            continue
        read |= variables(stmt)
        kept.append(stmt)
    return Block(kept[::-1])
