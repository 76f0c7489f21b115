"""Values of the lowered program as LLVM instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dojoir.codegen.c.dialect import Dialect
from dojoir.codegen.legal import DOTS, Legaliser
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.notation import Body, Expr
from dojoir.codegen.lir.program import AddressOf, Binary, Bitcast, Compare, Const, Convert, Dot, Type, Value, Var
from dojoir.codegen.lir.walk import operands
from dojoir.codegen.llvm import words as text
from dojoir.codegen.llvm.memory import load, quads
from dojoir.codegen.llvm.operands import Operands
from dojoir.codegen.llvm.operation_table import CALL, OPERAND, llvm
from dojoir.ir.dtypes import BOOL, DTYPES
from dojoir.support.frozen import dataclass


@dataclass
class LlvmValues(Operands, Legaliser):
    """Prints any value of a program."""

    def operand(self, value: Value) -> str:
        """The operand that holds the value, its instructions emitted."""
        match value:
            case Const():
                return text.constant(value)
            case Var(kind, name):
                if name in self.cells:
                    return self.code.value(f"load {text.spelled(kind)}, ptr {self.cells[name]}")
                return self.names[name]
            case lir.Unary(kind, op):
                found = self.unary(value)
                return self._spelled(op, kind, kind, value) if found is value else self.operand(found)
            case Binary(kind, op, left, right) if (lanes := self._cut(op, kind)) != kind.lanes:
                piece = partial(self.combined, Type(kind.dtype, lanes), op)
                return self.by_registers(kind, lanes, piece, self.operand(left), self.operand(right))
            case Binary(kind, op):
                made = self.binary(value)
                return self._spelled(op, kind, kind, value) if made is value else self.operand(made)
            case Compare(op, left):
                return self._spelled(op, left.type, left.type, value)
            case lir.Select():
                chosen = [f"{text.spelled(v.type)} {self.operand(v)}" for v in operands(value)]
                return self.code.value(f"select {', '.join(chosen)}")
            case lir.Fma():
                return self._spelled("fma", value.type, value.type, value)
            case Dot():
                return self._dot(value)
            case lir.Quads():
                return quads(self, value)
            case Convert(kind, arg) if kind.dtype == arg.type.dtype:
                return self.operand(arg)
            case Convert(kind, arg) if kind.dtype == BOOL:
                return self.operand(Compare("ne", arg, Const(arg.type, 0)))
            case Convert(kind, arg) | Bitcast(kind, arg):
                return self._spelled(type(value).__name__.lower(), kind, arg.type, value)
            case lir.Splat(lanes, arg):
                return self.splat(arg.type.dtype, lanes, self.operand(arg))
            case lir.Iota(kind):
                element = text.scalar(kind.dtype)
                return "<" + ", ".join(f"{element} {lane}" for lane in range(kind.lanes)) + ">"
            case lir.Reduce(op, arg):
                return self._reduce(arg.type, op, self.operand(arg))
            case lir.Load():
                return load(self, value)
            case AddressOf(buffer):
                return self.code.value(f"ptrtoint ptr {self.arrays[buffer][0]} to i64")
            case lir.Call(kind, function, args):
                given = ", ".join(f"{text.spelled(arg.type)} {self.operand(arg)}" for arg in args)
                return self.code.value(f"call {text.spelled(kind)} @{self.functions[function]}({given})")
        raise AssertionError(f"a CPU has no {type(value).__name__}")

    # -- operations of the table -----------------------------------------------------------------------------
    @property
    def _dialect(self) -> Dialect:
        return llvm(self.fast, self.x86, self.ternary, self.vnni)

    def has(self, op: str, kind: Type, source: Type | None = None) -> bool:
        if op == "max" and kind.dtype.is_float and self.x86:
            return not self.has("signed_or", kind.with_dtype(DTYPES[f"u{kind.dtype.bits}"]))
        return self._dialect.has(op, kind, source)

    def called(self, name: str, kind: Type, write: Callable[..., Expr], comment: str, *args: Value) -> Value:
        """The value that `write` makes of a body and these arguments, in line."""
        body, inside = Body(args[0].type.lanes), replace(self, names={}, cells={})
        inside.names |= {"ab"[n]: self.operand(arg) for n, arg in enumerate(args)}
        result = write(body, *(body.param("ab"[n], arg.type.dtype) for n, arg in enumerate(args)))
        for let in body.lets:
            inside.names[let.var.name] = inside.operand(let.value)
        return self._held(kind, inside.operand(result.value))

    def combined(self, kind: Type, op: str, a: str, b: str) -> str:
        return self.operand(Binary(kind, op, self._held(kind, a), self._held(kind, b)))

    def _dot(self, value: Dot) -> str:
        """The sums, a register at a time."""
        kind, signed = value.type, value.signed
        a, b, c = (self._held(each.type, self.operand(each)) for each in operands(value))
        size = next(size for size in (16, 8, 4) if size <= self.dots and kind.lanes % size == 0)
        if kind.lanes != size:

            def one(*given: str) -> str:
                x, y, z = (
                    self._held(replace(var.type, lanes=size), part)
                    for var, part in zip((a, b, c), given, strict=True)
                )
                return self.operand(Dot(x, y, z, signed))

            return self.by_registers(kind, size, one, *(self.names[each.name] for each in (a, b, c)))
        whole = Dot(a, b, c, signed)
        made = self.dot(whole)
        if made != whole:
            return self.operand(made)
        if self.x86:
            return self._spelled(DOTS[signed], kind, kind, whole)
        x, y = (
            Bitcast(Type(DTYPES["i8" if sign else "u8"], 4 * size), part)
            for sign, part in zip(signed, (a, b), strict=True)
        )
        return (
            self._spelled(DOTS[signed], kind, kind, Dot(x, y, c, signed)) if self.vnni else self._in_pairs(x, y, c)
        )

    def _in_pairs(self, x: Value, y: Value, c: Value) -> str:
        """On an Arm without dotprod: products of 16 bits, none of which is too large, and pairs of them."""
        kind, wide, halves = c.type, Type(DTYPES["i16"], 8), []
        given = [(self.operand(each), each.type) for each in (x, y)]
        for first in (0, 8):
            parts = [
                self._held(Type(whole.dtype, 8), self.lanes(whole, each, range(first, first + 8)))
                for each, whole in given
            ]
            products = self.operand(Binary(wide, "mul", *(Convert(wide, part) for part in parts)))
            name = f"llvm.aarch64.neon.{'s' if y.type.dtype.kind == 'i' else 'u'}addlp.v4i32.v8i16"
            halves.append(self.code.call(name, text.spelled(kind), [(text.spelled(wide), products)]))
        pairs = self.code.call(
            "llvm.aarch64.neon.addp.v4i32", text.spelled(kind), [(text.spelled(kind), half) for half in halves]
        )
        return self.combined(kind, "add", self.operand(c), pairs)

    def _held(self, kind: Type, operand: str) -> Var:
        """A variable that stands for an operand."""
        name = self.code.fresh(".held")
        self.names[name] = operand
        return Var(kind, name)

    def _cut(self, op: str, kind: Type) -> int:
        """The lanes of a register, where an operation of AVX-512 is done by registers: those of the type else."""
        lanes = 512 // kind.dtype.bits
        several = op in ("max", "ldexp") and kind.dtype.is_float and self.x86 and self.ternary
        return lanes if several and kind.lanes > lanes and kind.lanes % lanes == 0 else kind.lanes

    def _spelled(self, op: str, kind: Type, source: Type, value: Value) -> str:
        """The instruction or the call of a row of the table, on what a value is made of."""
        found = self._dialect.spelled(op, kind, source if op in ("convert", "bitcast") else None)
        given = dict(zip("abc", map(self.operand, operands(value)), strict=False))
        if found == "a":
            return given["a"]
        if call := CALL.fullmatch(found):
            args = [(each, given.get(name, name)) for each, name in OPERAND.findall(call[3])]
            return self.code.call(call[2], text.spelled(kind), args, call[1])
        return self.code.value(re.sub(r"\b[abc]\b", lambda name: given[name[0]], found))

    # -- across lanes ----------------------------------------------------------------------------------------
    def _reduce(self, kind: Type, op: str, operand: str) -> str:
        """Integers and flags by the intrinsic, which no order changes; floats as a balanced tree."""
        dtype = kind.dtype
        if kind.lanes == 1:
            return operand
        if not dtype.is_float:
            op = op.removesuffix("_fast")
            sign = "" if op not in ("min", "max") else "u" if dtype.kind == "u" else "s"
            name = f"llvm.vector.reduce.{sign}{op}.{text.mangled(kind)}"
            return self.code.call(name, text.scalar(dtype), [(text.spelled(kind), operand)])
        half = kind.lanes // 2
        low = self.lanes(kind, operand, range(half))
        high = self.lanes(kind, operand, range(half, 2 * half))
        total = self._reduce(Type(dtype, half), op, self.combined(Type(dtype, half), op, low, high))
        if kind.lanes % 2:
            last = self.lanes(kind, operand, range(kind.lanes - 1, kind.lanes))
            total = self.combined(Type(dtype), op, total, last)
        return total
