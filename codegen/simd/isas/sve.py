"""SVE, the scalable vectors of 64-bit Arm. The source of the names and meanings is the Arm C Language Extensions.

Registers have 128 bits or more, which the code does not know: a predicate says which lanes are at work, and a loop
takes as many as there are. All vectors of a loop have as many lanes as a register has of the widest type in it.
Narrower elements lie each in the low bits of a container of that width, where loads extend, stores truncate and
`svcvt` expects them, so that a conversion never moves a lane. Predicates are those of the containers, false outside
the lanes at work.

`svmax` and `svmin` give NaN where either operand is NaN; conversions to integers saturate and send NaN to 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.c.dialect import rows
from dojoir.codegen.c.spelling import C
from dojoir.codegen.lir.program import Type
from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.simd.isas.arm_dots import dot_helpers
from dojoir.codegen.target import Target

_C = {"f": "float", "i": "int", "u": "uint"}
_SMALL = {8: "b", 16: "h", 32: "w", 64: "d"}


def _words(type: Type) -> Mapping[str, str]:
    """Of containers, c: bits; cc: the letter that counts them; ct: the unsigned integers in them. Of lanes,
    fixed: the predicate of so many. Of the type, t: its name; ut: the unsigned integers of its width; bits and e:
    its width, and the letter of that; u, n: unsigned integers and the type itself in C. Also scale: how offsets
    count; label: the type in names of functions."""
    dtype = type.dtype
    lanes = 1 << (type.lanes - 1).bit_length()
    container = max(8, 128 // lanes)
    exact = type.lanes <= 8 or type.lanes == 16
    words = {
        "c": str(container),
        "cc": _SMALL[container],
        "ct": f"u{container}",
        "fixed": f"svptrue_pat_b{container}(SV_VL{type.lanes})"
        if exact
        else f"svwhilelt_b{container}_s64(0, {type.lanes})",
    }
    if dtype.kind == "b":
        return words | {"type": "svbool_t"}
    letter = {"f": "f", "i": "s", "u": "u"}[dtype.kind]
    return words | {
        "t": f"{letter}{dtype.bits}",
        "ut": f"u{dtype.bits}",
        "bits": str(dtype.bits),
        "e": _SMALL[max(8, dtype.bits)],  # of four bits only the label is asked, in names of conversions
        "u": f"uint{dtype.bits}_t",
        "n": f"{_C[dtype.kind]}{dtype.bits}_t",
        "scale": "offset" if dtype.bits == 8 else "index",
        "type": f"sv{_C[dtype.kind]}{dtype.bits}_t",
        "label": f"{dtype}in{container}",
    }


_M = "svand_b_z(pg, m, m)"
"""A mask without the lanes of a longer strip that this one has not."""

_G = "svld1u<e>_gather_s64<scale>_u64"
_S = "svst1<e>_scatter_s64<scale>_u64"
_SUM = "svaddv_<t>(svptrue_b<bits>(), svsel_<t>(pg, a, svdup_n_<t>(-0.0)))"

_SVE = f"""
lanes     float int bool             <fixed>
vlmax     float int bool             svptrue_b<c>()
below     float int                  svwhilelt_b<c>_s64(a, b)
in_register  float int               svcnt<cc>()
at_work   float int                  svcntp_b<c>(pg, pg)

splat     float int                  svdup_n_<t>(a)
iota      int@128                    svindex_<t>(0, 1)
iota      int                        svreinterpret_<t>_<ct>(svindex_<ct>(0, 1))
load      float@128 int@128          svld1_<t>(pg, p)
load_if   float@128 int@128          svld1_<t>({_M}, p)
store     float@128 int@128          svst1_<t>(pg, p, a)
store_if  float@128 int@128          svst1_<t>({_M}, p, a)
# lanes that are narrower than their containers; floats must not be read as integers
load      f32                        load_f32in64(pg, p)
load_if   f32                        load_f32in64({_M}, p)
store     f32                        store_f32in64(pg, p, a)
store_if  f32                        store_f32in64({_M}, p, a)
load      int                        svreinterpret_<t>_<ct>(svld1u<e>_<ct>(pg, (const <u> *)p))
load_if   int                        svreinterpret_<t>_<ct>(svld1u<e>_<ct>({_M}, (const <u> *)p))
store     int                        svst1<e>_<ct>(pg, (<u> *)p, svreinterpret_<ct>_<t>(a))
store_if  int                        svst1<e>_<ct>({_M}, (<u> *)p, svreinterpret_<ct>_<t>(a))
# offsets are as wide as containers can be
gather    f64@128 int64@128          svld1_gather_s64index_<t>(pg, p, a)
gather_if  f64@128 int64@128         svld1_gather_s64index_<t>({_M}, p, a)
scatter   f64@128 int64@128          svst1_scatter_s64index_<t>(pg, p, a, b)
scatter_if  f64@128 int64@128        svst1_scatter_s64index_<t>({_M}, p, a, b)
gather    f32@=64 int32@=64 int16@=32 int8@=16  svreinterpret_<t>_u64({_G}(pg, (const <u> *)p, a))
gather_if  f32@=64 int32@=64 int16@=32 int8@=16  svreinterpret_<t>_u64({_G}({_M}, (const <u> *)p, a))
scatter   f32@=64 int32@=64 int16@=32 int8@=16  {_S}(pg, (<u> *)p, a, svreinterpret_u64_<t>(b))
scatter_if  f32@=64 int32@=64 int16@=32 int8@=16  {_S}({_M}, (<u> *)p, a, svreinterpret_u64_<t>(b))
keep_tail  float int                 svsel_<t>(pg, a, c)
keep_tail  bool                      svsel_b(pg, a, c)
fma_tail   float                     svmla_<t>_m(pg, c, a, b)
fma_tail_s  float                    svmla_n_<t>_m(pg, c, a, b)

add       float int                  svadd_<t>_x(pg, a, b)
add_s     float int                  svadd_n_<t>_x(pg, a, b)
sub       float int                  svsub_<t>_x(pg, a, b)
sub_s     float int                  svsub_n_<t>_x(pg, a, b)
rsub_s    float int                  svsubr_n_<t>_x(pg, a, b)
mul       float int                  svmul_<t>_x(pg, a, b)
mul_s     float int                  svmul_n_<t>_x(pg, a, b)
div       float                      svdiv_<t>_x(pg, a, b)
div_s     float                      svdiv_n_<t>_x(pg, a, b)
quot      int32 int64                svdiv_<t>_x(pg, a, b)
quot_s    int32 int64                svdiv_n_<t>_x(pg, a, b)
rdiv_s    float                      svdivr_n_<t>_x(pg, a, b)
rest      int32 int64                svmls_<t>_x(pg, a, svdiv_<t>_x(pg, a, b), b)
sqrt      float                      svsqrt_<t>_x(pg, a)
floor     float                      svrintm_<t>_x(pg, a)
ceil      float                      svrintp_<t>_x(pg, a)
round     float                      svrintn_<t>_x(pg, a)
neg       float signed               svneg_<t>_x(pg, a)
abs       float signed               svabs_<t>_x(pg, a)
fma       float                      svmad_<t>_x(pg, a, b, c)
fma_s     float                      svmla_n_<t>_x(pg, c, a, b)
fnma      float                      svmls_<t>_x(pg, c, a, b)
fms       float                      svnmsb_<t>_x(pg, a, b, c)
max       float int                  svmax_<t>_x(pg, a, b)
min       float int                  svmin_<t>_x(pg, a, b)
max_s     int                        svmax_n_<t>_x(pg, a, b)
min_s     int                        svmin_n_<t>_x(pg, a, b)
max_fast  float                      svmax_<t>_x(pg, a, b)
min_fast  float                      svmin_<t>_x(pg, a, b)
and       int                        svand_<t>_x(pg, a, b)
or        int                        svorr_<t>_x(pg, a, b)
xor       int                        sveor_<t>_x(pg, a, b)
and_s     int                        svand_n_<t>_x(pg, a, b)
or_s      int                        svorr_n_<t>_x(pg, a, b)
xor_s     int                        sveor_n_<t>_x(pg, a, b)
not       int                        svnot_<t>_x(pg, a)
shl_i     int                        svlsl_n_<t>_x(pg, a, b)
shr_i     unsigned                   svlsr_n_<t>_x(pg, a, b)
sar_i     signed                     svasr_n_<t>_x(pg, a, b)
shl       unsigned                   svlsl_<t>_x(pg, a, b)
shl       signed                     svlsl_<t>_x(pg, a, svreinterpret_<ut>_<t>(b))
shr       unsigned                   svlsr_<t>_x(pg, a, b)
sar       signed                     svasr_<t>_x(pg, a, svreinterpret_<ut>_<t>(b))

quads     i32                        svld1_s32(pg, (const int32_t *)p)
dot_ii    i32                        dot_ii_sve(a, b, c)
dot_ui    i32                        dot_ui_sve(a, b, c)
dot_uu    i32                        dot_uu_sve(a, b, c)
dot_ii    u32                        svreinterpret_u32_s32(dot_ii_sve(a, b, svreinterpret_s32_u32(c)))
dot_ui    u32                        svreinterpret_u32_s32(dot_ui_sve(a, b, svreinterpret_s32_u32(c)))
dot_uu    u32                        svreinterpret_u32_s32(dot_uu_sve(a, b, svreinterpret_s32_u32(c)))
select    float int                  svsel_<t>(a, b, c)
true      bool                       pg
false     bool                       svpfalse_b()
splat     bool                       svand_b_z(pg, pg, svdup_n_b<c>(a))
and       bool                       svand_b_z(pg, a, b)
or        bool                       svorr_b_z(pg, a, b)
xor       bool                       sveor_b_z(pg, a, b)
not       bool                       svnot_b_z(pg, a)
any       bool                       svptest_any(pg, a)
all       bool                       !svptest_any(pg, svnot_b_z(pg, a))

bitcast   f32<int32 f64<int64 int32<f32 int64<f64  svreinterpret_<t>_<from_t>(a)
bitcast   signed<unsigned unsigned<signed  svreinterpret_<t>_<from_t>(a)
convert   float<int32 float<int64 int32<float int64<float  svcvt_<t>_<from_t>_x(pg, a)
convert   f64<f32 f32<f64            svcvt_<t>_<from_t>_x(pg, a)
convert   i16<i8 i32<i8 i64<i8 i32<i16 i64<i16 i64<i32  svext<from_e>_<t>_x(pg, svreinterpret_<t>_<from_t>(a))
convert   u16<u8 u32<u8 u64<u8 u32<u16 u64<u16 u64<u32  svext<from_e>_<t>_x(pg, svreinterpret_<t>_<from_t>(a))
convert   i8<i16 i8<i32 i8<i64 i16<i32 i16<i64 i32<i64  svreinterpret_<t>_<from_t>(a)
decode    f32<u16                    svcvt_f32_f16_x(pg, svreinterpret_f16_u16(a))
encode    u16<f32                    svreinterpret_u16_f16(svcvt_f16_f32_x(pg, a))

# a lane that is not at work would count as +0
reduce_add  float                    {_SUM}
reduce_add  int                      (<n>)svaddv_<t>(pg, a)
reduce_max  float int                svmaxv_<t>(pg, a)
reduce_min  float int                svminv_<t>(pg, a)
reduce_max_fast  float               svmaxv_<t>(pg, a)
reduce_min_fast  float               svminv_<t>(pg, a)
"""
_SVE += "".join(
    f"{op}  float int  svcmp{op}_<t>(pg, a, b)\n{op}_s  float int  svcmp{op}_n_<t>(pg, a, b)\n"
    for op in ("eq", "ne", "lt", "le", "gt", "ge")
)

_HELPERS = {
    "load_f32in64": """\
// floats from p on, each in the low half of 64 bits
static inline svfloat32_t load_f32in64(svbool_t pg, const float *p)
{
    const svfloat32_t a = svld1_f32(svuzp1_b32(pg, svpfalse_b()), p);
    return svzip1_f32(a, a);
}
""",
    "store_f32in64": """\
// floats from p on, each from the low half of 64 bits
static inline void store_f32in64(svbool_t pg, float *p, svfloat32_t a)
{
    svst1_f32(svuzp1_b32(pg, svpfalse_b()), p, svuzp1_f32(a, a));
}
""",
}

SVE = Isa(
    name="sve",
    target=Target("sve", 128, "vl", registers=32, streams=False, dots=1),
    words=_words,
    table=tuple(rows(_SVE)),
    base=C,
    most_bits=128,
    least_bits=1,
    header="arm_sve.h",
    options=("-march=armv8.2-a+sve",),
    architecture="aarch64",
    features=frozenset({"sve"}),
    cross_options=("-mcpu=generic+v8_2a+sve", "-fno-vectorize"),
    emulator_options=("-cpu", "max,sve-default-vector-length={bytes}"),
    lengths=(128, 256, 512, 1024, 2048),
    active="pg",
    active_type="svbool_t",
    gathers=True,
    helpers=_HELPERS | dot_helpers("sve"),
)
