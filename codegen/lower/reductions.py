"""Reductions that are kept in variables: these are declared before a scope, and go into their elements after it,
where the scope accumulated anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import integer, spread
from dojoir.codegen.lir.program import FLAG, Const, Type, Value, Var
from dojoir.codegen.lower.access import Accesses
from dojoir.codegen.lower.conversions import convert, number
from dojoir.codegen.lower.expr import combination, operate
from dojoir.codegen.lower.plan import Accumulator
from dojoir.codegen.lower.state import Block, Kept, State, Unit, Variable
from dojoir.codegen.lower.touched import where_touched
from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Path

NAMES = {
    "add": "sum",
    "mul": "product",
    "max": "max",
    "min": "min",
    "bitxor": "parity",
    "bitand": "all",
    "bitor": "any",
}
"""What the variable of a reduction is called, behind its buffer."""

Sums = list[tuple[Accumulator, Kept]]


def keep(
    unit: Unit, accumulators: Iterable[Accumulator], lanes: int, state: State, block: Block
) -> tuple[State, Sums]:
    """Declares variables of `lanes` lanes for reductions. Returns the state in which statements use them, and those
    that have to be finished: one that is such a variable already is its own."""
    made: Sums = []
    into: dict[Path, Kept] = {}
    for accumulator in accumulators:
        place = state.places[accumulator.target.buffer]
        if isinstance(place, Variable) and place.var.type == Type(accumulator.dtype, lanes):
            into |= dict.fromkeys(accumulator.paths, Kept((), {(): place.var}))
            continue
        variables = {at: _declared(unit, accumulator, lanes, block) for at in accumulator.iterations}
        kept = Kept(tuple(scope.depth for scope in accumulator.along), variables)
        made.append((accumulator, kept))
        into |= dict.fromkeys(accumulator.paths, kept)
    return replace(state, accumulators={**state.accumulators, **into}), made


def finish(unit: Unit, sums: Sums, scope: Path, state: State, block: Block, runs: bool = False) -> None:
    """Combines what the variables have with their elements, where the scope at `scope` accumulated anything: it is
    known to have run, if `runs`. `state` is that around it."""
    groups: list[tuple[Value | None, Block]] = []  # one question for neighbours that ask the same
    for accumulator, kept in sums:
        is_variable = isinstance(state.places[accumulator.target.buffer], Variable)
        for at, var in kept.variables.items():
            values = dict(zip(kept.depths, at, strict=True))
            asking, some = Block(), None
            if not is_variable:
                some = where_touched(unit, accumulator.paths, scope, state, asking, runs, values)
            if asking.statements or not groups or groups[-1][0] != some:
                block.statements.extend(asking.statements)
                groups.append((some, Block()))
            _finish(unit, accumulator, values, var, state, groups[-1][1])
    for some, into in groups:
        if some is None:
            block.statements.extend(into.statements)
        elif some != Const(FLAG, False):
            block.emit(lir.If(some, into.body))


def _declared(unit: Unit, accumulator: Accumulator, lanes: int, block: Block) -> Var:
    """A variable for a reduction, which nothing has been added to."""
    name = unit.names.fresh(f"{accumulator.target.buffer}_{NAMES[accumulator.op]}")
    var = Var(Type(accumulator.dtype, lanes), name)
    block.emit(lir.Declare(var, spread(identity(accumulator.op, accumulator.dtype), lanes)))
    return var


def _finish(
    unit: Unit, accumulator: Accumulator, at: Mapping[int, int], var: Var, state: State, block: Block
) -> None:
    """Adds what a variable has to its element; `at` gives the iterators of unrolled scopes by depth."""
    op = combination(unit, accumulator.op, accumulator.dtype)
    total: Value = var if var.type.lanes == 1 else lir.Reduce(op, var)
    statement = unit.typed[accumulator.paths[0]]
    inner = (integer(at.get(depth, 0)) for depth in range(len(state.iterators), max(at, default=0) + 1))
    inside = replace(state, iterators=(*state.iterators, *inner)) if at else state
    accesses = Accesses(unit, inside, block, accumulator.paths[0])
    own = convert(unit, statement.dtype, accumulator.dtype, accesses.load(accumulator.target))
    combined = operate(unit, accumulator.op, accumulator.dtype, own, total)
    accesses.store(accumulator.target, convert(unit, accumulator.dtype, statement.dtype, combined))


def identity(op: str, dtype: DType) -> Value:
    """What combining leaves a value as it is with; `op` is of the language, or of the program."""
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
