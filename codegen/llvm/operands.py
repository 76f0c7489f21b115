"""Shared by the printers of values: the code and the names of one function, and operations on lanes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from dojoir.codegen.lir.program import Type, Value
from dojoir.codegen.llvm import words as text
from dojoir.codegen.llvm.code import FunctionLines
from dojoir.ir.dtypes import DType
from dojoir.support.frozen import dataclass


@dataclass
class Operands(ABC):
    """Prints values into the code of one function. `names` gives the operand of each variable that never
    changes, `cells` the address of each that does, `arrays` the address and element type of each buffer. `x86`
    and `ternary` say that the machine has the instructions of x86, and those of AVX-512 on three operands.
    `dots` is how many lanes a register has for sums of products of bytes, `vnni` whether it has one instruction
    for four of them. `register` is how many bits a vector register has (0: there are none), `registers` how many
    there are, and `on_stack` are the arrays of the function itself."""

    code: FunctionLines
    fast: bool
    x86: bool = False
    ternary: bool = False
    dots: int = 0
    vnni: bool = False
    register: int = 0
    registers: int = 0
    names: dict[str, str] = field(default_factory=dict)
    cells: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, tuple[str, DType]] = field(default_factory=dict)
    on_stack: set[str] = field(default_factory=set)
    functions: Mapping[str, str] = field(default_factory=dict)

    @abstractmethod
    def operand(self, value: Value) -> str:
        """The operand that holds the value, its instructions emitted."""

    @abstractmethod
    def combined(self, kind: Type, op: str, a: str, b: str) -> str:
        """An operation on two operands."""

    def splat(self, dtype: DType, lanes: int, operand: str) -> str:
        """The scalar in every lane."""
        kind = text.vector(text.scalar(dtype), lanes)
        one = self.code.value(f"insertelement {kind} poison, {text.scalar(dtype)} {operand}, i64 0")
        return self.code.value(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def by_registers(self, kind: Type, lanes: int, compute: Callable[..., str], *operands: str) -> str:
        """An operation on vectors of several registers of so many lanes, one register after the other."""
        piece = Type(kind.dtype, lanes)
        whole, part = text.spelled(kind), text.spelled(piece)
        names = f"{text.mangled(kind)}.{text.mangled(piece)}", f"{text.mangled(piece)}.{text.mangled(kind)}"
        result = "poison"
        for first in range(0, kind.lanes, lanes):
            at = ("i64", str(first))
            given = [self.code.call(f"llvm.vector.extract.{names[1]}", part, [(whole, v), at]) for v in operands]
            done = compute(*given)
            result = self.code.call(f"llvm.vector.insert.{names[0]}", whole, [(whole, result), (part, done), at])
        return result

    def shuffled(self, kind: Type, left: str, right: str, which: Sequence[int | None]) -> str:
        """A shuffle of two vectors of one type. Lane numbers go on from the left vector into the right one; a lane
        that is None is undefined."""
        spelled = text.spelled(kind)
        order = ", ".join(f"i32 {'poison' if lane is None else lane}" for lane in which)
        return self.code.value(f"shufflevector {spelled} {left}, {spelled} {right}, <{len(which)} x i32> <{order}>")

    def lanes(self, kind: Type, operand: str, which: range) -> str:
        """Some lanes of a vector, as a vector or a scalar."""
        spelled = text.spelled(kind)
        if len(which) == 1:
            return self.code.value(f"extractelement {spelled} {operand}, i64 {which[0]}")
        return self.shuffled(kind, operand, "poison", which)
