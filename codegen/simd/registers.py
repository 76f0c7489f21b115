"""Small arrays as variables: a tile that is read and written in whole vectors at constant places becomes a variable
for each of them, and the unrolled loops over it are written out. Then it is in registers, whatever a compiler does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import constant_value, integer, substituted
from dojoir.codegen.lir.program import Allocate, Assign, Declare, Element, Let, Load, Stmt, Store, Type, Value, Var
from dojoir.codegen.lir.walk import buffers, mapped, parts_of, replaced, statements, with_blocks
from dojoir.ir.nodes import Buffer
from dojoir.support.frozen import dataclass

MOST_VARIABLES = 64
"""How many variables an array may become."""

MOST_STATEMENTS = 1024
"""How many statements may come of writing loops out for one array."""


def in_registers(program: lir.Program) -> lir.Program:
    """The program with those of its small arrays as variables that can be."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    new: list[Stmt] = []
    for at, stmt in enumerate(body):
        match stmt:
            case Allocate(array) if array.lives != "heap":
                rest = _replaced(array, body[at + 1 :])
                if rest is not None:
                    return (*new, *_block(rest))
        new.append(with_blocks(stmt, _block))
    return tuple(new)


def _replaced(array: lir.ProgramArray, body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
    """The statements with variables for the array; None where it must stay one."""
    if not isinstance(array.elements, lir.Const):
        return None
    unrolled = tuple(_written_out(body, array.name, {}))
    if len(tuple(statements(unrolled))) > MOST_STATEMENTS:
        return None
    kinds: set[Type] = set()
    for stmt in statements(unrolled):
        if isinstance(stmt, lir.Stream | lir.Prefetch) and array.name in buffers(stmt):
            return None
        if isinstance(stmt, lir.Parallel) and any(array.name in buffers(inner) for inner in statements((stmt,))):
            return None  # other threads reach memory alone
        for kind, offset, plain in _accesses(stmt, array.name):
            place = constant_value(offset)
            if not plain or place is None or place % kind.lanes:
                return None
            kinds.add(kind)
    if len(kinds) != 1:
        return None
    kind = next(iter(kinds))
    count = -(-int(array.elements.value) // kind.lanes)
    if count > MOST_VARIABLES:
        return None
    apart = "_" if array.name[-1].isdigit() else ""
    variables = [Var(kind, f"{array.name}{apart}{n}") for n in range(count)]
    return _with_declarations(_RegisterNames(array.name, variables).block(unrolled), variables)


def _accesses(stmt: Stmt, array: str) -> Iterator[tuple[Type, Value, bool]]:
    """How a statement itself uses an array: type, offset, and whether in a row and without a mask."""
    if isinstance(stmt, Store) and stmt.buffer == array:
        yield stmt.value.type, stmt.offset, _is_plain(stmt)
    if isinstance(stmt, lir.Instruct):
        for name, operand in stmt.operands:
            if isinstance(operand, Element) and operand.buffer == array:
                yield _whole(stmt.instruction.operands[name]), operand.offset, True
    for part in parts_of(stmt):
        if isinstance(part, Load | lir.Quads) and part.buffer == array:
            yield part.type, part.offset, isinstance(part, Load) and _is_plain(part)


def _whole(operand: Buffer) -> Type:
    """All elements of an operand of an instruction as one vector."""
    lanes = 1
    for dim in operand.dims:
        lanes *= dim.extent.offset
    return Type(operand.dtype, lanes)


def _is_plain(access: Load | Store) -> bool:
    return access.mask is None and access.offset.type.lanes == 1 and access.stride in (None, integer(1))


# -- loops -------------------------------------------------------------------------------------------------
def _written_out(body: tuple[Stmt, ...], array: str, known_vars: Mapping[str, Value]) -> Iterator[Stmt]:
    """The statements with the unrolled loops that use the array written out."""

    def inside(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(_written_out(block, array, known_vars))

    for stmt in body:
        match stmt:
            case lir.For(var, start, stop, step, inner, "unroll") if _uses(inner, array) and not _allocates(inner):
                first, last = constant_value(start), constant_value(stop)
                if first is None or last is None:
                    yield stmt
                    continue
                if stmt.comment:
                    yield lir.Comment(stmt.comment)
                for n in range(first, last, step):
                    given = {**known_vars, var.name: integer(n), **_renamed(inner, n, known_vars)}
                    yield from (
                        new for new in _written_out(inner, array, given) if not isinstance(new, lir.Comment)
                    )
            case _:
                yield with_blocks(_with(stmt, known_vars), inside)


def _uses(body: tuple[Stmt, ...], array: str) -> bool:
    return any(array in buffers(stmt) for stmt in statements(body))


def _allocates(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(stmt, Allocate) for stmt in statements(body))


def _renamed(body: tuple[Stmt, ...], iteration: int, before: Mapping[str, Value]) -> dict[str, Value]:
    """Other names for what an iteration of a loop defines, so that iterations can stand in one block. `before` has
    those that iterations around it gave. No other name has a dot; in C each becomes one that nothing else has."""
    new: dict[str, Value] = {}
    for stmt in statements(body):
        if isinstance(stmt, Let | Declare):
            given = before.get(stmt.var.name, stmt.var)
            assert isinstance(given, Var)
            new[stmt.var.name] = Var(given.type, f"{given.name}.{iteration}")
    return new


def _with(stmt: Stmt, known_vars: Mapping[str, Value]) -> Stmt:
    """A statement with numbers, or other names, for some variables."""
    if not known_vars:
        return stmt
    if isinstance(stmt, Let | Declare | Assign):
        new = known_vars.get(stmt.var.name)
        stmt = replace(stmt, var=new) if isinstance(new, Var) else stmt
    return mapped(stmt, lambda value: substituted(value, known_vars))


# -- variables ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _RegisterNames:
    """Puts variables in the place of an array."""

    array: str
    variables: list[Var]

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(map(self._statement_on_variables, body))

    def _statement_on_variables(self, stmt: Stmt) -> Stmt:
        new = with_blocks(mapped(stmt, lambda value: replaced(value, self._variable)), self.block)
        match new:
            case Store(buffer, offset, value) if buffer == self.array:
                return Assign(self._at(offset), value)
            case lir.Instruct(operands=given):
                return replace(new, operands=tuple((name, self._operand(operand)) for name, operand in given))
        return new

    def _operand(self, operand: Element | Value) -> Element | Value:
        inside = isinstance(operand, Element) and operand.buffer == self.array
        return self._at(operand.offset) if inside and isinstance(operand, Element) else operand

    def _variable(self, value: Value) -> Var | None:
        inside = isinstance(value, Load) and value.buffer == self.array
        return self._at(value.offset) if inside and isinstance(value, Load) else None

    def _at(self, offset: Value) -> Var:
        place = constant_value(offset)
        assert place is not None
        return self.variables[place // self.variables[0].type.lanes]


def _with_declarations(body: tuple[Stmt, ...], variables: list[Var]) -> tuple[Stmt, ...]:
    """The statements with a declaration of each variable: its first assignment, if that comes first; else before
    them all."""
    waiting = {var.name: var for var in variables}
    new: list[Stmt] = []
    early: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Assign) and stmt.var.name in waiting and not _reads(stmt, stmt.var.name):
            del waiting[stmt.var.name]
            new.append(Declare(stmt.var, stmt.value))
            continue
        for name in [name for name in waiting if any(_mentions(inner, name) for inner in statements((stmt,)))]:
            var = waiting.pop(name)
            early.append(Declare(var, lir.Const(var.type, 0)))
        new.append(stmt)
    return (*early, *new)


def _reads(stmt: Stmt, name: str) -> bool:
    return any(isinstance(part, Var) and part.name == name for part in parts_of(stmt))


def _mentions(stmt: Stmt, name: str) -> bool:
    return _reads(stmt, name) or (isinstance(stmt, Assign) and stmt.var.name == name)
