"""Names for what vector statements load, as a person writes them: once, before it is used, and used again as long
as nothing was stored there. What is stored and read again has a name as well, and is not loaded."""

from __future__ import annotations

from dataclasses import field, replace

from dojoir.codegen.c.identifiers import all_names
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import constant_value
from dojoir.codegen.lir.program import Assign, Declare, Let, Load, Splat, Stmt, Store, Value, Var
from dojoir.codegen.lir.walk import changed_by, mapped, parts, parts_of, rebuilt, statements, with_blocks
from dojoir.support.frozen import dataclass


def name_loads(program: lir.Program, least_bits: int) -> lir.Program:
    """The program with a name for each vector that a larger expression loads. Vectors of fewer than `least_bits` do
    not fill a register."""
    used = {*all_names(replace(program, functions=())), *(function.name for function in program.functions)}
    constants = {stmt.var.name for stmt in statements(program.body) if isinstance(stmt, Let)}
    return replace(program, body=_Namer(used, frozenset(constants), least_bits).block(program.body))


@dataclass
class _Namer:
    """Names the loads of a block; `used` are the names that there are, `constants` what never changes. Elements
    that are `repeated` in all lanes get a name, too. `held` are the names of what is loaded as it is now, `found`
    those that the statement at hand gave."""

    used: set[str]
    constants: frozenset[str]
    least_bits: int
    repeated: frozenset[Value] = frozenset()
    held: dict[Load | Splat, Var] = field(default_factory=dict)
    found: list[Let] = field(default_factory=list)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        inner = replace(self, repeated=_repeated(body), held={}, found=[])
        return tuple(new for number in range(len(body)) for new in inner.statement(body, number))

    def named(self, value: Value) -> Value:
        if not ((isinstance(value, Load) and value.type.lanes > 1) or value in self.repeated):
            return rebuilt(value, self.named)
        assert isinstance(value, Load | Splat)
        if value not in self.held:
            loaded = value.arg if isinstance(value, Splat) else value
            assert isinstance(loaded, Load)
            self.held[value] = Var(value.type, self._fresh(loaded.buffer))
            self.found.append(Let(self.held[value], rebuilt(value, self.named)))
        return self.held[value]

    def whole(self, value: Value) -> Value:
        """A whole value: one that is just a load stays, if it is the first."""
        first = isinstance(value, Load) and value not in self.held
        return rebuilt(value, self.named) if first else self.named(value)

    def statement(self, body: tuple[Stmt, ...], number: int) -> list[Stmt]:
        """A statement of a block, behind the names for what it loads."""
        stmt = body[number]
        kinds = Let | Declare | Assign | lir.Fail | Store | lir.If | lir.Instruct
        new = mapped(stmt, self.whole) if isinstance(stmt, kinds) else stmt
        before, self.found = self.found, []
        again = self._read_again(stmt, body[number + 1 :]) if isinstance(stmt, Store) else None
        if again is not None and isinstance(new, Store) and not isinstance(new.value, Var):
            kept = Var(new.value.type, self._fresh(new.buffer))
            before.append(Let(kept, new.value))
            new = replace(new, value=kept)
        new = with_blocks(new, self.block)
        self._forget(stmt)
        if again is not None and isinstance(new, Store) and isinstance(new.value, Var):
            self.held[again] = new.value
        return [*before, new]

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

    def _forget(self, stmt: Stmt) -> None:
        """Forgets what was loaded from arrays that a statement changes, unless it lies apart from what that stores,
        or from where variables said that it changes."""
        changed = changed_by((stmt,))
        for load in list(self.held) if changed else ():
            if isinstance(stmt, Store) and isinstance(load, Load) and _is_apart(load, stmt):
                continue
            names = {p.name if isinstance(p, Var) else p.buffer for p in parts(load) if isinstance(p, Var | Load)}
            if not changed.isdisjoint(names):
                del self.held[load]

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
    if any(stride is not None and constant_value(stride) != 1 for stride in strides):
        return False
    (base, first), (other, second) = _offset(load.offset), _offset(store.offset)
    if base != other or base.type.lanes > 1:
        return False
    return first + load.type.lanes <= second or second + store.value.type.lanes <= first


def _offset(value: Value) -> tuple[Value, int]:
    """An offset without the constant that is added last, and that."""
    match value:
        case lir.Binary(_, "add", left, lir.Const(_, number)):
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
