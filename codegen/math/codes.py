"""The bits of floats as integers, and back; floats kept in the range of their type, or rounded to integers."""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.notation import F32, F64, Body, select
from dojoir.codegen.math.narrow_floats import bits_of
from dojoir.ir.dtypes import DType
from dojoir.types.rounding import FORMATS


def code_of(dtype: DType, lanes: int) -> lir.Function:
    """From a float (a narrow one by its bits) to its bits, those of the quiet positive NaN for every NaN."""
    form, body, kind = FORMATS[dtype.name], Body(lanes), lir.Type(dtype, lanes)
    if dtype in (F32, F64):
        x = body.param("x", dtype)
        code = select(x.ne(x), form.nan_bits, x.bits(bits_of(dtype)))
    else:
        x = body.param("stored", bits_of(dtype))
        largest = form.largest_bits + (form.overflow == "inf")
        if form.is_scale:
            code = x | 0
        else:
            code = x & 0xF if dtype.bits == 4 else select((x & (form.sign_bit - 1)) > largest, form.nan_bits, x)
    return body.function(f"code_of_{kind}", code, f"the bits of a {dtype}, those of the quiet NaN for every NaN")


def coded(dtype: DType, lanes: int) -> lir.Function:
    """From bits to the float that has them (a narrow one is held as those)."""
    body = Body(lanes)
    code = body.param("code", bits_of(dtype))
    value = code.bits(dtype) if dtype in (F32, F64) else code & 0xF if dtype.bits == 4 else code | 0
    return body.function(f"coded_{lir.Type(dtype, lanes)}", value, f"the {dtype} of these bits")


def in_range(dtype: DType, lanes: int) -> lir.Function:
    """The nearest finite number of f32 or f64; NaN stays."""
    largest, body = FORMATS[dtype.name].largest, Body(lanes)
    x = body.param("x", dtype)
    low = body.let("low", select(x > largest, largest, x))
    value = select(low < -largest, -largest, low)
    return body.function(f"in_range_{lir.Type(dtype, lanes)}", value, "x, or the largest finite number of its sign")


def away(dtype: DType, lanes: int) -> lir.Function:
    """f32 or f64 rounded to integers, ties away from 0."""
    body = Body(lanes)
    x = body.param("x", dtype)
    size = body.let("size", x.abs())
    whole = body.let("whole", size.floor())
    up = body.let("up", select((size - whole) < 0.5, whole, whole + 1.0))
    value = select(size.eq(whole), x, select(x < 0.0, -up, up))
    return body.function(f"away_{lir.Type(dtype, lanes)}", value, "x rounded to an integer, ties away from 0")
