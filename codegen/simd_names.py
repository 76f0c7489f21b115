"""Names for what vector statements load, as a person writes them: once, before it is used, and used again as long
as nothing was stored there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dojoir.codegen.lir import (
    Allocate,
    Assign,
    Comment,
    Declare,
    Fail,
    Fence,
    For,
    If,
    Instruct,
    Let,
    Load,
    Parallel,
    Prefetch,
    Program,
    Splat,
    Stmt,
    Store,
    Stream,
    Value,
    Var,
)
from dojoir.codegen.lir_walk import parts, rebuilt, rebuilt_instruct, statements, values, written_by
from dojoir.codegen.simd_pieces import rebuilt_store


def name_loads(program: Program) -> Program:
    """The program with a name for each vector that a larger expression loads."""
    namer = _Namer(set(_names(program)))
    return replace(program, body=namer.block(program.body))


@dataclass
class _Namer:
    """Names the loads of one program; `used` are the names that there are."""

    used: set[str]

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self._run(body))

    def _run(self, body: tuple[Stmt, ...]) -> Iterator[Stmt]:
        held: dict[Load | Splat, Var] = {}
        repeated = _repeated(body)
        for stmt in body:
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
                case Let(var, value) | Declare(var, value) | Assign(var, value):
                    new: Stmt = type(stmt)(var, inside(value))
                    yield from found
                    yield new
                    changed = {var.name} if isinstance(stmt, Assign) else set()
                    self._forget(held, changed, set())
                case Store(buffer):
                    new = rebuilt_store(stmt, inside)
                    yield from found
                    yield new
                    self._forget(held, set(), {buffer})
                case Fail(condition, status):
                    new = Fail(inside(condition), status)
                    yield from found
                    yield new
                case If(condition, then, otherwise):
                    condition = inside(condition)
                    yield from found
                    yield replace(stmt, condition=condition, then=self.block(then), otherwise=self.block(otherwise))
                    self._forget_inside(held, stmt)
                case For(body=inner):
                    yield replace(stmt, body=self.block(inner))
                    self._forget_inside(held, stmt)
                case Parallel(prologue=prologue, body=inner):
                    yield replace(stmt, prologue=self.block(prologue), body=self.block(inner))
                    self._forget_inside(held, stmt)
                case Stream(buffer):
                    yield stmt
                    self._forget(held, set(), {buffer})
                case Instruct(otherwise=otherwise):
                    yield replace(rebuilt_instruct(stmt, inside), otherwise=self.block(otherwise))
                    self._forget_inside(held, stmt)
                case Allocate() | Comment() | Fence() | Prefetch():
                    yield stmt

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

    def _forget(self, held: dict[Load | Splat, Var], variables: set[str], buffers: set[str]) -> None:
        """Forgets what was loaded from `buffers`, or from where `variables` said."""
        for load in list(held):
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


def _repeated(body: tuple[Stmt, ...]) -> frozenset[Value]:
    """The elements in all lanes that a block, without those inside it, uses more than once."""
    seen: set[Value] = set()
    again: set[Value] = set()
    for stmt in body:
        for value in values(stmt):
            for part in parts(value):
                if isinstance(part, Splat) and isinstance(part.arg, Load):
                    (again if part in seen else seen).add(part)
    return frozenset(again)


def _names(program: Program) -> Iterator[str]:
    yield from (array.name for array in program.arguments)
    yield from (size.name for size in program.sizes)
    yield from (function.name for function in program.functions)
    for stmt in statements(program.body):
        match stmt:
            case Let(var) | Declare(var) | Assign(var) | For(var) | Parallel(var):
                yield var.name
            case Allocate(array):
                yield array.name
        for value in values(stmt):
            yield from (part.name for part in parts(value) if isinstance(part, Var))


__all__ = ["name_loads"]
