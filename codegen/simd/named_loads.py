"""Names for what vector statements load, as a person writes them: once, before it is used, and used again as long
as nothing was stored there. What is stored and read again has a name as well, and is not loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dojoir.codegen.c.names import all_names
from dojoir.codegen.lir.arith import known
from dojoir.codegen.lir.program import (
    Assign,
    Binary,
    Const,
    Declare,
    Fail,
    For,
    If,
    Instruct,
    Let,
    Load,
    Parallel,
    Program,
    Splat,
    Stmt,
    Store,
    Stream,
    Value,
    Var,
)
from dojoir.codegen.lir.walk import (
    mapped,
    parts,
    parts_of,
    rebuilt,
    statements,
    with_blocks,
    written_by,
)
from dojoir.support.frozen import dataclass


def name_loads(program: Program, least_bits: int) -> Program:
    """The program with a name for each vector that a larger expression loads. Vectors of fewer than `least_bits` do
    not fill a register."""
    used = {*all_names(replace(program, functions=())), *(function.name for function in program.functions)}
    constants = {stmt.var.name for stmt in statements(program.body) if isinstance(stmt, Let)}
    namer = _Namer(
        used,
        frozenset(constants),
        least_bits,
    )
    return replace(program, body=namer.block(program.body))


@dataclass
class _Namer:
    """Names the loads of one program; `used` are the names that there are, `constants` those that never change."""

    used: set[str]
    constants: frozenset[str]
    least_bits: int

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self._run(body))

    def _run(self, body: tuple[Stmt, ...]) -> Iterator[Stmt]:
        held: dict[Load | Splat, Var] = {}
        repeated = _repeated(body)
        for number, stmt in enumerate(body):
            found: list[Let] = []

            def named(value: Value, held: dict[Load | Splat, Var] = held, found: list[Let] = found) -> Value:
                if (isinstance(value, Load) and value.type.lanes > 1) or value in repeated:
                    assert isinstance(value, Load | Splat)
                    if value not in held:
                        loaded = value.arg if isinstance(value, Splat) else value
                        assert isinstance(loaded, Load)
                        held[value] = Var(value.type, self._fresh(loaded.buffer))
                        inner = rebuilt(value, named)
                        found.append(Let(held[value], inner))
                    return held[value]
                return rebuilt(value, named)

            def inside(
                value: Value, named: Callable[[Value], Value] = named, held: dict[Load | Splat, Var] = held
            ) -> Value:
                """A whole value: one that is just a load stays, if it is the first."""
                if isinstance(value, Load) and value not in held:
                    return rebuilt(value, named)
                return named(value)

            match stmt:
                case Let() | Declare() | Assign() | Fail():
                    new: Stmt = mapped(stmt, inside)
                    yield from found
                    yield new
                    self._forget(held, {stmt.var.name} if isinstance(stmt, Assign) else set(), set())
                case Store(buffer):
                    new = mapped(stmt, inside)
                    yield from found
                    again = self._read_again(stmt, body[number + 1 :])
                    if again is not None and not isinstance(new.value, Var):
                        kept = Var(new.value.type, self._fresh(buffer))
                        yield Let(kept, new.value)
                        new = replace(new, value=kept)
                    yield new
                    self._forget(held, set(), {buffer}, stmt)
                    if again is not None and isinstance(new.value, Var):
                        held[again] = new.value
                case If() | Instruct() | For() | Parallel():
                    new = stmt if isinstance(stmt, For | Parallel) else mapped(stmt, inside)
                    yield from found
                    yield with_blocks(new, self.block)
                    self._forget_inside(held, stmt)
                case Stream(buffer):
                    yield stmt
                    self._forget(held, set(), {buffer})
                case _:
                    yield stmt

    def _read_again(self, store: Store, after: tuple[Stmt, ...]) -> Load | None:
        """The load of what was stored in whole registers, where a statement right behind it makes one."""
        kind, value = store.value.type, store.value
        whole = kind.lanes > 1 and kind.dtype.kind != "b" and kind.lanes * kind.dtype.bits >= self.least_bits
        changes = isinstance(value, Var) and value.name not in self.constants
        if store.mask is not None or store.streaming or changes or not whole:
            return None
        load = Load(kind, store.buffer, store.offset, store.stride)
        needed = {part.name for part in parts(load) if isinstance(part, Var)}
        for stmt in after:
            if not isinstance(stmt, Let | Declare | Assign | Store):
                return None
            if any(part == load for part in parts_of(stmt)):
                return load
            if isinstance(stmt, Assign) and stmt.var.name in needed:
                return None
            if isinstance(stmt, Store) and not _is_apart(load, stmt):
                return None
        return None

    def _forget_inside(self, held: dict[Load | Splat, Var], stmt: Stmt) -> None:
        inside = tuple(statements((stmt,)))
        assigned = {inner.var.name for inner in inside if isinstance(inner, Assign)}
        stored = {inner.buffer for inner in inside if isinstance(inner, Store | Stream)}
        for inner in inside:
            if isinstance(inner, Instruct):
                variables, buffers = written_by(inner)
                assigned |= variables
                stored |= buffers
        self._forget(held, assigned, stored)

    def _forget(
        self, held: dict[Load | Splat, Var], variables: set[str], buffers: set[str], store: Store | None = None
    ) -> None:
        """Forgets what was loaded from `buffers`, unless it lies apart from what `store` changes, or from where
        `variables` said."""
        for load in list(held):
            if store is not None and isinstance(load, Load) and _is_apart(load, store):
                continue
            read = {part.name for part in parts(load) if isinstance(part, Var)}
            touched = {part.buffer for part in parts(load) if isinstance(part, Load)}
            if read & variables or touched & buffers:
                del held[load]

    def _fresh(self, buffer: str) -> str:
        n = 0
        base = f"{buffer}_" if buffer[-1].isdigit() else buffer
        while (name := f"{base}{n}") in self.used:
            n += 1
        self.used.add(name)
        return name


def _is_apart(load: Load, store: Store) -> bool:
    """Whether a load of a row of elements surely reads none that a store of a row changes."""
    if load.buffer != store.buffer:
        return all(part.buffer != store.buffer for part in parts(load.offset) if isinstance(part, Load))
    strides = (load.stride, store.stride)
    if any(stride is not None and known(stride) != 1 for stride in strides):
        return False
    (base, first), (other, second) = _offset(load.offset), _offset(store.offset)
    if base != other or base.type.lanes > 1:
        return False
    return first + load.type.lanes <= second or second + store.value.type.lanes <= first


def _offset(value: Value) -> tuple[Value, int]:
    """An offset without the constant that is added last, and that."""
    match value:
        case Binary(_, "add", left, Const(_, number)):
            return left, int(number)
    return value, 0


def _repeated(body: tuple[Stmt, ...]) -> frozenset[Value]:
    """The elements in all lanes that a block, without those inside it, uses more than once."""
    seen: set[Value] = set()
    again: set[Value] = set()
    for part in parts_of(*body):
        if isinstance(part, Splat) and isinstance(part.arg, Load):
            (again if part in seen else seen).add(part)
    return frozenset(again)
