"""Buffers of a kernel that is being built, and what statements write."""

from __future__ import annotations

from typing import NoReturn, Protocol

from dojoir.author.expressions import Accumulation, Number, Operand, Value, as_value, index_of
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Access, Buffer

Pair = tuple[Number, Number]
"""A value and a place."""

Target = Operand | tuple[Operand, Operand]
"""The target of a statement: an element or a scalar, or a pair of these."""


class Writes(Protocol):
    """The receiver of the statements on arrays."""

    def set(self, target: Operand, value: Number) -> None: ...

    def accumulate(self, target: Operand, op: str, value: Number) -> None: ...


class Array(Operand):
    """A buffer of a kernel that is being built: `x[i, j]` is an element, `x[i, j] = …` a statement. A scalar is a
    value as it is, and written by `x[()] = …`."""

    def __init__(self, builder: Writes, buffer: Buffer) -> None:
        self.builder = builder
        self.name = buffer.name
        self.rank = len(buffer.dims)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.rank} dimensions>"

    def value(self) -> Value:
        return self[()]

    def __getitem__(self, index: Number | tuple[Number, ...]) -> Value:
        numbers = index if isinstance(index, tuple) else (index,)
        if len(numbers) != self.rank:
            message = f"{self.name} has {self.rank} dimensions, and is given {len(numbers)} indices"
            raise ArgumentError(message, "wrong-rank")
        values = [as_value(number) for number in numbers]
        indices = tuple(index_of(value, f"an index of {self.name}") for value in values)
        return Value(Access(self.name, indices), frozenset[object]().union(*(value.scopes for value in values)))

    def __setitem__(self, index: Number | tuple[Number, ...], value: Number) -> None:
        target = self[index]
        if isinstance(value, Accumulation) and value.target == target.expr:
            self.builder.accumulate(target, value.op, value.added)
        else:
            self.builder.set(target, value)

    def __iadd__(self, other: Number) -> NoReturn:
        raise ArgumentError(f"write {self.name}[()] += … for a scalar", "wrong-rank")

    def __imul__(self, other: Number) -> NoReturn:
        raise ArgumentError(f"write {self.name}[()] *= … for a scalar", "wrong-rank")

    def __ixor__(self, other: Number) -> NoReturn:
        raise ArgumentError(f"write {self.name}[()] with ^=, &= or |= for a scalar", "wrong-rank")

    __iand__ = __ior__ = __ixor__
