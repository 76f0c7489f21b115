"""The facts about a program for a printer of readable source: which variables live, which only count positions,
and which are never negative."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import INDEX, Assign, Binary, Const, Declare, For, If, Let, Phase, Stmt, Value, Var
from dojoir.codegen.lir.walk import blocks, buffers, positions, statements
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Usage:
    """`live` are the variables and buffers that something with an effect reads. `positions` are the i64 variables
    that nothing but an offset, a bound or a guard depends on: arithmetic on them stays inside the arrays, so it
    cannot overflow. `nonnegative` are the i64 variables that are never below 0."""

    live: frozenset[str]
    positions: frozenset[str]
    nonnegative: frozenset[str]


@dataclass(frozen=True)
class _Read:
    """One reading of variable or buffer `name`, `at_position` where its value counts elements."""

    name: str
    at_position: bool


def usage_of(program: lir.Program) -> Usage:
    """The usage of the variables of a program's body."""
    body = tuple(statements(program.body))
    positions = _positions(body)
    sizes = frozenset(var.name for var in program.sizes)
    return Usage(_live(body), positions, _nonnegative(body, positions, sizes))


def usage_of_function(function: lir.Function) -> Usage:
    """The usage of the variables of a function: its body and its result are plain values."""
    needed = {read.name for read in _reads(function.result, False)}
    for let in reversed(function.body):
        if let.var.name in needed:
            needed.update(read.name for read in _reads(let.value, False))
    return Usage(frozenset(needed), frozenset(), frozenset())


def is_nonnegative(value: Value, known: frozenset[str], exact: bool) -> bool:
    """Whether an i64 value is at least 0 whenever the variables in `known` are. `exact` says that its sums and
    products do not wrap around."""
    match value:
        case lir.ThreadNumber() | lir.BlockNumber():
            return True
        case Const(_, number):
            return number >= 0
        case Var(_, name):
            return name in known
        case Binary(_, "mod" | "div" | "rem"):
            return True
        case Binary(_, "floordiv", left):
            return is_nonnegative(left, known, exact)
        case Binary(_, "add" | "mul", left, right, of_data=of_data):
            exact = exact and not of_data
            return exact and is_nonnegative(left, known, True) and is_nonnegative(right, known, True)
        case Binary(_, "min" | "min_fast", left, right) | lir.Select(_, left, right):
            return is_nonnegative(left, known, exact) and is_nonnegative(right, known, exact)
        case Binary(_, "max" | "max_fast", left, right):
            return is_nonnegative(left, known, exact) or is_nonnegative(right, known, exact)
    return False


def operand_positions(value: Value, at_position: bool) -> Iterator[tuple[Value, bool]]:
    """The operands of `value`, each with whether it counts elements, given whether `value` does."""
    for operand, counts in positions(value):
        match value:
            case lir.Compare():
                yield operand, at_position and operand.type == INDEX
            case Binary() | lir.Select():
                yield operand, at_position
            case _:
                yield operand, counts


def statement_positions(stmt: Stmt, known: frozenset[str]) -> Iterator[tuple[Value, bool]]:
    """The values that a statement computes, each with whether it counts elements or guards, as the variables in
    `known` do."""
    defined = _defined(stmt)
    for value, counts in positions(stmt):
        yield value, counts if defined is None else defined.name in known


def _reads(value: Value, at_position: bool) -> Iterator[_Read]:
    match value:
        case Var(_, name):
            yield _Read(name, at_position)
        case lir.Load(buffer=buffer) | lir.Quads(buffer=buffer) | lir.AddressOf(buffer):
            yield _Read(buffer, False)
        case lir.Call(function=function):
            yield _Read(function, False)
    for operand, inner in operand_positions(value, at_position):
        yield from _reads(operand, inner)


def _defined(stmt: Stmt) -> Var | None:
    """The variable that a statement only defines, without another effect."""
    return stmt.var if isinstance(stmt, Let | Declare | Assign) else None


def _live(body: tuple[Stmt, ...]) -> frozenset[str]:
    live: set[str] = set()
    sources: dict[str, set[str]] = {}
    for stmt in body:
        reads = {read.name for value, _ in statement_positions(stmt, frozenset()) for read in _reads(value, False)}
        decided = _decides_on(stmt)
        if decided is None:
            live |= reads
        else:
            for name in decided:
                sources.setdefault(name, set()).update(reads)
        match stmt:
            case For(reductions=reductions):
                live.update(var.name for _, var in reductions)
            case lir.Stream() | lir.Instruct():
                live.update(buffers(stmt))
    waiting = list(live)
    while waiting:
        new = sources.get(waiting.pop(), set()) - live
        live |= new
        waiting.extend(new)
    return frozenset(live)


def _decides_on(stmt: Stmt) -> list[str] | None:
    """The variables that get values of what a statement reads, or where that decides; None where it has another
    effect. A loop or a condition around nothing but dead variables decides on nothing."""
    if (defined := _defined(stmt)) is not None:
        return [defined.name]
    if not isinstance(stmt, For | If | Phase):
        return None
    inside = [inner for block in blocks(stmt) for inner in statements(block)]
    names = [var.name for inner in inside if (var := _defined(inner)) is not None]
    others = sum(isinstance(inner, For | If | Phase | lir.Allocate) for inner in inside)
    return names if len(names) + others == len(inside) else None


def _positions(body: tuple[Stmt, ...]) -> frozenset[str]:
    positions = frozenset(stmt.var.name for stmt in body if isinstance(stmt, Let) and stmt.var.type == INDEX)
    while True:
        plain = {
            read.name
            for stmt in body
            for value, at_position in statement_positions(stmt, positions)
            for read in _reads(value, at_position)
            if not read.at_position
        }
        if not positions & plain:
            return positions
        positions -= plain


def _nonnegative(body: tuple[Stmt, ...], positions: frozenset[str], sizes: frozenset[str]) -> frozenset[str]:
    # Blocks side by side may use one name: it is nonnegative where every definition is.
    definitions: dict[str, list[tuple[Value, bool]]] = {}
    for stmt in body:
        match stmt:
            case For(var, start):
                definitions.setdefault(var.name, []).append((start, True))
            case Let(var, value) if var.type == INDEX:
                definitions.setdefault(var.name, []).append((value, var.name in positions))
            case Declare(var) | Assign(var):
                definitions.setdefault(var.name, []).append((Const(INDEX, -1), True))
    known = sizes | definitions.keys() | {stmt.var.name for stmt in body if isinstance(stmt, lir.Parallel)}
    while True:
        doubtful = {
            name
            for name, starts in definitions.items()
            if name in known and not all(is_nonnegative(value, known, exact) for value, exact in starts)
        }
        if not doubtful:
            return known
        known -= doubtful
