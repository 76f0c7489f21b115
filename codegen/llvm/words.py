"""The words of LLVM IR: types, constants, operations."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import copysign, inf

from dojoir.codegen.lir.program import Const, Type
from dojoir.ir.dtypes import DType

FLOATS: Mapping[str, str] = {"f64": "double", "f32": "float", "f16": "half", "bf16": "bfloat"}
SUFFIX: Mapping[str, str] = {"f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16"}


def scalar(dtype: DType) -> str:
    """The type of one value in a register."""
    if dtype.is_float:
        return FLOATS[dtype.name]
    return "i1" if dtype.kind == "b" else f"i{dtype.bits}"


def stored(dtype: DType) -> str:
    """The type of one value in memory."""
    return "i8" if dtype.kind == "b" else scalar(dtype)


def spelled(kind: Type) -> str:
    """The type of a value in a register."""
    return vector(scalar(kind.dtype), kind.lanes)


def vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def mangled(kind: Type) -> str:
    """The type as the names of intrinsics spell it: `v16f32`."""
    name = SUFFIX.get(kind.dtype.name, scalar(kind.dtype))
    return name if kind.lanes == 1 else f"v{kind.lanes}{name}"


def constant(const: Const) -> str:
    """The operand for a constant."""
    return repeated(const.type, number(const.type.dtype, const.value))


def repeated(kind: Type, value: str) -> str:
    """The operand with a number in every lane."""
    return value if kind.lanes == 1 else f"splat ({scalar(kind.dtype)} {value})"


def number(dtype: DType, value: int | float) -> str:
    if dtype.kind == "b":
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype.bits == 16:
        return f"0xH{_bits(value, 'e'):04X}" if dtype.name == "f16" else f"0xR{_bits(value, 'f') >> 16:04X}"
    if dtype.bits == 32:
        value = struct.unpack("<f", struct.pack("<I", _bits(value, "f")))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _bits(value: float, letter: str) -> int:
    """The bits of the nearest f32 or f16, by the letter that `struct` has for it."""
    try:
        packed = struct.pack(f"<{letter}", value)
    except OverflowError:
        packed = struct.pack(f"<{letter}", copysign(inf, value))
    return int.from_bytes(packed, "little")
