"""Narrow floats: from their bits to f32, and from f32 or f64 to their bits, in integer and float arithmetic.

A narrow float is f32 with the low bits of the fraction and the top of the exponent left out. So its bits without
the sign, shifted up to where f32 has them, are an f32 that is too small by a power of two, subnormals included.
The way back is to round the low bits off.
"""

from __future__ import annotations

import struct
from math import ldexp, nan

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.notation import F32, F64, U8, U16, U32, U64, Body, Expr, select
from dojoir.ir.dtypes import DType
from dojoir.types.rounding import FORMATS, FloatFormat


def bits_of(dtype: DType) -> DType:
    """The unsigned integer as wide as a float type; u8 for f4e2m1, which stands in its low 4 bits."""
    return {64: U64, 32: U32, 16: U16}.get(dtype.bits, U8)


def _power_of_two(exponent: int, form: FloatFormat) -> int:
    """The bits of 2**exponent, where that is a normal number."""
    return (exponent - form.lowest + 1) << (form.precision - 1)


def decode(dtype: DType, lanes: int) -> lir.Function:
    """From the bits of a narrow float (`stored`, u16 or u8) to its value in f32; exact."""
    narrow, wide = FORMATS[dtype.name], FORMATS[F32.name]
    up = wide.precision - narrow.precision
    body = Body(lanes)
    bits = body.let("bits", body.param("stored", bits_of(dtype)).convert(U32))
    if narrow.is_scale:  # the bits of f32 but for the first, a subnormal number, and the last
        value = select(bits < 1, bits.constant(1 << (up - 1)), bits << up)
        value = select(bits < narrow.nan_bits, value, wide.nan_bits).bits(F32)
    elif narrow.lowest == wide.lowest:
        value = (bits << up).bits(F32)
    else:
        size = body.let("size", bits & (narrow.sign_bit - 1))
        value = (size << up).bits(F32) * ldexp(1.0, narrow.lowest - wide.lowest)
        match narrow.overflow:
            case "inf":
                value = select(size > narrow.largest_bits, ((size << up) | wide.overflow_bits).bits(F32), value)
            case "nan":
                value = select(size > narrow.largest_bits, value.constant(nan), value)
            case _:
                pass  # every code is a finite number
        sign = (bits & narrow.sign_bit) << (wide.bits - narrow.bits)
        value = (value.bits(U32) | sign).bits(F32)
    return body.function(f"{dtype}_to_{value.type}", value, f"the number whose {dtype} bits are `stored`")


def encode(dtype: DType, source: DType, lanes: int, way: str = "cast") -> lir.Function:
    """From f32 or f64 to the bits of a narrow float (u16 or u8), rounded once, to nearest even; by another `way`,
    also from f64 to those of f32, as `dojoir.types.typed.Convert` says.

    Beyond the largest finite number: inf, in f8e4m3 (which has none) NaN, in f4e2m1 the largest number. Every NaN
    becomes the positive quiet one; in f4e2m1, which has none, -0. In f8e8m0 zero is the smallest one, and what is
    negative NaN.
    """
    if source not in (F32, F64):
        raise ValueError(f"{dtype} is encoded from f32 or f64, not from {source}")
    narrow, wide = FORMATS[dtype.name], FORMATS[source.name]
    down = wide.precision - narrow.precision
    body = Body(lanes)
    x = body.param("x", source)
    bits = body.let("bits", x.bits(bits_of(source)))
    size = body.let("size", bits & (wide.sign_bit - 1))
    name = (
        f"{source}_to_{lir.Type(dtype, lanes)}" if way == "cast" else f"{way}_{source}_to_{lir.Type(dtype, lanes)}"
    )
    comment = f"the {dtype} bits of x" if way == "cast" else f"the {dtype} bits of x by {way}"
    if narrow.is_scale:
        code = _scale(body, x, bits, size, narrow, wide, way)
        return body.function(name, code.convert(bits_of(dtype)), comment)
    match way:
        case "round_away":
            rounded = (size + (1 << (down - 1))) >> down
        case "round_to_zero":
            rounded = size >> down
        case _:
            rounded = (size + ((size >> down) & 1) + ((1 << (down - 1)) - 1)) >> down
    code = body.let("code", rounded - ((narrow.lowest - wide.lowest) << (narrow.precision - 1)))
    if wide.lowest != narrow.lowest:
        # below the normal numbers: adding a number whose last place is the quantum rounds to the quantum
        exponent = narrow.quantum + wide.precision - 1
        if way in ("cast", "sat"):
            counted = (size.bits(source) + ldexp(1.0, exponent)).bits(bits_of(source)) - _power_of_two(
                exponent, wide
            )
        else:
            small = size.bits(source) < ldexp(1.0, narrow.lowest)
            scaled = body.let("scaled", select(small, size.bits(source) * ldexp(1.0, -narrow.quantum), 0.0))
            # to the nearest whole number as above, where a conversion would go one lane after the other
            whole = wide.precision - 1
            nearest = (scaled + ldexp(1.0, whole)).bits(bits_of(source)) - _power_of_two(whole, wide)
            counted = body.let("counted", nearest)
            back = counted.convert(source)
            if way == "round_away":
                counted = select((scaled - back) < 0.5, counted, counted + 1)
            else:
                counted = select(scaled < back, counted - 1, counted)
        code = body.let("any_code", select(size.bits(source) < ldexp(1.0, narrow.lowest), counted, code))
    limit = narrow.largest_bits if way == "sat" else narrow.overflow_bits
    code = select(code < limit, code, limit)
    if way == "round_to_zero":
        most = select(size < wide.overflow_bits, size.constant(narrow.largest_bits), narrow.overflow_bits)
        code = select(code < most, code, most)
    sign = (bits >> (wide.bits - narrow.bits)) & narrow.sign_bit
    nan = narrow.largest_bits if way == "sat" and narrow.overflow == "max" else narrow.nan_bits
    code = select(x.ne(x), nan, code | sign)
    return body.function(name, code.convert(bits_of(dtype)), comment)


def _scale(body: Body, x: Expr, bits: Expr, size: Expr, narrow: FloatFormat, wide: FloatFormat, way: str) -> Expr:
    """The exponent of what is not negative, counted from that of the smallest number, in integers. The half between
    two carries into the exponent of a normal number. What is below the first such is told by its bits."""
    fraction, apart = wide.precision - 1, narrow.lowest - wide.lowest + 1
    half = 0 if way == "round_to_zero" else 1 << (fraction - 1)
    first = ldexp(1.0 if way == "round_to_zero" else 0.75, narrow.lowest + 1)
    counted = ((size + half) >> fraction) - apart
    code = body.let("code", select(size < _bits(first, x.dtype), 0, counted))
    limit = narrow.largest_bits if way == "sat" else narrow.overflow_bits
    if way == "round_to_zero":
        limit = narrow.largest_bits
        code = body.let("finite", select(size < wide.overflow_bits, select(code < limit, code, limit), limit + 1))
    else:
        code = body.let("within", select(code < limit, code, limit))
    code = select(bits > wide.sign_bit, narrow.nan_bits, code)
    return select(size > wide.overflow_bits, narrow.nan_bits, code)


def _bits(value: float, dtype: DType) -> int:
    """The bits of a number of f32 or f64."""
    kind = "fI" if dtype == F32 else "dQ"
    return int(struct.unpack(kind[1], struct.pack(kind[0], value))[0])
