"""Pairs of a value and a place as one integer, the *key*, that orders as the pair does.

The upper 32 bits of a key are a code of the value, an i32 that orders as the values do. Of floats by their bits,
of which those of a negative one are turned around, so that -0 and +0 have one code, 0. The lower half is the place,
such that of equal values the smaller place wins. The complement in a key of `max=`, the place itself in one of
`min=`, either moved from i32 to what has no sign. NaN is above all numbers in the one and below all in the other.
So `max=` or `min=` of keys, which no order of accumulation changes, is argmax or argmin. All of it is integer
operations that each target has.
"""

from __future__ import annotations

from dojoir.ir.dtypes import BOOL, DTYPES, F32, I64, DType
from dojoir.types.typed import Apply, Convert, Number, Typed, convert

I32, U32 = DTYPES["i32"], DTYPES["u32"]
LEAST = -(1 << 31)
"""The least number of an i32."""


def has_code(dtype: DType) -> bool:
    """Whether the values of a type may be those of a pair."""
    return dtype.bits <= 32 and dtype.kind != "b"


def is_place(dtype: DType) -> bool:
    """Whether all numbers of a type are those of i32."""
    return dtype.is_integer and (dtype.bits < 32 or dtype == I32)


def key_of(name: str, value: Typed, place: Typed) -> Typed:
    """`argmax_key(value, place)` or `argmin_key(value, place)`: an i64."""
    largest = name == "argmax_key"
    upper: Typed = Apply(I64, "shl", (_code(value, largest), Number(I64, 32)))
    return Apply(I64, "add", (upper, _lower(convert(I64, place), largest)))


def _lower(place: Typed, largest: bool) -> Typed:
    """The lower half of a key, from 0 to 2^32 - 1."""
    match place:
        case Number(dtype, int() as number):
            return Number(dtype, -LEAST - 1 - number if largest else number - LEAST)
        case _ if largest:
            return Apply(I64, "sub", (Number(I64, -LEAST - 1), place))
        case _:
            return Apply(I64, "add", (place, Number(I64, -LEAST)))


def _code(value: Typed, largest: bool) -> Typed:
    """The code of a value, as an i64."""
    if not value.dtype.is_float:
        whole = convert(I64, convert(value.dtype.compute, value))
        return Apply(I64, "add", (whole, Number(I64, LEAST))) if value.dtype == U32 else whole
    number = convert(F32, value)
    if not largest:
        number = Apply(F32, "neg", (number,))
    bits = convert(I32, Convert(U32, number, "bitcast"))  # those of a NaN are above all others
    negative: Typed = Apply(BOOL, "lt", (bits, Number(I32, 0)))
    if largest:
        turned: tuple[Typed, Typed] = (Apply(I32, "sub", (Number(I32, LEAST), bits)), bits)
    else:
        turned = (Apply(I32, "sub", (bits, Number(I32, LEAST))), Apply(I32, "neg", (bits,)))
    return convert(I64, Apply(I32, "select", (negative, *turned)))


def part_of(way: str, dtype: DType, key: Typed) -> Typed:
    """`value_of(dtype, key)`, `argmax_of(dtype, key)` or `argmin_of(dtype, key)`."""
    lower: Typed = Apply(I64, "bitand", (key, Number(I64, (1 << 32) - 1)))
    match way:
        case "argmax_of":
            return convert(dtype, Apply(I64, "sub", (Number(I64, -LEAST - 1), lower)))
        case "argmin_of":
            return convert(dtype, Apply(I64, "add", (lower, Number(I64, LEAST))))
    upper: Typed = Apply(I64, "shr", (key, Number(I64, 32)))
    if not dtype.is_float:
        return convert(dtype, Apply(I64, "sub", (upper, Number(I64, LEAST))) if dtype == U32 else upper)
    code = convert(I32, upper)
    negative: Typed = Apply(BOOL, "lt", (code, Number(I32, 0)))
    bits: Typed = Apply(I32, "select", (negative, Apply(I32, "sub", (Number(I32, LEAST), code)), code))
    return convert(dtype, Convert(F32, convert(U32, bits), "bitcast"))
