"""Scopes in vector lanes: chunks, the last partial one, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dojoir.affine import Affine, Mod, SizeVar
from dojoir.codegen import lir
from dojoir.codegen.arith import compare, divide, integer, known, spread, sub
from dojoir.codegen.conversions import convert
from dojoir.codegen.lanes import Accumulator, Plan, fixed_lanes
from dojoir.codegen.lir import INDEX, Type, Value, Var
from dojoir.codegen.lower_access import Accesses
from dojoir.codegen.lower_expr import combination, operate
from dojoir.codegen.lower_scopes import Scopes, at_least, identity
from dojoir.codegen.state import Block, Lanes, State, Variable
from dojoir.dtypes import DTYPES
from dojoir.ir import Condition, Path, Scope

U8 = DTYPES["u8"]


def vector_scope(scopes: Scopes, path: Path, scope: Scope, state: State, block: Block) -> None:
    """A scope that runs in lanes."""
    runner = _Runner(scopes, path, scope, state, scopes.unit.plans[path])
    stop = scopes.extent(scope.extent, state.iterators)
    if at_least(scope.extent, 1):
        runner.run(stop, block)
        return
    inner = Block()
    count = Var(INDEX, scopes.unit.names.fresh("count"))
    runner.run(count, inner)
    block.emit(lir.Let(count, stop))
    block.emit(lir.If(compare("gt", count, integer(0)), inner.body))


class _Runner:
    """Ways to run one scope in lanes."""

    def __init__(self, scopes: Scopes, path: Path, scope: Scope, state: State, plan: Plan) -> None:
        self.scopes, self.path, self.scope, self.state, self.plan = scopes, path, scope, state, plan
        self.unit = scopes.unit
        self.comment = self.unit.lines[path]

    def run(self, stop: Value, block: Block) -> None:
        """The iterations below `stop`, of which there is at least one."""
        if self.unit.target.vector_bits == 0:
            self.simd_loop(stop, block)
        elif self.plan.lanes == 1:
            self.one_by_one(integer(0), stop, block)
        elif fixed_lanes(self.scope) is not None:
            self.one_vector(stop, block)
        else:
            self.chunks(stop, block)

    # -- the ways --------------------------------------------------------------------------------------------
    def simd_loop(self, stop: Value, block: Block) -> None:
        """A plain loop that the compiler may run in lanes."""

        def run(state: State, block: Block) -> None:
            var = self.scopes.loop_var(self.scope, state)
            body = self._body(state, var, None)
            reductions = tuple(
                (combination(self.unit, a.op, a.dtype), state.accumulators[a.paths[0]])
                for a in self.plan.accumulators
            )
            block.emit(lir.For(var, integer(0), stop, 1, body, "simd", reductions, self.comment))

        self._reducing(1, run, block)

    def one_vector(self, stop: Value, block: Block) -> None:
        """All iterations at once, fewer where `stop` is less than the lanes."""
        count = self.plan.lanes

        def whole(state: State, block: Block) -> None:
            block.statements.extend(self._body(state, integer(0), self._lanes(count, None)))

        def first(state: State, block: Block) -> None:
            mask = self._mask(stop, count, block)
            block.statements.extend(self._body(state, integer(0), self._lanes(count, mask)))

        full, part = Block(), Block()
        if self.path not in self.state.cut:
            self._reducing(count, whole, full)
        if known(stop) != count:
            if self.unit.target.tail == "mask":
                self._reducing(count, first, part)
            else:
                self.one_by_one(integer(0), stop, part)
        block.emit(lir.Comment(self.comment))
        if full.statements and part.statements:
            block.emit(lir.If(compare("ge", stop, integer(count)), full.body, part.body))
        else:
            block.statements.extend(full.statements or part.statements)

    def chunks(self, stop: Value, block: Block) -> None:
        """As many lanes at a time, then the rest: masked, or one by one."""
        count = self.plan.lanes
        divisible = self._divides(count)
        masked = self.unit.target.tail == "mask" and not divisible
        rest: Value = stop
        if not divisible:
            rest = Var(INDEX, self.unit.names.fresh("rest"))
            block.emit(lir.Let(rest, sub(stop, divide("rem", stop, count))))

        def run(state: State, block: Block) -> None:
            var = self.scopes.loop_var(self.scope, state)
            body = self._body(state, var, self._lanes(count, None))
            block.emit(lir.For(var, integer(0), rest, count, body, comment=self.comment))
            if masked:
                last = Block()
                mask = self._mask(sub(stop, rest), count, last)
                last.statements.extend(self._body(state, rest, self._lanes(count, mask)))
                block.emit(lir.If(compare("lt", rest, stop), last.body))

        self._reducing(count, run, block)
        if not masked and not divisible:
            self.one_by_one(rest, stop, block)

    def one_by_one(self, start: Value, stop: Value, block: Block) -> None:
        """Without lanes."""
        var = self.scopes.loop_var(self.scope, self.state)
        block.emit(lir.For(var, start, stop, 1, self._body(self.state, var, None), comment=self.comment))

    # -- their parts -----------------------------------------------------------------------------------------
    def _lanes(self, count: int, mask: Value | None) -> Lanes:
        return Lanes(len(self.state.iterators), count, mask)

    def _body(self, state: State, iterator: Value, lanes: Lanes | None) -> tuple[lir.Stmt, ...]:
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
        """Whether the extent is a multiple of `count`, by its form or by a fact of the kernel."""
        bounds = self.scope.extent.bounds
        return len(bounds) == 1 and is_multiple(bounds[0], count, self.unit.kernel.facts)

    def _reducing(self, lanes: int, run: Callable[[State, Block], None], block: Block) -> None:
        """`run` with variables for the reductions, which go into their elements when it is done. One that is a
        variable already is its own."""
        variables: list[tuple[Accumulator, Var]] = []
        into: dict[Path, Var] = {}
        for accumulator in self.plan.accumulators:
            place = self.state.places[accumulator.target.buffer]
            if isinstance(place, Variable) and place.var.type == Type(accumulator.dtype, lanes):
                into |= dict.fromkeys(accumulator.paths, place.var)
                continue
            name = self.unit.names.fresh(f"{accumulator.target.buffer}_{_NAMES[accumulator.op]}")
            var = Var(Type(accumulator.dtype, lanes), name)
            block.emit(lir.Declare(var, spread(identity(accumulator.op, accumulator.dtype), lanes)))
            variables.append((accumulator, var))
            into |= dict.fromkeys(accumulator.paths, var)
        run(replace(self.state, accumulators={**self.state.accumulators, **into}), block)
        for accumulator, var in variables:
            self._finish(accumulator, var, block)

    def _finish(self, accumulator: Accumulator, var: Var, block: Block) -> None:
        op = combination(self.unit, accumulator.op, accumulator.dtype)
        total: Value = var if var.type.lanes == 1 else lir.Reduce(op, var)
        statement = self.unit.typed[accumulator.paths[0]]
        accesses = Accesses(self.unit, self.state, block, accumulator.paths[0])
        own = convert(self.unit, statement.dtype, accumulator.dtype, accesses.load(accumulator.target))
        combined = operate(self.unit, accumulator.op, accumulator.dtype, own, total)
        accesses.store(accumulator.target, convert(self.unit, accumulator.dtype, statement.dtype, combined))


_NAMES = {"add": "sum", "mul": "product", "max": "max", "min": "min"}


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
