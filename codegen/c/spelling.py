"""How C spells scalar types, numbers and operations: a form for each, and no decisions.

A target with vector types derives from `Spelling`, answers for the types of more than one lane, and leaves the
scalars to it; the printers of values and statements ask nothing else.
"""

from __future__ import annotations

import ctypes
import math
import struct
from fractions import Fraction

from dojoir.codegen.c.precedence import (
    ADD,
    AND,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    COMPARE,
    DIVIDE,
    MULTIPLY,
    OR,
    REMAINDER,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    SUBTRACT,
    Apply,
    Form,
    Infix,
    Level,
    Prefix,
    Ternary,
    Text,
)
from dojoir.codegen.c.prelude import C_TYPES
from dojoir.codegen.lir.program import Type
from dojoir.ir.dtypes import DType

_ARITHMETIC = {"add": ADD, "sub": SUBTRACT, "mul": MULTIPLY, "div": DIVIDE}
_LOGICAL = {"and": AND, "or": OR, "xor": COMPARE["ne"]}
_BITWISE = {"and": BIT_AND, "or": BIT_OR, "xor": BIT_XOR}
BITWISE = tuple(_BITWISE.values())
_FLOOR_DIVISION = {"floordiv": DIVIDE, "mod": REMAINDER}
_DIVISION = {"div": DIVIDE, "rem": REMAINDER}
_FLOAT_CALLS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "rint", "abs": "fabs"}
_FASTER = {"max_fast": "larger", "min_fast": "smaller"}
_POSITION_SUM = Infix("+", Level.ADD, Level.MULTIPLY, "both")


class Spelling:
    """The words of portable C11. Methods on operations give the form that its operands go into."""

    def type(self, type: Type) -> str:
        """The C name of the type of a variable."""
        return C_TYPES[scalar(type).name]

    def element(self, dtype: DType) -> str:
        """The C name of the type of a buffer's element. A bool is a byte there: one that is neither 0 nor 1 is
        true."""
        return "uint8_t" if dtype.kind == "b" else C_TYPES[dtype.name]

    def const(self, type: Type, value: int | float | bool) -> Text:
        """A number, exactly."""
        dtype = scalar(type)
        if dtype.kind == "b":
            return Text("true" if value else "false")
        return float_text(dtype, float(value)) if dtype.is_float else integer_text(dtype, int(value))

    def unary(self, op: str, type: Type) -> Form:
        dtype = scalar(type)
        match op:
            case "not":
                return Prefix("!") if dtype.kind == "b" else self._complement(dtype)
            case "neg" if dtype.is_float or dtype.name in ("u32", "u64"):
                return Prefix("-")
            case "neg_by_bits":
                return Apply(f"neg_{dtype}")
            case "abs" if dtype.kind == "u":
                return Prefix("")
            case "neg" | "abs" if dtype.is_integer:
                return Apply(f"{op}_{dtype}")
            case _:
                return self._library(_FLOAT_CALLS[op], dtype)

    def binary(self, op: str, type: Type) -> Form:
        """The form of an operation on data: integers wrap around."""
        dtype = scalar(type)
        if dtype.kind == "b":
            return _LOGICAL[op]
        if op in _FASTER:
            return Apply(f"{_FASTER[op] if dtype.is_float else op.removesuffix('_fast')}_{dtype}")
        if op in ("min", "max"):
            return Apply(f"{op}_{dtype}")
        if dtype.is_float:
            return _ARITHMETIC[op]
        if op in _BITWISE:
            return _BITWISE[op]
        word = dtype.bits >= 32
        match op:
            case "div" | "rem":
                return _DIVISION[op]
            case "floordiv" | "mod" if dtype.kind == "u":
                return _FLOOR_DIVISION[op]
            case "add" | "sub" | "mul" if dtype.kind == "u" and word:
                return _ARITHMETIC[op]
            case "shl" if dtype.kind == "u" and word:
                return SHIFT_LEFT
            case "shr" if dtype.kind == "u":
                return SHIFT_RIGHT
            case "sar" if dtype.kind == "i":
                return SHIFT_RIGHT
        return Apply(f"{op}_{dtype}")

    def position(self, op: str, nonnegative: bool) -> Form | None:
        """The form of an i64 operation that counts elements, which cannot overflow; None where it is that of data.
        `nonnegative`: both operands are."""
        if op == "add":
            return _POSITION_SUM
        if op in ("sub", "mul"):
            return _ARITHMETIC[op]
        return _FLOOR_DIVISION[op] if op in _FLOOR_DIVISION and nonnegative else None

    def compare(self, op: str, type: Type) -> Form:
        scalar(type)
        return COMPARE[op]

    def select(self, type: Type) -> Form:
        scalar(type)
        return Ternary()

    def fma(self, type: Type) -> Form:
        return self._library("fma", scalar(type))

    def convert(self, to: Type, source: Type) -> Form:
        """The form of a conversion to another type, not to bool."""
        target, given = scalar(to), scalar(source)
        if target.is_integer and given.is_float:
            return Apply(f"{target}_from_{given}")
        return Prefix(f"({C_TYPES[target.name]})")

    def bitcast(self, to: Type, source: Type) -> Form:
        target, given = scalar(to), scalar(source)
        assert target.bits == given.bits, f"a bitcast from {given} to {target}"
        if target.is_integer and given.is_integer:
            return Prefix(f"({C_TYPES[target.name]})")
        return Apply(f"{given}_as_{target}")

    def _complement(self, dtype: DType) -> Form:
        # ~ gives an int, whose bits beyond the type's own have to go again.
        return Prefix(f"({C_TYPES[dtype.name]})~") if dtype.name in ("u8", "u16") else Prefix("~")

    def _library(self, name: str, dtype: DType) -> Form:
        assert dtype.is_float, f"{name} of {dtype}"
        return Apply(f"{name}f" if dtype.bits == 32 else name)


def scalar(type: Type) -> DType:
    """The element type of a scalar that C can compute with."""
    assert type.lanes == 1, f"portable C has no vectors, here {type}: the lowering must keep its loops scalar"
    assert type.dtype.name in C_TYPES, f"portable C computes nothing in {type.dtype}: the lowering must expand it"
    return type.dtype


def integer_text(dtype: DType, value: int) -> Text:
    """An integer as C reads it, with a U where the type is unsigned and at least an int."""
    if dtype.kind == "i" and value == -(2 ** (dtype.bits - 1)):
        return Text(f"INT{dtype.bits}_MIN")
    suffix = "U" if dtype.kind == "u" and dtype.bits >= 32 else ""
    digits = hex(value) if dtype.kind == "u" and value >= 2**16 else str(value)
    return Text(digits + suffix, Level.UNARY if value < 0 else Level.PRIMARY, literal=dtype.bits == 64)


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
        return Text("INFINITY") if value > 0 else Text("-INFINITY", Level.UNARY)
    digits = shortest_f32(value) if dtype.bits == 32 else repr(value)
    digits = digits.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return Text(digits + suffix, Level.UNARY if digits.startswith("-") else Level.PRIMARY)


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
