"""Operations made of others that an instruction set or a machine has: each way is written here once.

Whoever lowers for a dialect is a `Legaliser`, which says what the dialect has: the rules of instruction sets, LLVM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dojoir.codegen.lir.notation import Body, Expr, select
from dojoir.codegen.lir.program import Binary, Bitcast, Const, Dot, Type, Unary, Value
from dojoir.ir.dtypes import BOOL, DTYPES


class Legaliser(ABC):
    """Makes what a dialect lacks of what it has; what it has, and what nothing is known for, stays."""

    @abstractmethod
    def has(self, op: str, kind: Type, source: Type | None = None) -> bool:
        """Whether the dialect spells an operation that gives a type, from a `source` if that is another type."""

    @abstractmethod
    def called(self, name: str, kind: Type, write: Callable[..., Expr], comment: str, *args: Value) -> Value:
        """The value that `write` makes for these arguments, of a body: in a function, if there are any."""

    def unary(self, value: Unary) -> Value:
        kind, op, arg = value.type, value.op, value.arg
        dtype = kind.dtype
        if self.has(op, kind):
            return value
        match op:
            case "abs" if dtype.kind == "u":
                return arg
            case "neg" if dtype.is_integer:
                return Binary(kind, "sub", Const(kind, 0), arg)
            case "not" if dtype.is_integer:
                ones = -1 if dtype.kind == "i" else (1 << dtype.bits) - 1
                return Binary(kind, "xor", arg, Const(kind, ones))
            case "abs" if dtype.kind == "i":
                return self.called("abs", kind, _absolute, "|a|, wrapping around", arg)
        return value

    def binary(self, value: Binary) -> Value:
        kind, op, left, right = value.type, value.op, value.left, value.right
        dtype = kind.dtype
        if op.endswith("_fast") and dtype.is_integer:
            return self.binary(replace(value, op=op.removesuffix("_fast")))
        if self.has(op, kind) or (isinstance(right, Const) and self.has(f"{op}_i", kind)):
            return value
        sign = "<" if op.startswith("min") else ">"
        match op:
            case "div" | "rem" if dtype.is_integer and self.has(_OF_ANY_SIGN[op], kind):
                return replace(value, op=_OF_ANY_SIGN[op])
            case "floordiv" | "mod" if (found := divided_by_power(value)) is not None:
                return found
            case "floordiv" | "mod" if dtype.kind == "u" and self.has("rest", kind):
                return replace(value, op="div" if op == "floordiv" else "rem")
            case "floordiv" | "mod" if self.has("rest", kind):
                write = _floor_division if op == "floordiv" else _modulo
                return self.called(op, kind, write, f"{op} for b > 0, rounded down", left, right)
            case "max" | "min" if dtype.is_float:
                word = "larger" if op == "max" else "smaller"
                way = partial(_by_number if self.has(f"{op}_number", kind) else self.extreme, op)
                return self.called(op, kind, way, f"the {word} one, NaN if either is; -0 is below +0", left, right)
            case "max" | "min" | "max_fast" | "min_fast":
                return self.called(op, kind, partial(_by_comparison, sign), f"a {sign} b ? a : b", left, right)
        return value

    def extreme(self, op: str, body: Body, a: Expr, b: Expr) -> Expr:
        """minimum or maximum (IEEE 754-2019) of two floats. `max_fast` gives its second operand where they are
        equal or one is NaN. Taken both ways, the two results differ only there, and their bits combined are right:
        or'ed for the minimum; for the maximum all but the sign or'ed, and the sign and'ed. That is one operation
        (`signed_or`) where there is one of a majority of bits; where masks are bits, NaN is chosen by these."""
        bits = DTYPES[f"u{a.dtype.bits}"]
        one, two = (Expr(Binary(a.type, f"{op}_fast", x.value, y.value)).bits(bits) for x, y in ((a, b), (b, a)))
        if op == "min":
            return (one | two).bits(a.dtype)
        if self.has("signed_or", one.type):
            return Expr(Binary(one.type, "signed_or", one.value, two.value)).bits(a.dtype)
        if self.has("and", a.type.with_dtype(BOOL)):
            return number_or_nan(a, b, (one & two).bits(a.dtype))
        one, two = body.let("one", one), body.let("two", two)
        return ((one & two) | ((one | two) & ((1 << (a.dtype.bits - 1)) - 1))).bits(a.dtype)

    def dot(self, value: Dot) -> Value:
        """Sums of products of bytes by those that there are. Two i8 become u8 by i8 by `a = (a ^ 128) - 128`, two
        u8 likewise, so that what is taken off is 128 times a sum of bytes; u8 by i8 become two i8. Where there are
        none, the bytes at even and at odd places are i16, and their products are added in pairs: none saturates."""
        kind, signed = value.type, value.signed
        a, b, c = (Expr(each) for each in (value.a, value.b, value.c))
        if signed == (True, False):
            a, b, signed = b, a, (False, True)
        mixed = self.has("dot_ui", kind)
        if self.has(DOTS[signed], kind):
            return Dot(a.value, b.value, c.value, signed)
        if mixed or (self.has("dot_ii", kind) and signed == (False, True)):
            a, b = (b, a) if signed == (True, True) else (a, b)
            own = (False, True) if mixed else (True, True)
            least = a.constant(LEAST)
            flips_b = signed == (False, False)
            rest = Dot(*((a.value, least.value) if flips_b else (least.value, b.value)), c.constant(0).value, own)
            a, b = (a, b ^ LEAST) if flips_b else (a ^ LEAST, b)
            return Dot(a.value, b.value, (c - Expr(rest)).value, own)
        if not self.has("madd", kind):
            return value
        for odd in (False, True):
            x, y = (_half(each, odd, sign) for each, sign in zip((a, b), signed, strict=True))
            c = c + Expr(Binary(kind, "madd", x.value, y.value))
        return c.value


DOTS = {(True, True): "dot_ii", (False, True): "dot_ui", (False, False): "dot_uu"}
LEAST = -0x7F7F7F80
"""-128, or 128, in each byte of an i32."""

_OF_ANY_SIGN = {"div": "quot", "rem": "rest"}


def _absolute(_: Body, a: Expr) -> Expr:
    return select(a < 0, -a, a)


def _by_comparison(sign: str, _: Body, a: Expr, b: Expr) -> Expr:
    return select(a < b if sign == "<" else a > b, a, b)


def _floor_division(_: Body, a: Expr, b: Expr) -> Expr:
    quotient, rest = (Expr(Binary(a.type, op, a.value, b.value)) for op in ("quot", "rest"))
    return select(rest < 0, quotient - 1, quotient)


def _modulo(_: Body, a: Expr, b: Expr) -> Expr:
    rest = Expr(Binary(a.type, "rest", a.value, b.value))
    return select(rest < 0, rest + b, rest)


def _by_number(op: str, _: Body, a: Expr, b: Expr) -> Expr:
    """By an instruction that prefers a number to a NaN."""
    return number_or_nan(a, b, Expr(Binary(a.type, f"{op}_number", a.value, b.value)))


def _half(a: Expr, odd: bool, signed: bool) -> Expr:
    """The bytes of some i32 at even or odd places as i16."""
    pairs = Type(DTYPES["i16" if signed else "u16"], 2 * a.type.lanes)
    both = Expr(Bitcast(pairs, a.value))
    if odd:
        return both >> 8
    return (both << 8) >> 8 if signed else both & 255


def number_or_nan(a: Expr, b: Expr, number: Expr) -> Expr:
    """A number that follows from two floats, and NaN where one of them is."""
    return select(a.ne(a), a, select(b.ne(b), b, number))


def divided_by_power(value: Binary) -> Value | None:
    """`floordiv` and `mod` by a power of two as a shift and a mask; None for other divisors."""
    kind, left, right = value.type, value.left, value.right
    if not (isinstance(right, Const) and right.value > 0 and int(right.value) & (int(right.value) - 1) == 0):
        return None
    divisor = int(right.value)
    if divisor == 1:
        return left if value.op == "floordiv" else Const(kind, 0)
    if value.op == "mod":
        return Binary(kind, "and", left, Const(kind, divisor - 1))
    return Binary(kind, "shr" if kind.dtype.kind == "u" else "sar", left, Const(kind, divisor.bit_length() - 1))
