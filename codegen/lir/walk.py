"""Walking a lowered program: the parts of a value, the values of a statement, the blocks inside it.

What a node is made of is read off the fields of its class, by their types: a new node has nothing to do here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import Allocate, Atomic, Element, For, Instruct, Let, Start, Stmt, Store, Value, Var
from dojoir.support.frozen import dataclass

Node = TypeVar("Node", bound=Stmt | Value)

_HOLDS = {
    "Value": "value",
    "Load": "value",
    "Value | None": "value",
    "tuple[Value, ...]": "values",
    "tuple[Stmt, ...]": "block",
}
"""The fields that walks ask for, by their types. A `Position` is a value, too."""


@dataclass(frozen=True)
class _NodeFields:
    """The fields of a class of nodes in order, each with what it holds (nothing: what no walk asks for), and
    those that are given by name alone. Then come those of values, of blocks, and of values that count elements or
    guard. Two classes
    of nodes have more values deeper inside."""

    fields: tuple[tuple[str, str], ...]
    by_name: tuple[str, ...]
    values: tuple[str, ...]
    blocks: tuple[str, ...]
    positions: frozenset[str]
    has_more: bool


def _form_of(kind: type) -> _NodeFields:
    types = {field.name: str(field.type) for field in fields(kind)}
    holds = {name: _HOLDS.get(type.replace("Position", "Value"), "") for name, type in types.items()}
    by_name = tuple(field.name for field in fields(kind) if field.kw_only)
    return _NodeFields(
        tuple((name, held) for name, held in holds.items() if name not in by_name),
        by_name,
        tuple(name for name, held in holds.items() if held.startswith("value")),
        tuple(name for name, held in holds.items() if held == "block"),
        frozenset(name for name, type in types.items() if "Position" in type),
        kind in (Instruct, Allocate),
    )


_form: Callable[[type], _NodeFields] = cache(_form_of)


def values(node: Stmt | Value) -> tuple[Value, ...]:
    """The values that a statement itself computes, without those of the blocks inside it, in order; of a value,
    those that it is made of."""
    form = _form(type(node))
    found: list[Value] = []
    for name in form.values:
        part: Value | tuple[Value, ...] | None = getattr(node, name)
        if isinstance(part, tuple):
            found += part
        elif part is not None:
            found.append(part)
    if form.has_more:
        found += (value for value, _ in _more(node))
    return tuple(found)


def _more(node: Stmt | Value) -> Iterator[tuple[Value, bool]]:
    """The values that are no field of a node, but inside of one."""
    match node:
        case Instruct(operands=given):
            for _, part in given:
                yield (part.offset, True) if isinstance(part, Element) else (part, False)
                if isinstance(part, Element) and part.near is not None:
                    yield part.near, True
        case Allocate(array):
            yield array.elements, True


operands = values


def positions(node: Stmt | Value) -> Iterator[tuple[Value, bool]]:
    """The same values, each with whether it counts elements or guards."""
    form = _form(type(node))
    for name in form.values:
        part: Value | tuple[Value, ...] | None = getattr(node, name)
        for value in part if isinstance(part, tuple) else () if part is None else (part,):
            yield value, name in form.positions
    yield from _more(node)


def mapped(node: Node, change: Callable[[Value], Value]) -> Node:
    """A statement with the values that it computes itself changed; a value with those that it is made of."""
    form = _form(type(node))
    if isinstance(node, Instruct):
        changed = tuple((name, _operand(node, name, part, change)) for name, part in node.operands)
        return replace(node, operands=changed)
    if isinstance(node, Allocate):
        return replace(node, array=replace(node.array, elements=change(node.array.elements)))
    if not form.values:
        return node
    given: list[Any] = []
    for name, held in form.fields:
        part = getattr(node, name)
        if held == "value" and part is not None:
            part = change(part)
        elif held == "values":
            part = tuple(map(change, part))
        given.append(part)
    return type(node)(*given, **{name: getattr(node, name) for name in form.by_name})


rebuilt = mapped


def _operand(
    stmt: Instruct, name: str, operand: Element | Value, change: Callable[[Value], Value]
) -> Element | Value:
    """An operand of an instruction, its values changed; a variable that it assigns stays one."""
    if isinstance(operand, Element):
        return Element(operand.buffer, change(operand.offset), operand.near and change(operand.near))
    new = change(operand)
    by_value = stmt.instruction.operands[name].role == "in" and not stmt.instruction.operands[name].dims
    return new if by_value or isinstance(new, Var) else operand


def replaced(value: Value, by: Callable[[Value], Value | None]) -> Value:
    """A value with what `by` gives for its parts, outermost first; where that is nothing, a part stays, and those
    inside of it are asked."""
    found = by(value)
    return rebuilt(value, lambda part: replaced(part, by)) if found is None else found


def blocks(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks inside a statement, in the order of the text."""
    return tuple(getattr(stmt, name) for name in _form(type(stmt)).blocks)


def with_blocks(stmt: Node, change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Node:
    """A statement with what `change` makes of each block inside it."""
    names = _form(type(stmt)).blocks
    changed: dict[str, Any] = {name: change(getattr(stmt, name)) for name in names}
    return replace(stmt, **changed) if changed else stmt


def changed_by(body: tuple[Stmt, ...]) -> set[str]:
    """The names of the arrays and variables that some code may change, and of the variables that it makes."""
    found: set[str] = set()
    for stmt in statements(body):
        match stmt:
            case Let(var) | lir.Declare(var) | lir.Assign(var) | For(var=var) | lir.Parallel(var=var):
                found.add(var.name)
            case Store(buffer) | Atomic(buffer=buffer) | lir.Stream(buffer) | Start(buffer):
                found.add(buffer)
            case lir.Swap(seen, buffer):
                found.update((seen.name, buffer))
            case Instruct():
                found.update(*written_by(stmt))
    return found


def written_by(stmt: Instruct) -> tuple[set[str], set[str]]:
    """The names of the variables and of the buffers that an instruction writes."""
    given = [operand for name, operand in stmt.operands if stmt.instruction.operands[name].role != "in"]
    variables = {operand.name for operand in given if isinstance(operand, Var)}
    return variables, {operand.buffer for operand in given if isinstance(operand, Element)}


def parts(value: Value) -> Iterator[Value]:
    """`value` and everything inside it, outermost first."""
    yield value
    for operand in operands(value):
        yield from parts(operand)


def parts_of(*body: Stmt) -> Iterator[Value]:
    """The values that some statements themselves have, without the blocks inside them, and all parts of these."""
    return (part for stmt in body for value in values(stmt) for part in parts(value))


def variables(*body: Stmt) -> set[str]:
    """The names of the variables that some statements and those inside them read."""
    return {part.name for part in parts_of(*statements(body)) if isinstance(part, Var)}


def changed_values(body: tuple[Stmt, ...], change: Callable[[Value], Value]) -> tuple[Stmt, ...]:
    """A block with what `change` makes of each value of its statements and of those inside them."""
    return tuple(with_blocks(mapped(stmt, change), lambda inner: changed_values(inner, change)) for stmt in body)


def with_loops(body: tuple[Stmt, ...], change: Callable[[For], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """A block with what `change` makes of each loop in it. Where that is nothing, the loop stays, and those inside
    it are asked; what stands for a loop is not asked again."""

    def changed(stmt: Stmt) -> tuple[Stmt, ...]:
        found = change(stmt) if isinstance(stmt, For) else ()
        return found or (with_blocks(stmt, lambda inner: with_loops(inner, change)),)

    return tuple(new for stmt in body for new in changed(stmt))


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a block and of the blocks inside it, in the order of the text."""
    for stmt in body:
        yield stmt
        for block in blocks(stmt):
            yield from statements(block)


def all_values(program: lir.Program) -> Iterator[Value]:
    """The values that the statements of a program and of its functions compute."""
    for stmt in statements((*(let for function in program.functions for let in function.body), *program.body)):
        yield from values(stmt)
    yield from (function.result for function in program.functions)


def buffers(stmt: Stmt) -> Iterator[str]:
    """The buffers that a statement itself touches, without those of the blocks inside it; some more than once."""
    match stmt:
        case Store(buffer) | lir.Prefetch(buffer) | Atomic(buffer=buffer) | lir.Swap(buffer=buffer) | Start(buffer):
            yield buffer
        case lir.Stream(buffer, source=source):
            yield buffer
            yield source
        case Instruct(operands=given):
            yield from (operand.buffer for _, operand in given if isinstance(operand, Element))
    yield from (part.buffer for part in parts_of(stmt) if isinstance(part, lir.Load | lir.Quads | lir.AddressOf))
