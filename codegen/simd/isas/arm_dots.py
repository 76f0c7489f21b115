"""Sums of four products of bytes on Arm, as helpers of C: `sdot`, `udot`, `usdot` where there are any, else pairs.

`sdot` and `udot` (Armv8.2 with dotprod, and all of SVE) wrap around, exactly. Bytes of both kinds have `usdot`
where there is i8mm; else the u8 become i8 by `a = (a ^ 128) + 128`, so that what is added is 128 times a sum of
bytes, by the same instruction. Without dotprod the products are of 16 bits (at most 255 · 128 of both kinds, 255²
unsigned, so none is too large), and neighbours are added in 32. The source of the names and meanings is the Arm C
Language Extensions.
"""

from __future__ import annotations

from dojoir.codegen.simd.isas.x86_dots import KINDS

_NEON = {
    "ii": """\
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(c, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
#else
    const int8x16_t x = vreinterpretq_s8_s32(a), y = vreinterpretq_s8_s32(b);
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(x, y));
    return vaddq_s32(c, vpaddq_s32(low, high));
#endif
""",
    "uu": """\
#if defined(__ARM_FEATURE_DOTPROD)
    const uint32x4_t sum = vreinterpretq_u32_s32(c);
    return vreinterpretq_s32_u32(vdotq_u32(sum, vreinterpretq_u8_s32(a), vreinterpretq_u8_s32(b)));
#else
    const uint8x16_t x = vreinterpretq_u8_s32(a), y = vreinterpretq_u8_s32(b);
    const uint32x4_t low = vpaddlq_u16(vmull_u8(vget_low_u8(x), vget_low_u8(y)));
    const uint32x4_t high = vpaddlq_u16(vmull_high_u8(x, y));
    return vaddq_s32(c, vreinterpretq_s32_u32(vpaddq_u32(low, high)));
#endif
""",
    "ui": """\
#if defined(__ARM_FEATURE_MATMUL_INT8)
    return vusdotq_s32(c, vreinterpretq_u8_s32(a), vreinterpretq_s8_s32(b));
#elif defined(__ARM_FEATURE_DOTPROD)
    const int8x16_t least = vdupq_n_s8(-128), y = vreinterpretq_s8_s32(b);
    const int32x4_t rest = vdotq_s32(vdupq_n_s32(0), least, y);
    return vdotq_s32(vsubq_s32(c, rest), veorq_s8(vreinterpretq_s8_s32(a), least), y);
#else
    const uint8x16_t x = vreinterpretq_u8_s32(a);
    const int8x16_t y = vreinterpretq_s8_s32(b);
    const int16x8_t x0 = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x)));
    const int16x8_t x1 = vreinterpretq_s16_u16(vmovl_high_u8(x));
    const int32x4_t low = vpaddlq_s16(vmulq_s16(x0, vmovl_s8(vget_low_s8(y))));
    const int32x4_t high = vpaddlq_s16(vmulq_s16(x1, vmovl_high_s8(y)));
    return vaddq_s32(c, vpaddq_s32(low, high));
#endif
""",
}

_SVE = {
    "ii": """\
    return svdot_s32(c, svreinterpret_s8_s32(a), svreinterpret_s8_s32(b));
""",
    "uu": """\
    const svuint32_t sum = svreinterpret_u32_s32(c);
    return svreinterpret_s32_u32(svdot_u32(sum, svreinterpret_u8_s32(a), svreinterpret_u8_s32(b)));
""",
    "ui": """\
#if defined(__ARM_FEATURE_SVE_MATMUL_INT8)
    return svusdot_s32(c, svreinterpret_u8_s32(a), svreinterpret_s8_s32(b));
#else
    const svint8_t least = svdup_n_s8(-128), y = svreinterpret_s8_s32(b);
    const svint32_t rest = svdot_s32(svdup_n_s32(0), least, y);
    const svint8_t x = sveor_s8_x(svptrue_b8(), svreinterpret_s8_s32(a), least);
    return svdot_s32(svsub_s32_x(svptrue_b32(), c, rest), x, y);
#endif
""",
}


def dot_helpers(isa: str) -> dict[str, str]:
    """The helpers `dot_ii_neon(a, b, c)` and their like, of vectors of i32, by their names."""
    register, bodies = {"neon": ("int32x4_t", _NEON), "sve": ("svint32_t", _SVE)}[isa]
    found: dict[str, str] = {}
    for kinds in KINDS:
        remark = f"c and four products of {kinds[0]}8 and {kinds[1]}8 in each i32, wrapping around"
        head = f"static inline {register} dot_{kinds}_{isa}({register} a, {register} b, {register} c)"
        found[f"dot_{kinds}_{isa}"] = f"// {remark}\n{head}\n{{\n{bodies[kinds]}}}\n"
    return found
