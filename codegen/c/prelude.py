"""The helper functions that a printed program calls: whatever C itself leaves undefined or has no word for.

A helper is known by its name, such as `max_f32`, and its text is made from the types in the name. `prelude` puts
before a program just those that its text calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dojoir.ir.dtypes import DTYPES, DType
from dojoir.support.frozen import dataclass

C_TYPES = {
    "f64": "double", "f32": "float",
    "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t",
    "bool": "bool",
}  # fmt: skip
"""The C name of each type that a value may have."""


@dataclass(frozen=True)
class _Signature:
    """A helper's name taken apart: `max_f32` is operation `max` on f32, `i32_from_f32` is `from`, with `source`."""

    operation: str
    dtype: DType
    source: DType


def prelude(code: str) -> str:
    """The helpers that `code` calls, and those that they call, each before its first use; then the reductions that
    its pragmas name."""
    called = [name for name in dict.fromkeys(words(code)) if _definition(name)]
    done: dict[str, str] = {}
    for name in called:
        _define(name, done)
    reductions = dict.fromkeys(re.findall(r"reduction\((\w+_\w+) :", code))
    return "\n".join([*done.values(), *map(_declare_reduction, reductions)])


def headers(code: str) -> Iterator[str]:
    """The standard headers that `code` needs, in order."""
    used = frozenset(words(code))
    found = [header for header, wanted in _HEADERS.items() if any(re.fullmatch(wanted, word) for word in used)]
    if "size_t" in used and not {"stdlib.h", "string.h"} & {*found}:  # which declare it as well
        found = sorted([*found, "stddef.h"])
    yield from found


_HEADERS = {
    "math.h": r"NAN|INFINITY|(sqrt|floor|ceil|rint|fabs|fma)f?",
    "stdbool.h": r"bool|true|false",
    "stdint.h": r"u?int(\d+|ptr)_t",
    "stdlib.h": r"free|aligned_alloc|NULL",
    "string.h": r"memcpy",
}


def words(code: str) -> Iterator[str]:
    """The identifiers and keywords in `code`, its comments aside."""
    for line in code.splitlines():
        yield from re.findall(r"[A-Za-z_]\w*", line.partition("//")[0])


def _define(name: str, done: dict[str, str]) -> None:
    text = _definition(name)
    if text and name not in done:
        for word in words(text):
            if word != name:
                _define(word, done)
        done[name] = text


def _definition(name: str) -> str:
    """The text of helper `name`; nothing if there is no such helper."""
    if name in _OTHERS:
        return _OTHERS[name]
    signature = _signature(name)
    if signature is None:
        return ""
    body = _body(signature)
    if body is None:
        return ""
    remark, params, statements = body
    result = C_TYPES[signature.dtype.name]
    lines = "".join(f"    {line}\n" for line in statements)
    return f"// {remark}\nstatic inline {result} {name}({params})\n{{\n{lines}}}\n"


def _signature(name: str) -> _Signature | None:
    if match := re.fullmatch(r"([fiu]\d+)_(from|as)_([fiu]\d+)", name):
        source, operation, dtype = match[1], match[2], match[3]
        if operation == "from":
            source, dtype = dtype, source
        if source in C_TYPES and dtype in C_TYPES:
            return _Signature(operation, DTYPES[dtype], DTYPES[source])
    elif (match := re.fullmatch(r"([a-z]+)_([fiu]\d+)", name)) and match[2] in C_TYPES:
        return _Signature(match[1], DTYPES[match[2]], DTYPES[match[2]])
    return None


_BODIES = """
add      int       a + b, wrapping around  return ({own})(({wide})a + ({wide})b);
sub      int       a - b, wrapping around  return ({own})(({wide})a - ({wide})b);
mul      int       a * b, wrapping around  return ({own})(({wide})a * ({wide})b);
neg      int       -a, wrapping around  return ({own})(0 - ({wide})a);
neg      float     {negated}  return u{bits}_as_{t}({t}_as_u{bits}(a) ^ ({unsigned})1 << {last});
abs      signed    |a|, wrapping around  return a < 0 ? ({own})(0 - ({wide})a) : a;
shl      int       a shifted left by b < width bits  return ({own})(({wide})a << b);
shr      signed    a shifted right by b < width bits, zeros coming in.  return ({own})(({unsigned})a >> b);
sar      unsigned  a shifted right by b < width bits, its sign coming in.  return ({own})((int{bits}_t)a >> b);
floordiv signed    a / b for b > 0, rounded down  return a / b - (a % b < 0);
mod      signed    a modulo b for b > 0, at least 0  return a % b < 0 ? a % b + b : a % b;
max      int       the larger one  return a > b ? a : b;
min      int       the smaller one  return a < b ? a : b;
max      float     the larger one, {ieee}  return a > b ? a : b > a ? b : a == b && a != 0 ? a : a + b;
min      float     the smaller one, {ieee}  return a < b ? a : b < a ? b : a == b && a != 0 ? a : -(-a - b);
larger   float     the larger one, b where either is NaN  return a > b ? a : b;
smaller  float     the smaller one, b where either is NaN  return a < b ? a : b;
"""
"""Helpers by operation and types: the comment, and what they give. Extremes of floats tell zeros of both signs
apart by their sum, last: a scalar rarely comes so far."""

_KINDS = {"int": "iu", "signed": "i", "unsigned": "u", "float": "f"}
_LINES = [re.split(r"\s+", line, maxsplit=2) for line in _BODIES.splitlines() if line]
_TEXTS = {(op, kind): rest.split("  ") for op, types, rest in _LINES for kind in _KINDS[types]}


def _body(helper: _Signature) -> tuple[str, str, list[str]] | None:
    """The comment of a helper, its parameters, its statements."""
    dtype, op = helper.dtype, helper.operation
    own, source = C_TYPES[dtype.name], C_TYPES[helper.source.name]
    if op == "from" and dtype.is_integer and helper.source.is_float:
        return _from_float(dtype, helper.source)
    if op == "as" and dtype.bits == helper.source.bits:
        lines = [f"{own} bits;", "memcpy(&bits, &a, sizeof bits);", "return bits;"]
        return f"the bits of a as {own}", f"{source} a", lines
    if (op, dtype.kind) not in _TEXTS:
        return None
    remark, line = (
        text.format(
            own=own, t=dtype, bits=dtype.bits, last=dtype.bits - 1, wide=f"uint{max(dtype.bits, 32)}_t",
            unsigned=f"uint{dtype.bits}_t", ieee="NaN if either is; -0 is below +0",
            negated="-a by its sign bit: GCC takes -fma(a, b, c) for fma(-a, b, -c), which is another zero",
        )
        for text in _TEXTS[op, dtype.kind]
    )  # fmt: skip
    return remark, f"{own} a" if op in ("neg", "abs") else f"{own} a, {own} b", [line]


def _from_float(dtype: DType, source: DType) -> tuple[str, str, list[str]]:
    """Truncation that saturates. Both bounds are exact in the source type, so nothing out of range is cast."""
    own, suffix = C_TYPES[dtype.name], "f" if source.bits == 32 else ""
    limits = f"{'U' if dtype.kind == 'u' else ''}INT{dtype.bits}"
    if dtype.kind == "u":
        above, fits, otherwise = f"0x1p{dtype.bits}{suffix}", f"a > -1.0{suffix}", "0"
    else:
        above, otherwise = f"0x1p{dtype.bits - 1}{suffix}", f"a != a ? 0 : {limits}_MIN"
        below_is_exact = dtype.bits < (24 if source.bits == 32 else 53)
        fits = f"a > -{above} - 1.0{suffix}" if below_is_exact else f"a >= -{above}"
    lines = [
        f"if (a >= {above})",
        f"    return {limits}_MAX;",
        f"if ({fits})",
        f"    return ({own})a;",
        f"return {otherwise};",
    ]
    return "a truncated, the nearest number where it does not fit, 0 for NaN", f"{C_TYPES[source.name]} a", lines


def _declare_reduction(name: str) -> str:
    signature = _signature(name)
    assert signature is not None
    dtype = signature.dtype
    limits = f"{'U' if dtype.kind == 'u' else ''}INT{dtype.bits}"
    lowest, highest = ("-INFINITY", "INFINITY") if dtype.is_float else (f"{limits}_MIN", f"{limits}_MAX")
    if dtype.kind == "u":
        lowest = "0"
    start = {"add": "0", "mul": "1", "max": lowest, "larger": lowest, "min": highest, "smaller": highest}
    return (
        f"#pragma omp declare reduction({name} : {C_TYPES[dtype.name]} : omp_out = {name}(omp_out, omp_in)) \\\n"
        f"    initializer(omp_priv = {start[signature.operation]})\n"
    )


_OTHERS = {
    "allocate": """\
// memory for so many elements of a size, to be freed with free(), or NULL
static inline void *allocate(int64_t elements, size_t size, size_t align)
{
    size_t count = elements > 0 ? (size_t)elements : 1;
    if (count > (SIZE_MAX / 2 - align) / size)
        return NULL;
    return aligned_alloc(align, (count * size + align - 1) / align * align);
}
""",
    **{
        f"prefetch_{word}": f"""\
// asks the caches for the element of array at offset, to be {past}; it may lie outside of the array
static inline void prefetch_{word}(const void *array, size_t size, int64_t offset)
{{
#if defined(__GNUC__)
    __builtin_prefetch((const void *)((uintptr_t)array + size * (size_t)offset), {number}, 3);
#else
    (void)array, (void)size, (void)offset;
#endif
}}
"""
        for word, past, number in (("read", "read", 0), ("write", "written", 1))
    },
    "stream": """\
#if defined(__SSE2__)
#include <immintrin.h>
#endif

// copies bytes from an aligned array, past the caches where the address is that of a line of them
static inline void stream(void *to, const void *from, size_t bytes)
{
    char *target = (char *)to;
    const char *source = (const char *)from, *end = source + bytes;
#if defined(__SSE2__)
    if ((uintptr_t)to % 64 == 0) {
        for (; end - source >= 64; source += 64, target += 64) {
#if defined(__AVX512F__)
            _mm512_stream_si512((void *)target, _mm512_load_si512((const void *)source));
#elif defined(__AVX__)
            for (int part = 0; part < 64; part += 32)
                _mm256_stream_si256((void *)(target + part), _mm256_load_si256((const void *)(source + part)));
#else
            for (int part = 0; part < 64; part += 16)
                _mm_stream_si128((void *)(target + part), _mm_load_si128((const void *)(source + part)));
#endif
        }
    }
#endif
    memcpy(target, source, (size_t)(end - source));
}
""",
    "stream_fence": """\
// what was stored past the caches before is there for other threads after
static inline void stream_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}
""",
    "quad": """\
// four bytes as they lie in memory
static inline int32_t quad(const void *p)
{
    int32_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}
""",
    "product": """\
// a * b for numbers of elements, and more than any memory holds where that does not fit
static inline int64_t product(int64_t a, int64_t b)
{
    const int64_t many = INT64_MAX / 2;
    return a > 0 && b > many / a ? many : a * b;
}
""",
}
