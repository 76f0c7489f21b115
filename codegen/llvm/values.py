"""Values of the lowered program as LLVM instructions."""

from __future__ import annotations

from dojoir.codegen.legal import divided_by_power, extreme
from dojoir.codegen.lir.arith import known
from dojoir.codegen.lir.notation import Expr
from dojoir.codegen.lir.program import (
    AddressOf,
    Binary,
    Bitcast,
    Call,
    Compare,
    Const,
    Convert,
    Dot,
    Fma,
    Iota,
    Load,
    Quads,
    Reduce,
    Select,
    Splat,
    Type,
    Unary,
    Value,
    Var,
)
from dojoir.codegen.llvm import words as text
from dojoir.codegen.llvm.dots import dot
from dojoir.codegen.llvm.memory import load, quads
from dojoir.codegen.llvm.operands import Operands
from dojoir.ir.dtypes import BOOL
from dojoir.support.frozen import dataclass

ROUNDING = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "roundeven"}


@dataclass
class Values(Operands):
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
            case Unary(kind, op, arg):
                return self._unary(kind, op, self.operand(arg))
            case Binary(op="floordiv" | "mod") if (found := divided_by_power(value)) is not None:
                return self.operand(found)
            case Binary(kind, op, left, right):
                a, b = self.operand(left), self.operand(right)
                return self.binary(kind, op, a, b, known(right))
            case Compare(op, left, right):
                return self._compare(left.type, op, self.operand(left), self.operand(right))
            case Select(condition, yes, no):
                chosen = [f"{text.spelled(v.type)} {self.operand(v)}" for v in (condition, yes, no)]
                return self.code.value(f"select {', '.join(chosen)}")
            case Fma(a, b, c):
                spelled = text.spelled(value.type)
                args = [(spelled, self.operand(arg)) for arg in (a, b, c)]
                return self.code.call(
                    f"llvm.fma.{text.mangled(value.type)}", spelled, args, self._flags(value.type)
                )
            case Dot():
                return dot(self, value)
            case Quads():
                return quads(self, value)
            case Convert(kind, arg):
                return self._convert(arg.type, kind, self.operand(arg))
            case Bitcast(kind, arg):
                return self.code.value(
                    f"bitcast {text.spelled(arg.type)} {self.operand(arg)} to {text.spelled(kind)}"
                )
            case Splat(lanes, arg):
                return self.splat(arg.type.dtype, lanes, self.operand(arg))
            case Iota(kind):
                element = text.scalar(kind.dtype)
                return "<" + ", ".join(f"{element} {lane}" for lane in range(kind.lanes)) + ">"
            case Reduce(op, arg):
                return self._reduce(arg.type, op, self.operand(arg))
            case Load():
                return load(self, value)
            case AddressOf(buffer):
                return self.code.value(f"ptrtoint ptr {self.arrays[buffer][0]} to i64")
            case Call(kind, function, args):
                given = ", ".join(f"{text.spelled(arg.type)} {self.operand(arg)}" for arg in args)
                return self.code.value(f"call {text.spelled(kind)} @{self.functions[function]}({given})")
        raise AssertionError(f"a CPU has no {type(value).__name__}")

    def _flags(self, kind: Type) -> str:
        return text.FAST if self.fast and kind.dtype.is_float else ""

    # -- arithmetic ------------------------------------------------------------------------------------------
    def _unary(self, kind: Type, op: str, arg: str) -> str:
        spelled, dtype = text.spelled(kind), kind.dtype
        flags = self._flags(kind)
        match op:
            case "neg" if dtype.is_float:
                return self.code.value(f"fneg {flags}{spelled} {arg}")
            case "neg":
                return self.code.value(f"sub {spelled} {self._all(kind, 0)}, {arg}")
            case "not":
                return self.code.value(f"xor {spelled} {arg}, {self._all(kind, True if dtype == BOOL else -1)}")
            case "abs" if dtype.is_float:
                return self.code.call(f"llvm.fabs.{text.mangled(kind)}", spelled, [(spelled, arg)], flags)
            case "abs" if dtype.kind == "u":
                return arg
            case "abs":
                return self.code.call(f"llvm.abs.{text.mangled(kind)}", spelled, [(spelled, arg), ("i1", "false")])
            case _:
                name = f"llvm.{ROUNDING[op]}.{text.mangled(kind)}"
                return self.code.call(name, spelled, [(spelled, arg)], flags)

    def binary(self, kind: Type, op: str, a: str, b: str, divisor: int | None = None) -> str:
        """An operation on two operands; `divisor` is the second, where it is a known integer."""
        spelled, dtype = text.spelled(kind), kind.dtype
        match op:
            case "min" | "max" if dtype.is_float:
                return self._extreme(kind, op, a, b)
            case "min_fast" | "max_fast" if dtype.is_float:
                before = self.code.value(f"fcmp {'olt' if op == 'min_fast' else 'ogt'} {spelled} {a}, {b}")
                return self._choose(kind, before, a, b)
            case "min" | "max" | "min_fast" | "max_fast":
                sign = "u" if dtype.kind == "u" else "s"
                return self.code.call(
                    f"llvm.{sign}{op[:3]}.{text.mangled(kind)}", spelled, [(spelled, a), (spelled, b)]
                )
            case "ldexp":
                return self._ldexp(kind, a, b)
            case "signed_or":
                return self._signed_or(kind, a, b)
            case "floordiv" | "mod":
                assert divisor is not None and divisor > 0
                return self._floor_division(kind, op, a, b, divisor)
            case _ if dtype.is_float:
                return self.code.value(f"{text.FLOAT_BINARY[op]} {self._flags(kind)}{spelled} {a}, {b}")
            case _:
                return self.code.value(f"{text.INTEGER_BINARY[op]} {spelled} {a}, {b}")

    def _extreme(self, kind: Type, op: str, a: str, b: str) -> str:
        """minimum and maximum of IEEE 754-2019, on x86 as `legal` says."""
        spelled = text.spelled(kind)
        bits = kind.dtype.bits * kind.lanes
        if op == "max" and self.ternary and bits > 512 and bits % 512 == 0:
            piece = Type(kind.dtype, 512 // kind.dtype.bits)
            return self.by_registers(kind, piece.lanes, lambda x, y: self._extreme(piece, op, x, y), a, b)
        if self.x86 and (op == "min" or (self.ternary and bits in (128, 256, 512))):
            self.names |= {".a": a, ".b": b}
            return self.operand(extreme(op, *(Expr(Var(kind, name)) for name in (".a", ".b")), majority=True).value)
        return self.code.call(f"llvm.{op}imum.{text.mangled(kind)}", spelled, [(spelled, a), (spelled, b)])

    def _signed_or(self, kind: Type, a: str, b: str) -> str:
        """Each bit as two have it of `a`, `b` and all but the sign: one instruction of AVX-512."""
        spelled, c = text.spelled(kind), self._all(kind, (1 << (kind.dtype.bits - 1)) - 1)
        letter = "d" if kind.dtype.bits == 32 else "q"
        name = f"llvm.x86.avx512.pternlog.{letter}.{kind.dtype.bits * kind.lanes}"
        return self.code.call(name, spelled, [(spelled, a), (spelled, b), (spelled, c), ("i32", "232")])

    def _ldexp(self, kind: Type, a: str, b: str) -> str:
        """`a * 2**b`. LLVM's own takes integers, and knows no instruction for them."""
        spelled, lanes = text.spelled(kind), kind.lanes
        bits = kind.dtype.bits * lanes
        if bits > 512:
            piece = Type(kind.dtype, 512 // kind.dtype.bits)
            return self.by_registers(kind, piece.lanes, lambda x, y: self._ldexp(piece, x, y), a, b)
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if kind.dtype.bits == 32 else 'pd'}.{bits}"
        args = [(spelled, a), (spelled, b), (spelled, "zeroinitializer"), (f"i{max(8, lanes)}", "-1")]
        rounding = [("i32", "4")] if bits == 512 else []  # as the control register says
        return self.code.call(name, spelled, [*args, *rounding])

    def _floor_division(self, kind: Type, op: str, a: str, b: str, divisor: int) -> str:
        """Towards minus infinity, by a positive constant."""
        spelled = text.spelled(kind)
        if kind.dtype.kind == "u":
            return self.code.value(f"{'urem' if op == 'mod' else 'udiv'} {spelled} {a}, {b}")
        rest = self.code.value(f"srem {spelled} {a}, {b}")
        below = self._compare(kind, "lt", rest, self._all(kind, 0))
        if op == "mod":
            lifted = self.code.value(f"add {spelled} {rest}, {b}")
            return self._choose(kind, below, lifted, rest)
        quotient = self.code.value(f"sdiv {spelled} {a}, {b}")
        flags = text.spelled(kind.with_dtype(BOOL))
        one_less = self.code.value(f"sext {flags} {below} to {spelled}")
        return self.code.value(f"add {spelled} {quotient}, {one_less}")

    def _all(self, kind: Type, value: int) -> str:
        return text.repeated(kind, text.number(kind.dtype, value))

    def _choose(self, kind: Type, condition: str, yes: str, no: str) -> str:
        flags, spelled = text.spelled(kind.with_dtype(BOOL)), text.spelled(kind)
        return self.code.value(f"select {flags} {condition}, {spelled} {yes}, {spelled} {no}")

    def _compare(self, kind: Type, op: str, a: str, b: str) -> str:
        spelled = text.spelled(kind)
        if kind.dtype.is_float:
            return self.code.value(f"fcmp {text.FLOAT_COMPARE[op]} {spelled} {a}, {b}")
        sign = "" if op in ("eq", "ne") else "s" if kind.dtype.kind == "i" else "u"
        return self.code.value(f"icmp {sign}{op} {spelled} {a}, {b}")

    # -- conversions -----------------------------------------------------------------------------------------
    def _convert(self, source: Type, kind: Type, operand: str) -> str:
        a, b = source.dtype, kind.dtype
        if a == b:
            return operand
        if b == BOOL:
            return self._compare(source, "ne", operand, self._all(source, 0))
        into = text.spelled(kind)
        if a.is_float and b.is_integer:
            name = f"llvm.fpto{'u' if b.kind == 'u' else 's'}i.sat.{text.mangled(kind)}.{text.mangled(source)}"
            return self.code.call(name, into, [(text.spelled(source), operand)])
        if a.is_float:
            op = "fpext" if a.bits < b.bits else "fptrunc"
        elif b.is_float:
            op = "sitofp" if a.kind == "i" else "uitofp"
        elif a == BOOL:
            op = "zext"
        elif a.bits == b.bits:
            return operand
        else:
            op = "trunc" if a.bits > b.bits else "sext" if a.kind == "i" else "zext"
        return self.code.value(f"{op} {text.spelled(source)} {operand} to {into}")

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
        total = self._reduce(Type(dtype, half), op, self.binary(Type(dtype, half), op, low, high))
        if kind.lanes % 2:
            last = self.lanes(kind, operand, range(kind.lanes - 1, kind.lanes))
            total = self.binary(Type(dtype), op, total, last)
        return total

    def lanes(self, kind: Type, operand: str, which: range) -> str:
        """Some lanes of a vector, as a vector or a scalar."""
        spelled = text.spelled(kind)
        if len(which) == 1:
            return self.code.value(f"extractelement {spelled} {operand}, i64 {which[0]}")
        order = ", ".join(f"i32 {lane}" for lane in which)
        return self.code.value(
            f"shufflevector {spelled} {operand}, {spelled} poison, <{len(which)} x i32> <{order}>"
        )
