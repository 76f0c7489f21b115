"""NEON (Advanced SIMD) of 64-bit Arm. The source of the names and meanings is the Arm C Language Extensions.

`vmax` and `vmin` give NaN where either operand is NaN; conversions to integers saturate and send NaN to 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.c.dialect import rows
from dojoir.codegen.c.spelling import C
from dojoir.codegen.lir.program import Type
from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.simd.isas.arm_dots import dot_helpers
from dojoir.codegen.target import Target

_C = {"f": "float", "i": "int", "u": "uint", "b": "uint"}


def _words(type: Type) -> Mapping[str, str]:
    """q: the letter of whole registers; t: the type in names of functions, st: of the signed type of its width;
    type: in C; low: the bits in use."""
    dtype = type.dtype
    bits = max(64, type.lanes * dtype.bits)
    letter = {"f": "f", "i": "s", "u": "u", "b": "u"}[dtype.kind]
    return {
        "q": "q" if bits == 128 else "",
        "t": f"{letter}{dtype.bits}",
        "st": f"s{dtype.bits}",
        "type": f"{_C[dtype.kind]}{dtype.bits}x{bits // dtype.bits}_t",
        "low": f"0x{(1 << min(64, type.lanes * dtype.bits)) - 1:x}ULL",
    }


_NEON = """
splat     float int                  vdup<q>_n_<t>(a)
iota      float int                  ((<type>){<list>})
load      int@=16                    vcreate_<t>(bytes_2(p))
load      int@=32                    vcreate_<t>(bytes_4(p))
load      float int                  vld1<q>_<t>(p)
store     i8@=16 u8@=16              keep_2(p, vreinterpret_u64_<t>(a))
store     int8@=32 int16@=32         keep_4(p, vreinterpret_u64_<t>(a))
store     float int                  vst1<q>_<t>(p, a)

add       float int                  vadd<q>_<t>(a, b)
sub       float int                  vsub<q>_<t>(a, b)
quads     i32@128                    vreinterpretq_s32_s8(vld1q_s8((const int8_t *)p))
dot_ii    i32@128                    dot_ii_neon(a, b, c)
dot_ui    i32@128                    dot_ui_neon(a, b, c)
dot_uu    i32@128                    dot_uu_neon(a, b, c)
dot_ii    u32@128                    vreinterpretq_u32_s32(dot_ii_neon(a, b, vreinterpretq_s32_u32(c)))
dot_ui    u32@128                    vreinterpretq_u32_s32(dot_ui_neon(a, b, vreinterpretq_s32_u32(c)))
dot_uu    u32@128                    vreinterpretq_u32_s32(dot_uu_neon(a, b, vreinterpretq_s32_u32(c)))
mul       float int8 int16 int32     vmul<q>_<t>(a, b)
mul_s     float int16 int32          vmul<q>_n_<t>(a, b)
div       float                      vdiv<q>_<t>(a, b)
sqrt      float                      vsqrt<q>_<t>(a)
floor     float                      vrndm<q>_<t>(a)
ceil      float                      vrndp<q>_<t>(a)
round     float                      vrndn<q>_<t>(a)
neg       float signed               vneg<q>_<t>(a)
abs       float signed               vabs<q>_<t>(a)
fma       float                      vfma<q>_<t>(c, a, b)
fma_s     float                      vfma<q>_n_<t>(c, a, b)
fnma      float                      vfms<q>_<t>(c, a, b)
max       float int8 int16 int32     vmax<q>_<t>(a, b)
min       float int8 int16 int32     vmin<q>_<t>(a, b)
max_fast  float                      vmax<q>_<t>(a, b)
min_fast  float                      vmin<q>_<t>(a, b)
and       int mask                   vand<q>_<t>(a, b)
or        int mask                   vorr<q>_<t>(a, b)
xor       int mask                   veor<q>_<t>(a, b)
not       int8 int16 int32 m8 m16 m32  vmvn<q>_<t>(a)
not       m64                        veorq_u64(a, vdupq_n_u64(~0ULL))
shl_i     int                        vshl<q>_n_<t>(a, b)
shr_i     unsigned                   vshr<q>_n_<t>(a, b)
sar_i     signed                     vshr<q>_n_<t>(a, b)
shl       signed                     vshl<q>_<t>(a, b)
shl       unsigned                   vshl<q>_<t>(a, vreinterpret<q>_<st>_<t>(b))
sar       signed                     vshl<q>_<t>(a, vneg<q>_<t>(b))
shr       unsigned                   vshl<q>_<t>(a, vneg<q>_<st>(vreinterpret<q>_<st>_<t>(b)))

eq        float int                  vceq<q>_<t>(a, b)
lt        float int                  vclt<q>_<t>(a, b)
le        float int                  vcle<q>_<t>(a, b)
gt        float int                  vcgt<q>_<t>(a, b)
ge        float int                  vcge<q>_<t>(a, b)
select    float int                  vbsl<q>_<t>(a, b, c)
true      mask                       vdup<q>_n_<t>(-1)
false     mask                       vdup<q>_n_<t>(0)
any       m8@=16,=32 m16@=32         (vget_lane_u64(vreinterpret_u64_<t>(a), 0) & <low>) != 0
all       m8@=16,=32 m16@=32         (vget_lane_u64(vreinterpret_u64_<t>(a), 0) & <low>) == <low>
any       m8 m16 m32                 vmaxv<q>_<t>(a) != 0
all       m8 m16 m32                 vminv<q>_<t>(a) != 0
any       m64                        (vgetq_lane_u64(a, 0) | vgetq_lane_u64(a, 1)) != 0
all       m64                        (vgetq_lane_u64(a, 0) & vgetq_lane_u64(a, 1)) != 0

bitcast   m8<u8 m16<u16 m32<u32 m64<u64 u8<m8 u16<m16 u32<m32 u64<m64  a
bitcast   m8<i8 m16<i16 m32<i32 m64<i64 i8<m8 i16<m16 i32<m32 i64<m64  vreinterpret<q>_<t>_<from_t>(a)
bitcast   f32<int32 f64<int64 int32<f32 int64<f64  vreinterpret<q>_<t>_<from_t>(a)
bitcast   signed<unsigned unsigned<signed  vreinterpret<q>_<t>_<from_t>(a)
convert   f32<i32 f32<u32 f64<i64 f64<u64  vcvt<q>_<t>_<from_t>(a)
convert   i32<f32 u32<f32 i64<f64 u64<f64  vcvt<q>_<t>_<from_t>(a)
convert   f64<f32 f32<f64            vcvt_<t>_<from_t>(a)
convert   i16<i8@128 i32<i16@128 i64<i32@128 u16<u8@128 u32<u16@128 u64<u32@128  vmovl_<from_t>(a)
convert   i16<i8 i32<i16 u16<u8 u32<u16  vget_low_<t>(vmovl_<from_t>(a))
convert   i8<i16@=16,=32 i16<i32@=32  vmovn_<from_t>(vcombine_<from_t>(a, a))
convert   i8<i16 i16<i32 i32<i64     vmovn_<from_t>(a)
decode    f32<u16@128                vcvt_f32_f16(vreinterpret_f16_u16(a))
encode    u16<f32@=64                vreinterpret_u16_f16(vcvt_f16_f32(a))

reduce_add  float@128 f32@=64 int8@128,=64 int16@128,=64 int32@128,=64 int64@128  vaddv<q>_<t>(a)
reduce_max  float@128 f32@=64 int8@128,=64 int16@128,=64 int32@128,=64  vmaxv<q>_<t>(a)
reduce_min  float@128 f32@=64 int8@128,=64 int16@128,=64 int32@128,=64  vminv<q>_<t>(a)
reduce_max_fast  float@128 f32@=64   vmaxv<q>_<t>(a)
reduce_min_fast  float@128 f32@=64   vminv<q>_<t>(a)
"""


def _bytes(count: int) -> str:
    bits = 8 * count
    return (
        f"// {count} bytes as the low bits of a number\n"
        f"static inline uint64_t bytes_{count}(const void *p)\n{{\n"
        f"    uint{bits}_t bits;\n    memcpy(&bits, p, sizeof bits);\n    return bits;\n}}\n"
    )


def _keep(count: int) -> str:
    bits = 8 * count
    return (
        f"// the low {count} bytes of a stored\n"
        f"static inline void keep_{count}(void *p, uint64x1_t a)\n{{\n"
        f"    const uint{bits}_t bits = (uint{bits}_t)vget_lane_u64(a, 0);\n"
        f"    memcpy(p, &bits, sizeof bits);\n}}\n"
    )


NEON = Isa(
    name="neon",
    target=Target("neon", 128, "scalar", registers=32, streams=False, dots=4),
    words=_words,
    table=tuple(rows(_NEON)),
    base=C,
    most_bits=128,
    least_bits=64,
    header="arm_neon.h",
    options=(),
    architecture="aarch64",
    helpers={f"bytes_{n}": _bytes(n) for n in (2, 4)}
    | {f"keep_{n}": _keep(n) for n in (2, 4)}
    | dot_helpers("neon"),
)
