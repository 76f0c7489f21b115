"""How C spells scalar types, numbers and operations: a table, from which those of GPUs and of instruction sets
derive; the printers of values and statements ask nothing else."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping
from fractions import Fraction

from dojoir.codegen.c.dialect import Dialect, rows
from dojoir.codegen.c.precedence import MULTIPLY, SUBTRACT, Form, Infix, Precedence, Text
from dojoir.codegen.c.prelude import C_TYPES
from dojoir.codegen.lir.program import Type
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.support.frozen import dataclass

U64 = DTYPES["u64"]


def _scalar(type: Type) -> DType:
    """The element type of a scalar that C can compute with."""
    assert type.lanes == 1, f"portable C has no vectors, here {type}: the lowering must keep its loops scalar"
    assert type.dtype.name in C_TYPES, f"portable C computes nothing in {type.dtype}: the lowering must expand it"
    return type.dtype


def _words_of_c(type: Type) -> Mapping[str, str]:
    """t: the type in names of functions; type, plain: in C; f: the end of names in its library; lib: their
    beginning."""
    dtype = _scalar(type)
    own = C_TYPES[dtype.name]
    return {"t": dtype.name, "type": own, "plain": own, "f": "f" if dtype.bits == 32 else "", "lib": ""}


_C = """
neg       float u32 u64              -a
neg       int                        neg_<t>(a)
neg_by_bits  float                   neg_<t>(a)
abs       unsigned                   a
abs       signed                     abs_<t>(a)
abs       float                      <lib>fabs<f>(a)
sqrt      float                      <lib>sqrt<f>(a)
floor     float                      <lib>floor<f>(a)
ceil      float                      <lib>ceil<f>(a)
round     float                      <lib>rint<f>(a)
fma       float                      <lib>fma<f>(a, b, c)
add       float u32 u64              a + b
sub       float u32 u64              a - b
mul       float u32 u64              a * b
add       int                        add_<t>(a, b)
sub       int                        sub_<t>(a, b)
mul       int                        mul_<t>(a, b)
div       number                     a / b
rem       int                        a % b
floordiv  unsigned                   a / b
mod       unsigned                   a % b
floordiv  signed                     floordiv_<t>(a, b)
mod       signed                     mod_<t>(a, b)
max       number                     max_<t>(a, b)
min       number                     min_<t>(a, b)
max_fast  float                      larger_<t>(a, b)
min_fast  float                      smaller_<t>(a, b)
max_fast  int                        max_<t>(a, b)
min_fast  int                        min_<t>(a, b)
not       bool                       !a
and       bool                       a && b
or        bool                       a || b
xor       bool                       a != b
# ~ gives an int, whose bits beyond the type's own have to go again
not       u8 u16                     (<plain>)~a
not       int                        ~a
and       int                        a & b
or        int                        a | b
xor       int                        a ^ b
shl       u32 u64                    a << b
shl       int                        shl_<t>(a, b)
shr       unsigned                   a >> b
shr       signed                     shr_<t>(a, b)
sar       signed                     a >> b
sar       unsigned                   sar_<t>(a, b)
eq        number bool                a == b
ne        number bool                a != b
lt        number bool                a < b
le        number bool                a <= b
gt        number bool                a > b
ge        number bool                a >= b
select    number bool                a ? b : c
convert   int<float                  <t>_from_<from_t>(a)
convert   number<number number<bool  (<type>)a
bitcast   int<int                    (<plain>)a
bitcast   number<number              <from_t>_as_<t>(a)
"""

C = Dialect("portable C", _words_of_c, tuple(rows(_C)), None)
"""Scalars of C11."""

BITWISE = tuple(C.form(op, Type(U64)) for op in ("and", "or", "xor"))
_POSITION_SUM = Infix("+", Precedence.ADD, Precedence.MULTIPLY, "both")


@dataclass(frozen=True)
class Spelling:
    """The words of a dialect of C."""

    dialect: Dialect = C

    def type(self, type: Type) -> str:
        """The name of the type of a variable."""
        return self.dialect.type_name(type)

    def element(self, dtype: DType) -> str:
        """The name of the type of a buffer's element. A bool is a byte there: one that is neither 0 nor 1 is
        true."""
        return "uint8_t" if dtype.kind == "b" else C_TYPES[dtype.name]

    def const(self, type: Type, value: int | float | bool) -> Text:
        """A number, exactly."""
        dtype = _scalar(type)
        if dtype.kind == "b":
            return Text("true" if value else "false")
        return float_text(dtype, float(value)) if dtype.is_float else integer_text(dtype, int(value))

    def form(self, op: str, type: Type, source: Type | None = None) -> Form:
        """The form of an operation on data: integers wrap around."""
        return self.dialect.form(op, type, source)

    def position(self, op: str, nonnegative: bool) -> Form | None:
        """The form of an i64 operation that counts elements, which cannot overflow; None where it is that of data.
        `nonnegative`: both operands are."""
        if op in ("floordiv", "mod"):
            return C.form(op, Type(U64)) if nonnegative else None
        return {"add": _POSITION_SUM, "sub": SUBTRACT, "mul": MULTIPLY}.get(op)


def integer_text(dtype: DType, value: int) -> Text:
    """An integer as C reads it, with a U where the type is unsigned and at least an int."""
    if dtype.kind == "i" and value == -(2 ** (dtype.bits - 1)):
        return Text(f"INT{dtype.bits}_MIN")
    suffix = "U" if dtype.kind == "u" and dtype.bits >= 32 else ""
    digits = hex(value) if dtype.kind == "u" and value >= 2**16 else str(value)
    return Text(digits + suffix, Precedence.UNARY if value < 0 else Precedence.PRIMARY, literal=dtype.bits == 64)


def mask_text(dtype: DType, value: int) -> Text:
    """An integer that stands for its bits."""
    if value < 10 or dtype.kind == "i":
        return integer_text(dtype, value)
    suffix = "U" if dtype.bits >= 32 else ""
    return Text(hex(value) + suffix, literal=dtype.bits == 64)


def float_text(dtype: DType, value: float) -> Text:
    """The shortest decimal that C reads as exactly this number of the type."""
    if math.isnan(value):
        return Text("NAN")
    suffix = "f" if dtype.bits == 32 else ""
    if dtype.bits == 32:
        value = ctypes.c_float(value).value
    if math.isinf(value):
        return Text("INFINITY") if value > 0 else Text("-INFINITY", Precedence.UNARY)
    digits = shortest_f32(value) if dtype.bits == 32 else repr(value)
    digits = digits.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return Text(digits + suffix, Precedence.UNARY if digits.startswith("-") else Precedence.PRIMARY)


def shortest_f32(value: float) -> str:
    """The shortest decimal whose nearest f32 is `value`, which is one."""
    if value == 0.0:
        return repr(value)
    bits: int = struct.unpack("<I", struct.pack("<f", abs(value)))[0]
    below: float = struct.unpack("<f", struct.pack("<I", bits - 1))[0]
    gap = Fraction(abs(value)) - Fraction(below)  # the one above is at least as far
    for precision in range(1, 10):
        digits = f"{value:.{precision}g}"
        if 2 * abs(Fraction(digits) - Fraction(value)) < gap:
            return repr(float(digits))
    return value.hex()
