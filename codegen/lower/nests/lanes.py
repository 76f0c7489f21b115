"""Scopes in vector lanes: chunks, the last partial one, and reductions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import (
    add,
    compare,
    constant_value,
    divide,
    extent_value,
    integer,
    least,
    smaller,
    spread,
    sub,
)
from dojoir.codegen.lir.program import INDEX, Type, Value, Var
from dojoir.codegen.lir.walk import parts_of, statements
from dojoir.codegen.lower.access.conversions import as_stored
from dojoir.codegen.lower.access.elements import ElementAccess
from dojoir.codegen.lower.access.expr import combination
from dojoir.codegen.lower.access.fetch import FetchSpan, fetch_ahead
from dojoir.codegen.lower.access.masking import may_mask
from dojoir.codegen.lower.access.state import Block, BufferWindow, Lanes, LoweringState, LoweringUnit, Memory, Place
from dojoir.codegen.lower.access.stream import asked_of, before_alignment, streamed_stores
from dojoir.codegen.lower.access.touched import runs_at_all
from dojoir.codegen.lower.nests.scopes import Scopes
from dojoir.codegen.lower.plans.plan import LanePlan, fixed_lanes
from dojoir.codegen.lower.sums.reductions import finish, keep
from dojoir.codegen.lower.vectors.contiguous import ContiguousNest
from dojoir.codegen.lower.vectors.padded import may_run_whole
from dojoir.ir.affine import Affine, Mod, SizeVar
from dojoir.ir.dtypes import DTYPES, I64
from dojoir.ir.nodes import Access, Condition, Path, Scope
from dojoir.ir.paths import is_inside
from dojoir.sets.kernel_sets import sets_of

U8 = DTYPES["u8"]

BLOCK = 256
"""How many iterations of a compiler's lanes are fetched for, or streamed, at once."""


class LaneScopes(Scopes):
    """Lowers scopes, those in lanes among them."""

    def in_lanes(
        self, path: Path, scope: Scope, state: LoweringState, block: Block, lengths: Sequence[Value]
    ) -> None:
        stop = extent_value(scope.extent, state.iterators)
        runs = not lengths and runs_at_all(self.unit.kernel, path, scope.extent, state)
        if lengths:  # iterations behind one are not those of an edge, where nobody may mind them
            stop, state = reduce(smaller, lengths, stop), replace(state, cut=state.cut - {path})

        def run(state: LoweringState, block: Block) -> None:
            _Runner(self, path, scope, state, self.unit.lines[path], bool(lengths)).below(stop, runs, block)

        _by_size(self.unit, path, state, stop, block, run)

    def as_one(self, nest: ContiguousNest, state: LoweringState, block: Block) -> None:
        path = nest.paths[-1]
        scope = self.unit.kernel.at(path)
        assert isinstance(scope, Scope)
        outer = (integer(0),) * (len(nest.paths) - 1)
        comment = "; ".join(self.unit.lines[path] for path in nest.paths)
        stop, runs = nest.stop(state.iterators), all((least(extent) or 0) >= 1 for extent in nest.extents)

        def run(state: LoweringState, block: Block) -> None:
            around = replace(state, iterators=(*state.iterators, *outer))
            _Runner(self, path, scope, around, comment).below(stop, runs, block)

        _by_size(self.unit, path, state, stop, block, run)


def _by_size(
    unit: LoweringUnit,
    path: Path,
    state: LoweringState,
    stop: Value,
    block: Block,
    run: Callable[[LoweringState, Block], None],
) -> None:
    """The scope at `path`, of `stop` iterations, as `run` emits it; twice, if it depends on sizes whether what it
    writes is streamed."""
    asked = asked_of(unit, path, state, stop)
    state = replace(state, cached=state.cached | asked.small)
    if asked.large is None:
        run(state, block)
        return
    streamed, cached = Block(), Block()
    run(state, streamed)
    run(replace(state, cached=state.cached | asked.open), cached)
    block.emit(lir.If(asked.large, streamed.body, cached.body))


class _Runner:
    """Ways to run one scope in lanes; `ends_early` where it may end before its extent."""

    def __init__(
        self, scopes: Scopes, path: Path, scope: Scope, state: LoweringState, comment: str, ends_early: bool = False
    ) -> None:
        self.scopes, self.path, self.scope, self.state, self.comment = scopes, path, scope, state, comment
        self.ends_early = ends_early
        self.unit = scopes.unit
        self.plan: LanePlan = self.unit.plans[path]
        self.extent = fixed_lanes(scope) or 0

    def below(self, stop: Value, runs: bool, block: Block) -> None:
        """The iterations below `stop`; `runs` says that there is one at all sizes. At an edge, lanes beyond it run
        too where nobody minds."""
        if self._may_run_whole():
            lanes = integer(self.extent)
            self.state = replace(self.state, cut=self.state.cut - {self.path})
            bounds = self.scope.extent.bounds
            some = [Condition(bound, ">=", Affine.constant(1)) for bound in bounds]
            if runs or sets_of(self.unit.kernel).holds_around(self.path, some):
                self.run(lanes, block)
            else:
                inner = Block()
                self.run(lanes, inner)
                block.emit(lir.If(compare("gt", stop, integer(0)), inner.body))
            return
        if runs:
            self.run(stop, block)
            return
        inner = Block()
        count = Var(INDEX, self.unit.names.fresh("count"))
        self.run(count, inner)
        block.emit(lir.Let(count, stop))
        block.emit(lir.If(compare("gt", count, integer(0)), inner.body))

    def _may_run_whole(self) -> bool:
        """Whether a cut tile may run all lanes, on a target that would run what is left one by one."""
        one_by_one = self.unit.target.tail == "scalar" and self.state.device is None
        return one_by_one and self.path in self.state.cut and may_run_whole(self.unit, self.path)

    def run(self, stop: Value, block: Block) -> None:
        """The iterations below `stop`, of which there is at least one."""
        if self.unit.target.vector_bits == 0:
            self.simd_loop(stop, block)
        elif self.plan.lanes == 1:
            self.one_by_one(integer(0), stop, block)
        elif self.extent:
            self.one_vector(stop, block)
        else:
            self.chunks(stop, block)

    # -- the ways --------------------------------------------------------------------------------------------
    def simd_loop(self, stop: Value, block: Block) -> None:
        """A plain loop that the compiler may run in lanes; in blocks, if something is to be done for many of its
        iterations at once."""
        windows = self._windows()

        def run(state: LoweringState, block: Block) -> None:
            if windows or self.scope.hints:
                self._blocks(windows, stop, state, block)
            else:
                self._simd(integer(0), stop, state, block)

        self._reducing(1, run, block)

    def _simd(self, start: Value, stop: Value, state: LoweringState, block: Block) -> None:
        var = self.unit.loop_var(self.scope, state.iterators)
        body = self._body(state, var, None)
        reductions = tuple(
            (combination(self.unit, accumulator.op, accumulator.dtype), var)
            for accumulator in self.plan.accumulators
            for var in state.accumulators[accumulator.paths[0]].variables.values()
        )
        block.emit(lir.For(var, start, stop, 1, body, "simd", reductions, self.comment))

    def _windows(self) -> list[Access]:
        """The streamed elements of which the scope does nothing but write each once."""
        length = len(self.path)
        uses = (use for uses in self.unit.uses.values() for use in uses)
        touched = Counter(use.access.buffer for use in uses if use.site.path[:length] == self.path)
        stores = streamed_stores(self.unit, self.path, self.scope, self.state)
        return [store for store in stores if touched[store.buffer] == 1]

    def _blocks(self, windows: list[Access], stop: Value, state: LoweringState, block: Block) -> None:
        """The iterations in blocks: for each, what the hints ask for, then the iterations, which write what is
        streamed to arrays of their own, then those."""
        unit = self.unit
        start: Value = integer(0)
        if windows:
            head = before_alignment(unit, windows[0], state, 0, stop)
            assert head is not None
            start = Var(INDEX, unit.names.fresh("head"))
            block.emit(lir.Let(start, head))
            self._simd(integer(0), start, state, block)
        first = Var(INDEX, unit.names.loop("first", state.iterators))
        inner = Block()
        last = Var(INDEX, unit.names.fresh("last"))
        inner.emit(lir.Let(last, smaller(add(first, integer(BLOCK)), stop)))
        ahead = replace(state, iterators=(*state.iterators, first))
        fetch_ahead(unit, self.path, self.scope, ahead, inner, FetchSpan(first, last))
        places: dict[str, Place] = {}
        for store in windows:
            array = lir.ProgramArray(
                unit.names.fresh(f"{store.buffer}_block"),
                as_stored(unit.buffers[store.buffer].dtype, unit.target),
                integer(BLOCK),
                "stack",
                lir.LINE,
            )
            unit.arrays[array.name] = array
            inner.emit(lir.Allocate(array))
            places[store.buffer] = BufferWindow(array.name, len(state.iterators), first)
        self._simd(first, last, replace(state, places={**state.places, **places}), inner)
        for store in windows:
            place, window = state.places[store.buffer], places[store.buffer]
            assert isinstance(place, Memory) and isinstance(window, BufferWindow)
            offset = ElementAccess(unit, ahead, inner, self.path).address(store, place).offset
            inner.emit(lir.Stream(place.array, offset, window.array, sub(last, first)))
        block.emit(lir.For(first, start, stop, BLOCK, inner.body))

    def strips(self, stop: Value, block: Block) -> None:
        """Strip mining for targets whose vectors have no fixed length: each strip asks the target at its
        beginning how many iterations it takes."""
        count = self.plan.at_once(self.unit.target)

        def run(state: LoweringState, block: Block) -> None:
            var = self.unit.loop_var(self.scope, state.iterators)
            body = self._body(state, var, self._lanes(count, None))
            kind = "strips" if self._counts_lanes(body) else "open strips"
            block.emit(lir.For(var, integer(0), stop, count, body, kind, comment=self.comment))

        self._reducing(count, run, block)

    def _counts_lanes(self, body: tuple[lir.Stmt, ...]) -> bool:
        """Whether the body depends on the number of lanes: it compares lane numbers in narrow integers, or each
        lane has its own part of an array."""
        numbered = any(
            isinstance(part, lir.Iota) and part.type.dtype != I64 for part in parts_of(*statements(body))
        )
        return numbered or any(
            not home.is_variable and self.scopes.lane_copies(home) > 1
            for home in self.unit.homes.values()
            if any(is_inside(use.site.path, self.path) for use in home.uses)
        )

    def one_vector(self, stop: Value, block: Block) -> None:
        """All iterations at once, fewer where `stop` is less than the lanes: in one vector, or in a few beside each
        other if the number of lanes is not one that registers have."""
        count, size = self.extent, self.plan.lanes
        if self.unit.target.tail == "vl" and constant_value(stop) != count:
            self.strips(stop, block)
            return

        def whole(state: LoweringState, block: Block) -> None:
            for start in range(0, count, size):
                block.statements.extend(self._body(state, integer(start), self._lanes(size, None)))

        def first(state: LoweringState, block: Block) -> None:
            for start in range(0, count, size):
                inner = Block()
                active = stop if size == count else smaller(sub(stop, integer(start)), integer(size))
                mask = self._mask(active, size, inner)
                inner.statements.extend(self._body(state, integer(start), self._lanes(size, mask)))
                if start:
                    block.emit(lir.If(compare("gt", stop, integer(start)), inner.body))
                else:
                    block.statements.extend(inner.statements)

        full, part = Block(), Block()
        if self.path not in self.state.cut:
            self._reducing(size, whole, full)
        if constant_value(stop) != count:
            if self.unit.target.tail == "mask":
                self._reducing(size, first, part)
            elif may_mask(self.unit, self.path, self.state):
                self._reducing(size, first, part, self._alone())
            else:
                self.one_by_one(integer(0), stop, part)
        block.emit(lir.Comment(self.comment))
        if full.statements and part.statements:
            block.emit(lir.If(compare("ge", stop, integer(count)), full.body, part.body))
        else:
            block.statements.extend(full.statements or part.statements)

    def chunks(self, stop: Value, block: Block) -> None:
        """As many lanes at a time, then the rest: as `_rest` runs it, or at once under a mask, where sums go on
        around the scope, or vectors are aligned to be streamed."""
        if self.unit.target.tail == "vl":
            self.strips(stop, block)
            return
        count = self.plan.lanes
        divisible = self._divides(count)
        start, aligned = self._aligned_start(count, stop, block)
        divisible = divisible and aligned is None
        masked = self.unit.target.tail == "mask" and not divisible
        masked = masked and (aligned is not None or self._goes_on() or self.plan.register == count)
        rest: Value = stop
        if not divisible:
            rest = Var(INDEX, self.unit.names.fresh("rest"))
            block.emit(lir.Let(rest, sub(stop, divide("rem", sub(stop, start), count))))
        if not masked and aligned is not None:
            self._rest(integer(0), start, True, block)

        def run(state: LoweringState, block: Block) -> None:
            if masked and aligned is not None:
                head = Block()
                mask = self._mask(start, count, head)
                head.statements.extend(self._body(state, integer(0), self._lanes(count, mask)))
                block.emit(lir.If(compare("gt", start, integer(0)), head.body))
            var = self.unit.loop_var(self.scope, state.iterators)
            body = self._body(replace(state, aligned=aligned), var, self._lanes(count, None))
            block.emit(lir.For(var, start, rest, count, body, comment=self.comment))
            if masked:
                self._masked(rest, stop, count, state, block)

        if masked or divisible:
            self._reducing(count, run, block)
            return
        self._reducing_if(compare("lt", start, rest), count, run, block, self.state)
        self._rest(rest, stop, aligned is None, block)

    def _rest(self, start: Value, stop: Value, plain: bool, block: Block) -> None:
        """The iterations from `start` on, fewer than the lanes. One register at a time, then those that fill none,
        in one whose other lanes are off where the target can do that, or one by one. Of a short row nothing is
        computed for lanes that are off, but in its last register. `start` is `plain` if it is a multiple of the
        lanes."""
        lanes = self.plan.register
        masks = self.unit.target.tail == "mask" or may_mask(self.unit, self.path, self.state)
        around, last = block, start
        if masks:  # one question where nothing is left
            block = Block()
        if lanes < self.plan.lanes:
            last = Var(INDEX, self.unit.names.fresh("last"))
            block.emit(lir.Let(last, sub(stop, divide("rem", stop if plain else sub(stop, start), lanes))))

        def run(state: LoweringState, block: Block) -> None:
            if last is not start:
                var = self.unit.loop_var(self.scope, state.iterators)
                body = self._body(state, var, self._lanes(lanes, None))
                block.emit(lir.For(var, start, last, lanes, body, comment=self.comment))
            if masks:
                self._masked(last, stop, lanes, state, block)

        if masks:
            self._reducing(lanes, run, block, self._alone())
            around.emit(lir.If(compare("lt", start, stop), block.body))
            return
        if last is not start:
            self._reducing_if(compare("lt", start, last), lanes, run, block, self._alone())
        self.one_by_one(last, stop, block)

    def _masked(self, start: Value, stop: Value, count: int, state: LoweringState, block: Block) -> None:
        """The iterations from `start` on, fewer than `count`, at once, if there are any."""
        inner = Block()
        mask = self._mask(sub(stop, start), count, inner)
        inner.statements.extend(self._body(state, start, self._lanes(count, mask)))
        block.emit(lir.If(compare("lt", start, stop), inner.body))

    def _aligned_start(self, count: int, stop: Value, block: Block) -> tuple[Value, Access | None]:
        """From which iteration on vectors of `count` lanes are aligned to be streamed, and what is stored so."""
        for store in streamed_stores(self.unit, self.path, self.scope, self.state)[:1]:
            head = before_alignment(self.unit, store, self.state, count, stop)
            if head is not None:
                start = Var(INDEX, self.unit.names.fresh("head"))
                block.emit(lir.Let(start, head))
                return start, store
        return integer(0), None

    def one_by_one(self, start: Value, stop: Value, block: Block) -> None:
        """Without lanes."""
        state = self._alone()
        var = self.unit.loop_var(self.scope, state.iterators)
        block.emit(lir.For(var, start, stop, 1, self._body(state, var, None), comment=self.comment))

    # -- their parts -----------------------------------------------------------------------------------------
    def _goes_on(self) -> bool:
        """Whether the scope adds to variables of a scope around it. These have the number of lanes that the plan
        says."""
        return any(a.paths[0] in self.state.accumulators for a in self.plan.accumulators)

    def _alone(self) -> LoweringState:
        """The state for another number of lanes: without the variables of scopes around, whose number of lanes
        the plan fixes."""
        own = {path for accumulator in self.plan.accumulators for path in accumulator.paths}
        kept = {path: kept for path, kept in self.state.accumulators.items() if path not in own}
        return replace(self.state, accumulators=kept)

    def _lanes(self, count: int, mask: Value | None) -> Lanes:
        return Lanes(len(self.state.iterators), count, mask)

    def _body(self, state: LoweringState, iterator: Value, lanes: Lanes | None) -> tuple[lir.Stmt, ...]:
        inner = replace(state, iterators=(*state.iterators, iterator), lanes=lanes)
        return self.scopes.body(self.path, self.scope.body, inner)

    def _mask(self, active: Value, count: int, block: Block) -> Value:
        """The first `active` of `count` lanes, of which there are fewer than 128. Bytes compare fastest."""
        lane = lir.Iota(Type(U8, count))
        limit = spread(lir.Convert(Type(U8), active), count)
        var = Var(Type(DTYPES["bool"], count), self.unit.names.fresh("active"))
        block.emit(lir.Let(var, lir.Compare("lt", lane, limit)))
        return var

    def _divides(self, count: int) -> bool:
        """Whether the scope runs a multiple of `count` times, by its form or by a fact of the kernel."""
        bounds = self.scope.extent.bounds
        return not self.ends_early and len(bounds) == 1 and is_multiple(bounds[0], count, self.unit.kernel.facts)

    def _reducing(
        self,
        lanes: int,
        run: Callable[[LoweringState, Block], None],
        block: Block,
        around: LoweringState | None = None,
    ) -> None:
        """`run` with variables for the reductions that have none yet, which go into their elements when it is
        done. `around` is the state around the scope, if not its own."""
        around = around or self.state
        accumulators = [a for a in self.plan.accumulators if a.paths[0] not in around.accumulators]
        inner, sums = keep(self.unit, accumulators, lanes, around, block)
        run(replace(inner, spelled=self.plan.spelled), block)
        finish(self.unit, sums, self.path, around, block, runs=True)

    def _reducing_if(
        self,
        some: Value,
        lanes: int,
        run: Callable[[LoweringState, Block], None],
        block: Block,
        around: LoweringState,
    ) -> None:
        """The same where there are `some` iterations to run: without, there would be nothing to add up, and no
        need to do so. `run` alone asks by itself."""
        inner = Block()
        self._reducing(lanes, run, inner, around)
        if self.plan.accumulators:
            block.emit(lir.If(some, inner.body))
        else:
            block.statements.extend(inner.statements)


def is_multiple(affine: Affine, count: int, facts: tuple[Condition, ...]) -> bool:
    """Whether `affine` is a multiple of `count` by its form, or by facts such as `M % 16 == 0`."""
    if affine.offset % count:
        return False
    return all(c % count == 0 or (isinstance(a, SizeVar) and _is_fact(a, count, facts)) for a, c in affine.terms)


def _is_fact(size: SizeVar, count: int, facts: tuple[Condition, ...]) -> bool:
    for fact in facts:
        if fact.relation == "==" and fact.right == Affine.constant(0) and len(fact.left.terms) == 1:
            (atom, coefficient) = fact.left.terms[0]
            if (
                isinstance(atom, Mod)
                and coefficient == 1
                and fact.left.offset == 0
                and atom.numerator == Affine.atom(size)
                and atom.divisor % count == 0
            ):
                return True
    return False
