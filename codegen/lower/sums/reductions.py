"""Reductions that are kept in variables: these are declared before a scope, and go into their elements after it,
where the scope accumulated anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import integer, spread
from dojoir.codegen.lir.program import FLAG, Const, Type, Value, Var
from dojoir.codegen.lower.access.conversions import convert, number
from dojoir.codegen.lower.access.elements import ElementAccess
from dojoir.codegen.lower.access.expr import combination, operate
from dojoir.codegen.lower.access.state import Block, KeptReduction, LoweringState, LoweringUnit, Variable
from dojoir.codegen.lower.access.touched import where_touched
from dojoir.codegen.lower.plans.plan import Accumulator
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import Path
from dojoir.types.typed import Apply, Typed, TypedStatement
from dojoir.types.typed import Convert as Cast

NAMES = {
    "add": "sum",
    "mul": "product",
    "max": "max",
    "min": "min",
    "bitxor": "parity",
    "bitand": "all",
    "bitor": "any",
}
"""The suffix of the name of a reduction's variable, behind its buffer."""

Sums = list[tuple[Accumulator, KeptReduction]]

Into = Callable[[Accumulator, Value, ElementAccess], None]
"""Combines an element with a total, which has the type of the accumulator."""


def keep(
    unit: LoweringUnit, accumulators: Iterable[Accumulator], lanes: int, state: LoweringState, block: Block
) -> tuple[LoweringState, Sums]:
    """Declares variables of `lanes` lanes for reductions. Returns the state in which statements use them, and those
    that have to be finished: one that is such a variable already is its own."""
    made: Sums = []
    into: dict[Path, KeptReduction] = {}
    for accumulator in accumulators:
        place = state.places[accumulator.target.buffer]
        if isinstance(place, Variable) and place.var.type == Type(accumulator.dtype, lanes):
            into |= dict.fromkeys(accumulator.paths, KeptReduction((), {(): place.var}))
            continue
        variables = {at: _declared(unit, accumulator, lanes, block) for at in accumulator.iterations}
        touched = None
        if not isinstance(place, Variable) and any(unit.typed[path].condition for path in accumulator.paths):
            touched = Var(FLAG, unit.names.fresh(f"{accumulator.target.buffer}_touched"))
            block.emit(lir.Declare(touched, Const(FLAG, False)))
        kept = KeptReduction(tuple(scope.depth for scope in accumulator.along), variables, touched)
        made.append((accumulator, kept))
        into |= dict.fromkeys(accumulator.paths, kept)
    return replace(state, accumulators={**state.accumulators, **into}), made


def finish(
    unit: LoweringUnit,
    sums: Sums,
    scope: Path,
    state: LoweringState,
    block: Block,
    runs: bool = False,
    into: Into | None = None,
) -> None:
    """Combines what the variables have with their elements, where the scope at `scope` accumulated anything: it is
    known to have run, if `runs`. `state` is that around it. `into`, if given, is what puts a total into its
    element."""
    groups: list[tuple[Value | None, Block]] = []  # one question for neighbours that ask the same
    for accumulator, kept in sums:
        is_variable = isinstance(state.places[accumulator.target.buffer], Variable)
        for at, var in kept.variables.items():
            values = dict(zip(kept.depths, at, strict=True))
            asking = Block()
            some: Value | None = kept.touched
            if not is_variable and kept.touched is None:
                some = where_touched(unit, accumulator.paths, scope, state, asking, runs, values)
            if asking.statements or not groups or groups[-1][0] != some:
                block.statements.extend(asking.statements)
                groups.append((some, Block()))
            accesses = ElementAccess(unit, _inside(state, values), groups[-1][1], accumulator.paths[0])
            op = combination(unit, accumulator.op, accumulator.dtype)
            total: Value = var if var.type.lanes == 1 else lir.Reduce(op, var)
            if var.type.lanes > 1 and accumulate_magnitudes(unit.typed[path] for path in accumulator.paths):
                total = largest_magnitude(var)
            (into or _update)(accumulator, total, accesses)
    for some, code in groups:
        if some is None:
            block.statements.extend(code.statements)
        elif some != Const(FLAG, False):
            block.emit(lir.If(some, code.body))


def _declared(unit: LoweringUnit, accumulator: Accumulator, lanes: int, block: Block) -> Var:
    """A variable for a reduction, which nothing has been added to."""
    name = unit.names.fresh(f"{accumulator.target.buffer}_{NAMES[accumulator.op]}")
    var = Var(Type(accumulator.dtype, lanes), name)
    block.emit(lir.Declare(var, spread(identity(accumulator.op, accumulator.dtype), lanes)))
    return var


def _inside(state: LoweringState, at: Mapping[int, int]) -> LoweringState:
    """The state with the iterators of unrolled scopes, which `at` gives by depth."""
    inner = (integer(at.get(depth, 0)) for depth in range(len(state.iterators), max(at, default=0) + 1))
    return replace(state, iterators=(*state.iterators, *inner)) if at else state


def _update(accumulator: Accumulator, total: Value, accesses: ElementAccess) -> None:
    """Adds a total to its element."""
    unit = accesses.unit
    dtype = unit.typed[accumulator.paths[0]].dtype
    own = convert(unit, dtype, accumulator.dtype, accesses.load(accumulator.target))
    combined = operate(unit, accumulator.op, accumulator.dtype, own, total)
    accesses.store(accumulator.target, convert(unit, accumulator.dtype, dtype, combined))


def identity(op: str, dtype: DType) -> Value:
    """The identity of an operator: combining with it leaves a value as it is; `op` is of the language, or of the
    program."""
    infinite = float("inf")
    low = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
    high = (1 << dtype.bits) - 1 + low
    match op:
        case "add":
            return number(dtype, -0.0 if dtype.is_float else 0)
        case "mul":
            return number(dtype, 1)
        case "bitxor" | "bitor" | "xor" | "or":
            return number(dtype, 0)
        case "bitand" | "and":
            return number(dtype, 1 if dtype.kind == "b" else -1 if dtype.kind == "i" else high)
        case "max":
            return number(dtype, -infinite if dtype.is_float else low)
        case _:
            return number(dtype, infinite if dtype.is_float else high)


# -- magnitudes --------------------------------------------------------------------------------------------
def accumulate_magnitudes(statements: Iterable[TypedStatement]) -> bool:
    """Whether statements take the maximum of what has no sign, in f32."""
    return all(one.op == "max" and one.value.dtype.name == "f32" and _is_magnitude(one.value) for one in statements)


def _is_magnitude(value: Typed) -> bool:
    """Whether a float has no sign, whatever it is made of."""
    match value:
        case Apply(dtype, "abs", _):
            return dtype.is_float
        case Cast(dtype, arg, "cast"):
            return dtype.is_float and arg.dtype.is_float and _is_magnitude(arg)
        case _:
            return False


def largest_magnitude(value: Value) -> Value:
    """The largest lane of a vector of f32, each of which is -inf or has no sign.

    Floats without a sign are in the order of their bits, as signed integers, with NaN beyond infinity; -inf, where
    a maximum begins, is below them all. So it is that of integers, which every processor has, where that of IEEE
    754-2019 takes some eight instructions each time two halves of a vector are combined."""
    bits = value.type.with_dtype(DTYPES["i32"])
    return lir.Bitcast(Type(value.type.dtype), lir.Reduce("max", lir.Bitcast(bits, value)))
