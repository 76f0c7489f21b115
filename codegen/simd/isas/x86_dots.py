"""Sums of four products of bytes on x86, as helpers of C: `vpdpbusd` where there is VNNI, else pairs of i16.

`vpdpbusd` multiplies u8 by i8 and wraps around, exactly. Two i8 become that by `a = (a ^ 128) - 128`, two u8 by
`b = (b ^ 128) + 128`, so that what is taken off or added is 128 times a sum of bytes, by the same instruction.
Without it the bytes at even and at odd places are i16, and `vpmaddwd` adds the products of two of them: at most
2 · 255² in magnitude, so nothing saturates. The source of the names and meanings is Intel's Intrinsics Guide.
"""

from __future__ import annotations

from collections.abc import Mapping

KINDS = ("ii", "ui", "uu")
"""The bytes of the two factors: i8 or u8 each."""

_VNNI = {
    256: (
        ("defined(__AVX512VNNI__) && defined(__AVX512VL__)", "_mm256_dpbusd_epi32"),
        ("defined(__AVXVNNI__)", "_mm256_dpbusd_avx_epi32"),
    ),
    512: (("defined(__AVX512VNNI__)", "_mm512_dpbusd_epi32"),),
}


def dot_helpers(*widths: int) -> Mapping[str, str]:
    """The helpers `dot_ii_256(a, b, c)` and their like for registers of so many bits, by their names."""
    parts = {
        f"{part}_{kind}8_{bits}": _part(part, kind, bits) for bits in widths for part in _PARTS for kind in "iu"
    }
    return parts | {f"dot_{kinds}_{bits}": _dot(kinds, bits) for bits in widths for kinds in KINDS}


_PARTS = {"even": ("{mm}_srai_epi16({mm}_slli_epi16(a, 8), 8)", "{mm}_and_si{bits}(a, {mm}_set1_epi16(255))"),
          "odd": ("{mm}_srai_epi16(a, 8)", "{mm}_srli_epi16(a, 8)")}  # fmt: skip
"""The bytes at even or odd places as i16: of i8, of u8."""


def _part(part: str, kind: str, bits: int) -> str:
    signed, unsigned = _PARTS[part]
    value = (signed if kind == "i" else unsigned).format(mm=f"_mm{bits}", bits=bits)
    return (
        f"// the {kind}8 at {part} places as i16\n"
        f"static inline __m{bits}i {part}_{kind}8_{bits}(__m{bits}i a)\n{{\n    return {value};\n}}\n"
    )


def _dot(kinds: str, bits: int) -> str:
    mm, register = f"_mm{bits}", f"__m{bits}i"
    left, right = kinds[0], kinds[1]
    lines = [f"static inline {register} dot_{kinds}_{bits}({register} a, {register} b, {register} c)", "{"]
    for n, (condition, word) in enumerate(_VNNI[bits]):
        lines += [
            f"#{'el' if n else ''}if {condition}",
            *(f"    {line}" for line in _with_vnni(kinds, mm, bits, word)),
        ]
    pairs = [f"{mm}_madd_epi16({p}_{left}8_{bits}(a), {p}_{right}8_{bits}(b))" for p in _PARTS]
    lines += ["#else", f"    return {mm}_add_epi32({mm}_add_epi32(c, {pairs[0]}),", f"            {pairs[1]});"]
    remark = f"c and four products of {left}8 and {right}8 in each i32, wrapping around"
    return "\n".join([f"// {remark}", *lines, "#endif", "}", ""])


def _with_vnni(kinds: str, mm: str, bits: int, word: str) -> list[str]:
    if kinds == "ui":
        return [f"return {word}(c, a, b);"]
    least, zero = f"const __m{bits}i least = {mm}_set1_epi8(-128);", f"{mm}_setzero_si{bits}()"
    if kinds == "ii":
        rest, flipped = f"{word}({zero}, least, b)", f"{mm}_xor_si{bits}(a, least), b"
    else:
        rest, flipped = f"{word}({zero}, a, least)", f"a, {mm}_xor_si{bits}(b, least)"
    return [least, f"return {word}({mm}_sub_epi32(c, {rest}), {flipped});"]
