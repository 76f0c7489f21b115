"""Operations made of others that an instruction set or a machine has: each way is written here once.

Whoever lowers for a dialect asks what it has, and takes the way from here: the rules of instruction sets, and LLVM.
"""

from __future__ import annotations

from dojoir.codegen.lir.notation import Body, Expr, select
from dojoir.codegen.lir.program import Binary, Const, Value
from dojoir.ir.dtypes import DTYPES


def extreme(op: str, a: Expr, b: Expr, *, majority: bool, masks: bool = False, body: Body | None = None) -> Expr:
    """minimum or maximum (IEEE 754-2019) of two floats. `max_fast` gives its second operand where they are equal or
    one is NaN. Taken both ways, the two results differ only there, and their bits combined are right: or'ed for the
    minimum; for the maximum all but the sign or'ed, and the sign and'ed. That is one operation (`signed_or`) where
    there is a `majority` of bits; with `masks`, NaN is chosen by these."""
    bits = DTYPES[f"u{a.dtype.bits}"]
    one, two = (Expr(Binary(a.type, f"{op}_fast", x.value, y.value)).bits(bits) for x, y in ((a, b), (b, a)))
    if op == "min":
        return (one | two).bits(a.dtype)
    if majority:
        return Expr(Binary(one.type, "signed_or", one.value, two.value)).bits(a.dtype)
    if masks:
        return number_or_nan(a, b, (one & two).bits(a.dtype))
    assert body is not None
    one, two = body.let("one", one), body.let("two", two)
    return ((one & two) | ((one | two) & ((1 << (a.dtype.bits - 1)) - 1))).bits(a.dtype)


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
