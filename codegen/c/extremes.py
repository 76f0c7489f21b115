"""Minima and maxima of floats that are accumulated in lanes, by the integers that their bits are.

IEEE 754-2019's maximum puts -0 below +0 and keeps a NaN, for which a compiler makes some nine instructions a
vector, each waiting for the last. Three of integers say as much. As signed ones, the largest bits are those of
the largest float, if any has no sign. As unsigned ones, the smallest bits are those of the largest float, if all
have a sign, and the largest bits those of the smallest float, if any has one. A NaN is beyond infinity in its
half: it shows in the largest signed bits without a sign, and in the largest unsigned ones with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dojoir.codegen.c.identifiers import all_names
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.fresh_names import free
from dojoir.codegen.lir.program import Assign, Binary, Bitcast, Compare, Const, Declare, For, Let, Stmt, Value, Var
from dojoir.codegen.lir.walk import parts, parts_of, statements, with_blocks
from dojoir.ir.dtypes import DTYPES
from dojoir.support.frozen import dataclass

_FLOAT, _SIGNED, _UNSIGNED = (lir.Type(DTYPES[name]) for name in ("f32", "i32", "u32"))
_INFINITY, _MINUS_INFINITY = Const(_SIGNED, 0x7F800000), Const(_UNSIGNED, 0xFF800000)
_SIGN = Const(_UNSIGNED, 1 << 31)


def with_extremes_by_bits(program: lir.Program) -> lir.Program:
    """The program, whose loops in lanes accumulate minima and maxima of f32 by their bits where nothing else in the
    loop reads them."""
    return replace(program, body=tuple(_block(program.body, _UntakenNames(set(all_names(program))))))


class _UntakenNames:
    """Names that are not taken."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def new(self, var: Var, what: str, type: lir.Type) -> Var:
        """A variable for the bits of another."""
        name = free(f"{var.name}_{what}", self._taken.__contains__)
        self._taken.add(name)
        return Var(type, name)


@dataclass(frozen=True)
class _ByBits:
    """An accumulation by bits: of which variable, and the variables of the largest signed bits, of the smallest and
    of the largest unsigned ones."""

    op: str
    var: Var
    top: Var
    low: Var
    high: Var
    names: _UntakenNames

    @property
    def reductions(self) -> tuple[tuple[str, Var], ...]:
        return ("max", self.top), ("min", self.low), ("max", self.high)

    def before(self) -> Iterator[Stmt]:
        for _, var in self.reductions:
            yield Declare(var, Bitcast(var.type, self.var))

    def step(self, value: Value) -> Iterator[Stmt]:
        given = self.names.new(self.var, "next", _FLOAT)
        bits = {type: self.names.new(self.var, f"next_{type.dtype}", type) for type in (_SIGNED, _UNSIGNED)}
        yield Let(given, value)
        for type, var in bits.items():
            yield Let(var, Bitcast(type, given))
        for op, var in self.reductions:
            yield Assign(var, Binary(var.type, op, bits[var.type], var))

    def after(self) -> Iterator[Stmt]:
        if self.op == "max":
            some, one, other = Compare("ge", self.top, Const(_SIGNED, 0)), self.top, self.low
        else:
            some, one, other = Compare("ge", self.high, _SIGN), self.high, self.low
        number: Value = lir.Select(some, Bitcast(_FLOAT, one), Bitcast(_FLOAT, other))
        for beyond in (Compare("gt", self.high, _MINUS_INFINITY), Compare("gt", self.top, _INFINITY)):
            number = lir.Select(beyond, Const(_FLOAT, math.nan), number)
        yield Assign(self.var, number)


def _block(body: Sequence[Stmt], names: _UntakenNames) -> Iterator[Stmt]:
    for stmt in body:
        match stmt:
            case For(kind="simd"):
                yield from _loop(stmt, names)
            case _:
                yield with_blocks(stmt, lambda inner: tuple(_block(inner, names)))


def _loop(loop: For, names: _UntakenNames) -> Iterator[Stmt]:
    found = [
        _ByBits(
            op,
            var,
            names.new(var, "top", _SIGNED),
            names.new(var, "low", _UNSIGNED),
            names.new(var, "high", _UNSIGNED),
            names,
        )
        for op, var in loop.reductions
        if op in ("max", "min") and var.type == _FLOAT and _is_alone(op, var, loop)
    ]
    if not found:
        yield loop
        return
    by_name = {keyed.var.name: keyed for keyed in found}
    reductions = [(op, var) for op, var in loop.reductions if var.name not in by_name]
    for keyed in found:
        yield from keyed.before()
        reductions += keyed.reductions
    yield replace(loop, body=tuple(_steps(loop.body, by_name)), reductions=tuple(reductions))
    for keyed in found:
        yield from keyed.after()


def _is_alone(op: str, var: Var, loop: For) -> bool:
    """Whether a loop does nothing with a variable but accumulate values into it, in blocks that are known."""
    for stmt in statements(loop.body):
        if isinstance(stmt, Assign) and stmt.var == var:
            if _accumulated(op, var, stmt.value) is None:
                return False
            continue
        known = isinstance(stmt, Let | Declare | Assign | lir.If | For) or not tuple(statements((stmt,)))[1:]
        if not known or (isinstance(stmt, For) and any(other == var for _, other in stmt.reductions)):
            return False
        if any(part == var for part in parts_of(stmt)):
            return False
    return True


def _accumulated(op: str, var: Var, value: Value) -> Value | None:
    """The value that goes into a variable, or None where something else is done."""
    if not (isinstance(value, Binary) and value.op == op):
        return None
    other = value.left if value.right == var else value.right if value.left == var else None
    return None if other is None or any(part == var for part in parts(other)) else other


def _steps(body: Sequence[Stmt], keyed: dict[str, _ByBits]) -> Iterator[Stmt]:
    for stmt in body:
        match stmt:
            case Assign(var, value) if var.name in keyed:
                added = _accumulated(keyed[var.name].op, var, value)
                assert added is not None
                yield from keyed[var.name].step(added)
            case _:
                yield with_blocks(stmt, lambda inner: tuple(_steps(inner, keyed)))
