"""The words of the language, a sentence each."""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.ir.dtypes import DTYPES

KEYWORDS: Mapping[str, str] = {
    "kernel": "The name of the kernel, and its runtime sizes.",
    "where": "Facts about the sizes, such as `M % 16 == 0`. A call that breaks one is an error.",
    "fp": "How rewrites may change floating-point results: `strict`, `reassoc` (the default) or `fast`.",
    "in": "An argument that is read only.",
    "out": "An argument that is written: every element of it has to be.",
    "inout": "An argument that is read and written.",
    "tmp": "A temporary buffer; it is no argument.",
    "if": "A guard: what is under it, or before it on its line, runs only where the condition holds.",
    "and": "Both conditions hold.",
    "or": "One of the conditions holds, or both.",
    "not": "The condition does not hold.",
    "strict": "`fp strict`: rewrites change no floating-point result.",
    "reassoc": "`fp reassoc`: rewrites may reorder accumulations.",
    "fast": "`fp fast`: rewrites may reorder accumulations and use algebra.",
}

ATTRIBUTES: Mapping[str, str] = {
    "heap": "Storage: memory that is allocated; the default of a temporary.",
    "stack": "Storage: the stack of the function.",
    "reg": "Storage: registers.",
    "shared": "Storage: memory that the threads of a GPU block share.",
    "order": "The dimensions from outermost to innermost in memory, such as `order(1, 0)`.",
    "pad": "Elements of storage added to each dimension, such as `pad(0, 8)`.",
    "swizzle": "Chunks of 16 bytes in shared memory are exchanged, in rows of 128 bytes: `swizzle(128)`.",
    "align": "The alignment of the storage in bytes, such as `align 64`.",
    "stream": "Stores bypass the caches; with a number, only where the buffer has so many bytes or more.",
    "strided": "The call gives the strides of all dimensions but the innermost.",
    "flat": "So many dimensions are one in the array of the call.",
    "packed": "Two elements of four bits in a byte.",
    "distinct": "No two elements of this `in` of integers are equal; each call checks it.",
    "lengths": "`lengths(M)`: each element of this `in` is from 0 to M; each call checks it.",
    "offsets": "`offsets(M)`: each element of this `in` is 0 to M above the one before; each call checks it.",
}

FUNCTIONS: Mapping[str, str] = {
    "abs": "`abs(x)`: the absolute value.",
    "min": "`min(a, b)`: the smaller value; NaN wins.",
    "max": "`max(a, b)`: the larger value; NaN wins.",
    "select": "`select(c, a, b)`: `a` where `c` holds, else `b`.",
    "fma": "`fma(a, b, c)`: `a * b + c`, rounded once.",
    "pow": "`pow(a, b)`: `a` to the power of `b`.",
    "exp": "`exp(x)`: e to the power of `x`.",
    "exp2": "`exp2(x)`: 2 to the power of `x`.",
    "expm1": "`expm1(x)`: `exp(x) - 1`, accurate near 0.",
    "log": "`log(x)`: the natural logarithm.",
    "log2": "`log2(x)`: the logarithm to base 2.",
    "log10": "`log10(x)`: the logarithm to base 10.",
    "log1p": "`log1p(x)`: `log(1 + x)`, accurate near 0.",
    "sqrt": "`sqrt(x)`: the square root, rounded once.",
    "rsqrt": "`rsqrt(x)`: 1 divided by the square root.",
    "tanh": "`tanh(x)`: the hyperbolic tangent.",
    "erf": "`erf(x)`: the error function.",
    "erfc": "`erfc(x)`: `1 - erf(x)`, accurate where that is small.",
    "sigmoid": "`sigmoid(x)`: `1 / (1 + exp(-x))`.",
    "sin": "`sin(x)`: the sine.",
    "cos": "`cos(x)`: the cosine.",
    "tan": "`tan(x)`: the tangent.",
    "atan": "`atan(x)`: the arc tangent.",
    "asin": "`asin(x)`: the arc sine; NaN beyond ±1.",
    "acos": "`acos(x)`: the arc cosine; NaN beyond ±1.",
    "atan2": "`atan2(y, x)`: the angle of the point (x, y), from -π to π.",
    "sinh": "`sinh(x)`: the hyperbolic sine.",
    "cosh": "`cosh(x)`: the hyperbolic cosine.",
    "asinh": "`asinh(x)`: the inverse of `sinh`.",
    "acosh": "`acosh(x)`: the inverse of `cosh`; NaN below 1.",
    "atanh": "`atanh(x)`: the inverse of `tanh`; NaN beyond ±1.",
    "hypot": "`hypot(x, y)`: the square root of `x*x + y*y`, which overflows only where the result does.",
    "copysign": "`copysign(x, y)`: `x` with the sign of `y`, of a zero and a NaN too.",
    "fmod": "`fmod(x, y)`: what is left of a division rounded towards 0, exactly; of the sign of `x`.",
    "floor_mod": "`floor_mod(x, y)`: what is left of a division rounded down; of the sign of `y`.",
    "floor_div": "`floor_div(x, y)`: the quotient of floats, rounded down.",
    "floor": "`floor(x)`: the largest whole number that is not above `x`.",
    "ceil": "`ceil(x)`: the smallest whole number that is not below `x`.",
    "round": "`round(x)`: the nearest whole number; ties go to the even one.",
    "sat": "`sat(T, x)`: converts to `T`; what is out of its range becomes the largest or smallest value.",
    "round_away": "`round_away(T, x)`: converts to `T`; ties go away from 0.",
    "round_to_zero": "`round_to_zero(T, x)`: converts to `T`, rounded toward 0.",
    "bitcast": "`bitcast(T, x)`: the same bits as another type.",
    "argmax_key": "`argmax_key(v, p)`: a key of a value and its place; the largest key has the largest value.",
    "argmin_key": "`argmin_key(v, p)`: a key of a value and its place, for the smallest value.",
    "value_of": "`value_of(T, key)`: the value in a key of `argmax_key` or `argmin_key`.",
    "argmax_of": "`argmax_of(T, key)`: the place in a key of `argmax_key`.",
    "argmin_of": "`argmin_of(T, key)`: the place in a key of `argmin_key`.",
}


def of_type(word: str) -> str | None:
    """The explanation of a type of elements; None for another word."""
    dtype = DTYPES.get(word)
    if dtype is None:
        return None
    kind = {"f": "floating point", "i": "signed integer", "u": "unsigned integer", "b": "true or false"}[dtype.kind]
    bits = "" if dtype.kind == "b" else f", {dtype.bits} bits"
    computed = "" if dtype.compute.name == dtype.name else f"; arithmetic on it is done in {dtype.compute}"
    return f"Type: {kind}{bits}{computed}."
