"""The x86 instruction sets: what AVX2 and AVX-512 share, and each of the two.

The source of the names and meanings is Intel's Intrinsics Guide. `_mm_max_ps(a, b)` is `a > b ? a : b`, which is
the `max_fast` of a lowered program.
"""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.c.dialect import rows
from dojoir.codegen.c.spelling import C
from dojoir.codegen.lir.program import Type
from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.simd.isas.x86_dots import dot_helpers
from dojoir.codegen.target import Target

_FLOATS = {"f32": ("ps", ""), "f64": ("pd", "d")}


def _words(type: Type) -> Mapping[str, str]:
    """mm: prefix; width: bits of the register; s, su: suffix of signed and unsigned operations. Also e: that of
    set1; si: that of whole registers; type: the C type; mask, all: the type of a mask and one with all lanes."""
    dtype, lanes = type.dtype, type.lanes
    bits = max(128, lanes * dtype.bits)
    wide = "" if bits == 128 else str(bits)
    words = {
        "mm": f"_mm{wide}",
        "si": f"si{bits}",
        "width": str(bits),
        "bits": str(dtype.bits),
        "lanes": str(lanes),
    }
    if dtype.name in _FLOATS:
        suffix, letter = _FLOATS[dtype.name]
        words |= {"s": suffix, "su": suffix, "e": suffix, "type": f"__m{bits}{letter}"}
    else:
        unsigned = "epu" if dtype.kind == "u" else "epi"
        extended = "x" if dtype.bits == 64 and bits < 512 else ""
        words |= {"s": f"epi{dtype.bits}", "su": f"{unsigned}{dtype.bits}", "e": f"epi{dtype.bits}{extended}"}
        words |= {"type": f"__m{bits}i"}
    words |= {"c": {"f32": "float", "f64": "double"}.get(dtype.name, "int" if dtype.bits == 32 else "long long")}
    words |= {"zero": f"{words['mm']}_setzero_{words['s' if dtype.name in _FLOATS else 'si']}()"}
    words |= {"bytes": "-1" if lanes * dtype.bits == 256 else f"0x{(1 << lanes * dtype.bits // 8) - 1:x}"}
    mask = f"__mmask{max(8, lanes)}"
    all_lanes = f"0x{(1 << lanes) - 1:x}" + ("ULL" if lanes > 32 else "")
    words |= {"mask": mask, "all": all_lanes, "bzhi": "_bzhi_u64" if lanes > 32 else "_bzhi_u32"}
    if dtype.name == "bool":
        words["type"] = mask
    return words


_COMMON = """
splat     float int                  <mm>_set1_<e>(a)
zero      float                      <mm>_setzero_<s>()
zero      int                        <mm>_setzero_<si>()
iota      f32 f64 int32              <mm>_setr_<s>(<list>)
iota      int64@512                  <mm>_setr_<s>(<list>)
iota      int64@256                  <mm>_setr_epi64x(<list>)
iota      int64@128                  _mm_set_epi64x(<reversed>)
iota      int8@128,256 int16@128,256  <mm>_setr_<s>(<list>)

load      int@16                     _mm_loadu_si16(p)
load      int@32                     _mm_loadu_si32(p)
load      int@64                     _mm_loadu_si64(p)
load      f32@64                     _mm_castsi128_ps(_mm_loadu_si64(p))
load      float                      <mm>_loadu_<s>(p)
load      int@128                    _mm_loadu_si128((const __m128i *)p)
store     int@16                     _mm_storeu_si16(p, a)
store     int@32                     _mm_storeu_si32(p, a)
store     int@64                     _mm_storeu_si64(p, a)
store     f32@64                     _mm_storeu_si64(p, _mm_castps_si128(a))
store     int@128                    _mm_storeu_si128((__m128i *)p, a)
store     float                      <mm>_storeu_<s>(p, a)
stream    float                      <mm>_stream_<s>(p, a)
load      int@256                    _mm256_loadu_si256((const __m256i *)p)
store     int@256                    _mm256_storeu_si256((__m256i *)p, a)
stream    int                        <mm>_stream_<si>((<type> *)p, a)

add       float int                  <mm>_add_<s>(a, b)
sub       float int                  <mm>_sub_<s>(a, b)
mul       float                      <mm>_mul_<s>(a, b)
mul       int16 int32                <mm>_mullo_<s>(a, b)
div       float                      <mm>_div_<s>(a, b)
sqrt      float                      <mm>_sqrt_<s>(a)
floor     float                      <mm>_floor_<s>(a)
ceil      float                      <mm>_ceil_<s>(a)
round     float@128,256              <mm>_round_<s>(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
fma       float                      <mm>_fmadd_<s>(a, b, c)
fnma      float                      <mm>_fnmadd_<s>(a, b, c)
fms       float                      <mm>_fmsub_<s>(a, b, c)
max_fast  float                      <mm>_max_<s>(a, b)
min_fast  float                      <mm>_min_<s>(a, b)
dot_ii    int32@256,512              dot_ii_<width>(a, b, c)
dot_ui    int32@256,512              dot_ui_<width>(a, b, c)
dot_uu    int32@256,512              dot_uu_<width>(a, b, c)
max       int8 int16 int32           <mm>_max_<su>(a, b)
min       int8 int16 int32           <mm>_min_<su>(a, b)
abs       float@128,256              <mm>_andnot_<s>(<mm>_set1_<s>(-0.0), a)
abs       i8 i16 i32                 <mm>_abs_<s>(a)
neg       float                      <mm>_xor_<s>(a, <mm>_set1_<s>(-0.0))
shl       int32 int64                <mm>_sllv_<s>(a, b)
shr       int32 int64                <mm>_srlv_<s>(a, b)
sar       int32                      <mm>_srav_<s>(a, b)
shl_i     int16 int32 int64          <mm>_slli_<s>(a, b)
shr_i     int16 int32 int64          <mm>_srli_<s>(a, b)
sar_i     int16 int32                <mm>_srai_<s>(a, b)

convert   f32<i32                    <mm>_cvtepi32_ps(a)
convert   i32<i8 i64<i8 i16<i8 i32<i16 i64<i16 i64<i32  <mm>_cvt<from_s>_<s>(a)
convert   u32<u8 u64<u8 u16<u8 u32<u16 u64<u16 u64<u32  <mm>_cvt<from_su>_<s>(a)
convert   f64<f32 f64<i32 f32<f64    <wide>_cvt<from_s>_<s>(a)
truncate  i32<f32                    <mm>_cvttps_epi32(a)
truncate  i32<f64                    <wide>_cvttpd_epi32(a)
decode    f32<u16                    <mm>_cvtph_ps(a)
encode    u16<f32                    <wide>_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)
bitcast   float<int                  <mm>_cast<from_si>_<s>(a)
bitcast   int<float                  <mm>_cast<from_s>_<si>(a)
bitcast   int<int                    a

low       f32<f32@256                _mm512_castps512_ps256(a)
low       f32<f32@128                _mm256_castps256_ps128(a)
low       f64<f64@256                _mm512_castpd512_pd256(a)
low       f64<f64@128                _mm256_castpd256_pd128(a)
low       int<int@256                _mm512_castsi512_si256(a)
low       int<int@128                _mm256_castsi256_si128(a)
high      f32<f32@128                _mm256_extractf128_ps(a, 1)
high      f64<f64@128                _mm256_extractf128_pd(a, 1)
high      int<int@128                _mm256_extracti128_si256(a, 1)
"""

# A gather by more bits of offsets than it has of data is the low half of a register to GCC, which makes one masked
# `vextractf32x8` of it and a masked store: that faults where lanes that are off are on a page that is not there. It
# does not where one is of floats and the other of integers.
_AVX512 = (
    """
load      int@512                    _mm512_loadu_si512(p)
store     int@512                    _mm512_storeu_si512(p, a)
ldexp     float                      <mm>_scalef_<s>(a, b)
load_if   float int                  <mm>_maskz_loadu_<s>(m, p)
store_if  float int                  <mm>_mask_storeu_<s>(p, m, a)
gather    f32@64 int32@64            _mm_i64gather_<s>((const <c> *)p, a, 4)
gather    f32@128 int32@128          _mm256_i64gather_<s>((const <c> *)p, a, 4)
gather    f32@256                    _mm256_castsi256_ps(_mm512_i64gather_epi32(a, p, 4))
gather    int32@256                  _mm256_castps_si256(_mm512_i64gather_ps(a, p, 4))
gather    f64@128,256 int64@128,256  <mm>_i64gather_<s>((const <c> *)p, a, 8)
gather    f64@512 int64@512          _mm512_i64gather_<s>(a, p, 8)
gather_if  f32@64 int32@64           _mm_mmask_i64gather_<s>(<zero>, m, a, p, 4)
gather_if  f32@128                   _mm_castsi128_ps(_mm256_mmask_i64gather_epi32(_mm_setzero_si128(), m, a, p, 4))
gather_if  int32@128                 _mm_castps_si128(_mm256_mmask_i64gather_ps(_mm_setzero_ps(), m, a, p, 4))
gather_if  f32@256                 <mm>_castsi256_ps(_mm512_mask_i64gather_epi32(<mm>_setzero_si256(), m, a, p, 4))
gather_if  int32@256               <mm>_castps_si256(_mm512_mask_i64gather_ps(<mm>_setzero_ps(), m, a, p, 4))
gather_if  f64@128,256 int64@128,256  <mm>_mmask_i64gather_<s>(<zero>, m, a, p, 8)
gather_if  f64@512 int64@512         _mm512_mask_i64gather_<s>(<zero>, m, a, p, 8)
scatter   f32@64 int32@64            _mm_i64scatter_<s>(p, a, b, 4)
scatter   f32@128 int32@128          _mm256_i64scatter_<s>(p, a, b, 4)
scatter   f32@256 int32@256          _mm512_i64scatter_<s>(p, a, b, 4)
scatter   f64 int64                  <mm>_i64scatter_<s>(p, a, b, 8)
scatter_if  f32@64 int32@64          _mm_mask_i64scatter_<s>(p, m, a, b, 4)
scatter_if  f32@128 int32@128        _mm256_mask_i64scatter_<s>(p, m, a, b, 4)
scatter_if  f32@256 int32@256        _mm512_mask_i64scatter_<s>(p, m, a, b, 4)
scatter_if  f64 int64                <mm>_mask_i64scatter_<s>(p, m, a, b, 8)

eq        float                      <mm>_cmp_<s>_mask(a, b, _CMP_EQ_OQ)
ne        float                      <mm>_cmp_<s>_mask(a, b, _CMP_NEQ_UQ)
lt        float                      <mm>_cmp_<s>_mask(a, b, _CMP_LT_OQ)
le        float                      <mm>_cmp_<s>_mask(a, b, _CMP_LE_OQ)
gt        float                      <mm>_cmp_<s>_mask(a, b, _CMP_GT_OQ)
ge        float                      <mm>_cmp_<s>_mask(a, b, _CMP_GE_OQ)
eq        int                        <mm>_cmpeq_<su>_mask(a, b)
ne        int                        <mm>_cmpneq_<su>_mask(a, b)
lt        int                        <mm>_cmplt_<su>_mask(a, b)
le        int                        <mm>_cmple_<su>_mask(a, b)
gt        int                        <mm>_cmpgt_<su>_mask(a, b)
ge        int                        <mm>_cmpge_<su>_mask(a, b)
select    float int                  <mm>_mask_blend_<s>(a, c, b)

true      bool                       <all>
false     bool                       0
splat     bool                       (<mask>)(a ? <all> : 0)
trim      bool                       (<mask>)(a & <all>)
first     bool                       (<mask>)<bzhi>(<all>, n)
later     bool                       (<mask>)(_bzhi_u64(~0ULL, n) >> a)
and       bool                       (<mask>)(a & b)
or        bool                       (<mask>)(a | b)
xor       bool                       (<mask>)(a ^ b)
not       bool                       (<mask>)(~a & <all>)
any       bool                       a != 0
all       bool                       a == <all>

and       int                        <mm>_and_<si>(a, b)
or        int                        <mm>_or_<si>(a, b)
xor       int                        <mm>_xor_<si>(a, b)
signed_or  u32                       <mm>_ternarylogic_<s>(a, b, <mm>_set1_<e>(0x7fffffff), 0xe8)
signed_or  u64                       <mm>_ternarylogic_<s>(a, b, <mm>_set1_<e>(0x7fffffffffffffff), 0xe8)
mul       int64                      <mm>_mullo_<s>(a, b)
max       int64                      <mm>_max_<su>(a, b)
min       int64                      <mm>_min_<su>(a, b)
abs       i64                        <mm>_abs_<s>(a)
abs       float@512                  <mm>_abs_<s>(a)
round     float@512                  <mm>_roundscale_<s>(a, _MM_FROUND_TO_NEAREST_INT)
shl       int16                      <mm>_sllv_<s>(a, b)
shr       int16                      <mm>_srlv_<s>(a, b)
sar       int16 int64                <mm>_srav_<s>(a, b)
sar_i     int64                      <mm>_srai_<s>(a, b)

convert   f32<u32                    <mm>_cvtepu32_ps(a)
convert   f64<i64 f64<u64 f32<i64 f32<u64 f64<u32  <wide>_cvt<from_su>_<s>(a)
convert   i32<i64 i16<i64 i8<i64 i16<i32 i8<i32 i8<i16  <wide>_cvt<from_s>_<s>(a)
truncate  u32<f32 i64<f32 u64<f32 i64<f64 u64<f64 u32<f64  <wide>_cvtt<from_s>_<su>(a)

reduce_add       float@512 int32@512 int64@512  _mm512_reduce_add_<s>(a)
reduce_mul       float@512 int32@512 int64@512  _mm512_reduce_mul_<s>(a)
reduce_max       int32@512 int64@512  _mm512_reduce_max_<su>(a)
reduce_min       int32@512 int64@512  _mm512_reduce_min_<su>(a)
reduce_max_fast  float@512           _mm512_reduce_max_<s>(a)
reduce_min_fast  float@512           _mm512_reduce_min_<s>(a)
high      f32<f32@256                _mm512_extractf32x8_ps(a, 1)
high      f64<f64@256                _mm512_extractf64x4_pd(a, 1)
high      int<int@256                _mm512_extracti64x4_epi64(a, 1)
"""
    + _COMMON
)

_X86_V3 = frozenset({"avx2", "fma", "f16c"})
_X86_V4 = _X86_V3 | {"bmi2", "avx512f", "avx512vl", "avx512bw", "avx512dq"}

AVX512 = Isa(
    name="avx512",
    target=Target("avx512", 512, "mask", registers=32, scales=True, dots=8, mixed=True),
    words=_words,
    table=tuple(rows(_AVX512)),
    base=C,
    most_bits=512,
    least_bits=128,
    header="immintrin.h",
    options=tuple(f"-m{feature}" for feature in sorted(_X86_V4)),
    architecture="x86_64",
    features=_X86_V4,
    mask_bits=True,
    gathers=True,
    helpers=dot_helpers(256, 512),
)

_AVX2 = (
    """
# a mask of half a register says nothing of the other half
load_if   f32@64 int32@64            _mm_maskload_<s>((const <c> *)p, _mm_move_epi64(m))
load_if   f32@128,256 f64 int32@128,256 int64  <mm>_maskload_<s>((const <c> *)p, m)
store_if  f32@64                     _mm_maskstore_<s>(p, _mm_move_epi64(m), a)
store_if  int32@64                   _mm_maskstore_<s>((<c> *)p, _mm_move_epi64(m), a)
store_if  f32@128,256 f64            <mm>_maskstore_<s>(p, m, a)
store_if  int32@128,256 int64        <mm>_maskstore_<s>((<c> *)p, m, a)
gather    f32@64 int32@64            _mm_i64gather_<s>((const <c> *)p, a, 4)
gather    f32@128 int32@128          _mm256_i64gather_<s>((const <c> *)p, a, 4)
gather    f64 int64                  <mm>_i64gather_<s>((const <c> *)p, a, 8)

eq        float                      <mm>_cast<s>_<si>(<mm>_cmp_<s>(a, b, _CMP_EQ_OQ))
ne        float                      <mm>_cast<s>_<si>(<mm>_cmp_<s>(a, b, _CMP_NEQ_UQ))
lt        float                      <mm>_cast<s>_<si>(<mm>_cmp_<s>(a, b, _CMP_LT_OQ))
le        float                      <mm>_cast<s>_<si>(<mm>_cmp_<s>(a, b, _CMP_LE_OQ))
gt        float                      <mm>_cast<s>_<si>(<mm>_cmp_<s>(a, b, _CMP_GT_OQ))
ge        float                      <mm>_cast<s>_<si>(<mm>_cmp_<s>(a, b, _CMP_GE_OQ))
eq        int                        <mm>_cmpeq_<s>(a, b)
gt        signed                     <mm>_cmpgt_<s>(a, b)
select    float                      <mm>_blendv_<s>(c, b, <mm>_cast<si>_<s>(a))
select    int                        <mm>_blendv_epi8(c, b, a)

true      m8 m16 m32 m64             <mm>_set1_epi8(-1)
false     m8 m16 m32 m64             <mm>_setzero_<si>()
and       m8 m16 m32 m64             <mm>_and_<si>(a, b)
or        m8 m16 m32 m64             <mm>_or_<si>(a, b)
xor       m8 m16 m32 m64             <mm>_xor_<si>(a, b)
not       m8 m16 m32 m64             <mm>_xor_<si>(a, <mm>_set1_epi8(-1))
any       m8 m16 m32 m64             (<mm>_movemask_epi8(a) & <bytes>) != 0
all       m8 m16 m32 m64             (<mm>_movemask_epi8(a) & <bytes>) == <bytes>
bitcast   m8<i8 m16<i16 m32<i32 m64<i64 i8<m8 i16<m16 i32<m32 i64<m64  a

and       int                        <mm>_and_<si>(a, b)
or        int                        <mm>_or_<si>(a, b)
xor       int                        <mm>_xor_<si>(a, b)
"""
    + _COMMON
)

AVX2 = Isa(
    name="avx2",
    target=Target("avx2", 256, "scalar", registers=16, dots=8),
    words=_words,
    table=tuple(rows(_AVX2)),
    base=C,
    most_bits=256,
    least_bits=128,
    header="immintrin.h",
    options=(*(f"-m{feature}" for feature in sorted(_X86_V3)), "-mno-avx512f"),  # GCC 12 mixes up masks of both
    architecture="x86_64",
    features=_X86_V3,
    helpers=dot_helpers(256),
)
