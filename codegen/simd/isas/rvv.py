"""RVV, the vector extension of RISC-V. The source of the names and meanings is the RISC-V Vector C Intrinsics.

A vector of so many lanes takes the group of registers (LMUL) that holds them where registers have 128 bits. Longer
registers hold more, and a loop that leaves the number of lanes open takes as many as there are. `vfmax` gives a
number where one operand is NaN, so it is no `max` of a lowered program, in which NaN comes through. Truncation
rounds the absolute value down, because QEMU 7 stops at `vfcvt.rtz`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.c.dialect import rows
from dojoir.codegen.c.spelling import C
from dojoir.codegen.lir.program import Type
from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.target import Target

_C = {"f": "float", "i": "int", "u": "uint"}


def _group(bits: int) -> str:
    """The name of the group of registers for so many bits at 128 a register."""
    return f"m{bits // 128}" if bits >= 128 else f"mf{128 // bits}"


def _words(type: Type) -> Mapping[str, str]:
    """t: the type in names; m: the group; n: the ratio that names the masks; u: the letter of unsigned operations.
    Also e: bits of an element; low, high: the least and greatest number; m64: the group for i64 in these lanes."""
    dtype = type.dtype
    lanes = 1 << (type.lanes - 1).bit_length()
    words = {"n": str(128 // lanes), "m64": _group(lanes * 64), "m8": _group(lanes * 8)}
    if dtype.kind == "b":
        return words | {"type": f"vbool{128 // lanes}_t"}
    name, group = f"{dtype.kind}{dtype.bits}", _group(lanes * dtype.bits)
    unsigned = dtype.kind == "u"
    limits = ("0", f"UINT{dtype.bits}_MAX") if unsigned else (f"INT{dtype.bits}_MIN", f"INT{dtype.bits}_MAX")
    zero = "vfmv_v_f" if dtype.is_float else "vmv_v_x"
    return words | {
        "t": name,
        "m": group,
        "tm": name + group,
        "label": f"{dtype}{group}",
        "u": "u" if unsigned else "",
        "e": str(dtype.bits),
        "type": f"v{_C[dtype.kind]}{dtype.bits}{group}_t",
        "low": limits[0],
        "high": limits[1],
        "zero": f"__riscv_{zero}_{name}{group}(0, vl)",
        "bytes": str(dtype.bits // 8),
        "shift": str((dtype.bits // 8).bit_length() - 1),
        "mi": f"i{dtype.bits}{group}",
        "mu": f"u{dtype.bits}{group}",
    }


_OFFSETS = "__riscv_vsll_vx_u64<m64>(__riscv_vreinterpret_v_i64<m64>_u64<m64>(a), <shift>, vl)"
_NAN = "__riscv_vcpop_m_b<n>(__riscv_vmfne_vv_<tm>_b<n>(a, a, vl), vl) != 0 ? NAN : "

_F, _X = ("vfmv_f_s", "vfmv_s_f"), ("vmv_x_s", "vmv_s_x")

_RVV = f"""
splat     float                      __riscv_vfmv_v_f_<tm>(a, vl)
splat     int                        __riscv_vmv_v_x_<tm>(a, vl)
iota      signed                     __riscv_vreinterpret_v_<mu>_<tm>(__riscv_vid_v_<mu>(vl))
iota      unsigned                   __riscv_vid_v_<tm>(vl)
load      float int                  __riscv_vle<e>_v_<tm>(p, vl)
load_if   float int                  __riscv_vle<e>_v_<tm>_mu(m, <zero>, p, vl)
store     float int                  __riscv_vse<e>_v_<tm>(p, a, vl)
store_if  float int                  __riscv_vse<e>_v_<tm>_m(m, p, a, vl)
strided   float int                  __riscv_vlse<e>_v_<tm>(p, n * <bytes>, vl)
strided_if  float int                __riscv_vlse<e>_v_<tm>_mu(m, <zero>, p, n * <bytes>, vl)
strided_store  float int             __riscv_vsse<e>_v_<tm>(p, n * <bytes>, a, vl)
strided_store_if  float int          __riscv_vsse<e>_v_<tm>_m(m, p, n * <bytes>, a, vl)
gather    float int                  __riscv_vluxei64_v_<tm>(p, {_OFFSETS}, vl)
gather_if  float int                 __riscv_vluxei64_v_<tm>_mu(m, <zero>, p, {_OFFSETS}, vl)
scatter   float int                  __riscv_vsuxei64_v_<tm>(p, {_OFFSETS}, b, vl)
scatter_if  float int                __riscv_vsuxei64_v_<tm>_m(m, p, {_OFFSETS}, b, vl)
setvl     float int                  __riscv_vsetvl_e<e><m>(n)
vlmax     float int                  __riscv_vsetvlmax_e<e><m>()
keep_tail  float int                 __riscv_vmv_v_v_<tm>_tu(c, a, vl)
fma_tail   float                     __riscv_vfmacc_vv_<tm>_tu(c, a, b, vl)
fma_tail_s  float                    __riscv_vfmacc_vf_<tm>_tu(c, b, a, vl)

add       float                      __riscv_vfadd_vv_<tm>(a, b, vl)
add_s     float                      __riscv_vfadd_vf_<tm>(a, b, vl)
sub       float                      __riscv_vfsub_vv_<tm>(a, b, vl)
sub_s     float                      __riscv_vfsub_vf_<tm>(a, b, vl)
rsub_s    float                      __riscv_vfrsub_vf_<tm>(a, b, vl)
mul       float                      __riscv_vfmul_vv_<tm>(a, b, vl)
mul_s     float                      __riscv_vfmul_vf_<tm>(a, b, vl)
div       float                      __riscv_vfdiv_vv_<tm>(a, b, vl)
div_s     float                      __riscv_vfdiv_vf_<tm>(a, b, vl)
rdiv_s    float                      __riscv_vfrdiv_vf_<tm>(a, b, vl)
sqrt      float                      __riscv_vfsqrt_v_<tm>(a, vl)
neg       float                      __riscv_vfneg_v_<tm>(a, vl)
abs       float                      __riscv_vfabs_v_<tm>(a, vl)
fma       float                      __riscv_vfmadd_vv_<tm>(a, b, c, vl)
fma_s     float                      __riscv_vfmacc_vf_<tm>(c, b, a, vl)
fnma      float                      __riscv_vfnmsac_vv_<tm>(c, a, b, vl)
max_number  float                    __riscv_vfmax_vv_<tm>(a, b, vl)
min_number  float                    __riscv_vfmin_vv_<tm>(a, b, vl)
whole_ceil   i32<f32 i64<f64         __riscv_vfcvt_x_f_v_<tm>_rm(a, __RISCV_FRM_RUP, vl)
whole_round  i32<f32 i64<f64         __riscv_vfcvt_x_f_v_<tm>_rm(a, __RISCV_FRM_RNE, vl)

add       int                        __riscv_vadd_vv_<tm>(a, b, vl)
add_s     int                        __riscv_vadd_vx_<tm>(a, b, vl)
sub       int                        __riscv_vsub_vv_<tm>(a, b, vl)
sub_s     int                        __riscv_vsub_vx_<tm>(a, b, vl)
rsub_s    int                        __riscv_vrsub_vx_<tm>(a, b, vl)
mul       int                        __riscv_vmul_vv_<tm>(a, b, vl)
mul_s     int                        __riscv_vmul_vx_<tm>(a, b, vl)
quot      int                        __riscv_vdiv<u>_vv_<tm>(a, b, vl)
quot_s    int                        __riscv_vdiv<u>_vx_<tm>(a, b, vl)
rest      int                        __riscv_vrem<u>_vv_<tm>(a, b, vl)
rest_s    int                        __riscv_vrem<u>_vx_<tm>(a, b, vl)
max       int                        __riscv_vmax<u>_vv_<tm>(a, b, vl)
min       int                        __riscv_vmin<u>_vv_<tm>(a, b, vl)
max_s     int                        __riscv_vmax<u>_vx_<tm>(a, b, vl)
min_s     int                        __riscv_vmin<u>_vx_<tm>(a, b, vl)
and       int                        __riscv_vand_vv_<tm>(a, b, vl)
and_s     int                        __riscv_vand_vx_<tm>(a, b, vl)
or        int                        __riscv_vor_vv_<tm>(a, b, vl)
or_s      int                        __riscv_vor_vx_<tm>(a, b, vl)
xor       int                        __riscv_vxor_vv_<tm>(a, b, vl)
xor_s     int                        __riscv_vxor_vx_<tm>(a, b, vl)
not       int                        __riscv_vnot_v_<tm>(a, vl)
shl_i     int                        __riscv_vsll_vx_<tm>(a, b, vl)
shr_i     unsigned                   __riscv_vsrl_vx_<tm>(a, b, vl)
sar_i     signed                     __riscv_vsra_vx_<tm>(a, b, vl)
shl       unsigned                   __riscv_vsll_vv_<tm>(a, b, vl)
shl       signed                     __riscv_vsll_vv_<tm>(a, __riscv_vreinterpret_v_<tm>_<mu>(b), vl)
shr       unsigned                   __riscv_vsrl_vv_<tm>(a, b, vl)
sar       signed                     __riscv_vsra_vv_<tm>(a, __riscv_vreinterpret_v_<tm>_<mu>(b), vl)
"""
_RVV += "".join(
    f"{op}  {types}  __riscv_vm{name}_vv_<tm>_b<n>(a, b, vl)\n"
    f"{op}_s  {types}  __riscv_vm{name}_v{x}_<tm>_b<n>(a, b, vl)\n"
    for op in ("eq", "ne", "lt", "le", "gt", "ge")
    for types, name, x in (("float", f"f{op}", "f"), ("int", f"s{op}{'' if op in ('eq', 'ne') else '<u>'}", "x"))
)
_RVV += """
select    float int                  __riscv_vmerge_vvm_<tm>(c, b, a, vl)
true      bool                       __riscv_vmset_m_b<n>(vl)
false     bool                       __riscv_vmclr_m_b<n>(vl)
splat     bool                       __riscv_vmsne_vx_u8<m8>_b<n>(__riscv_vmv_v_x_u8<m8>(a, vl), 0, vl)
and       bool                       __riscv_vmand_mm_b<n>(a, b, vl)
or        bool                       __riscv_vmor_mm_b<n>(a, b, vl)
xor       bool                       __riscv_vmxor_mm_b<n>(a, b, vl)
not       bool                       __riscv_vmnot_m_b<n>(a, vl)
any       bool                       __riscv_vcpop_m_b<n>(a, vl) != 0
all       bool                       __riscv_vcpop_m_b<n>(a, vl) == (size_t)vl

bitcast   f32<int32 f64<int64 int32<f32 int64<f64  __riscv_vreinterpret_v_<from_tm>_<tm>(a)
bitcast   signed<unsigned unsigned<signed  __riscv_vreinterpret_v_<from_tm>_<tm>(a)
convert   f32<i32 f64<i64            __riscv_vfcvt_f_x_v_<tm>(a, vl)
convert   f32<u32 f64<u64            __riscv_vfcvt_f_xu_v_<tm>(a, vl)
convert   f64<i32                    __riscv_vfwcvt_f_x_v_<tm>(a, vl)
convert   f64<u32                    __riscv_vfwcvt_f_xu_v_<tm>(a, vl)
convert   f32<i64                    __riscv_vfncvt_f_x_w_<tm>(a, vl)
convert   f32<u64                    __riscv_vfncvt_f_xu_w_<tm>(a, vl)
convert   f64<f32                    __riscv_vfwcvt_f_f_v_<tm>(a, vl)
convert   f32<f64                    __riscv_vfncvt_f_f_w_<tm>(a, vl)
whole_floor  i32<f32 i64<f64            __riscv_vfcvt_x_f_v_<tm>_rm(a, __RISCV_FRM_RDN, vl)
whole_floor  u32<f32 u64<f64            __riscv_vfcvt_xu_f_v_<tm>_rm(a, __RISCV_FRM_RDN, vl)
whole_floor  i64<f32                    __riscv_vfwcvt_x_f_v_<tm>_rm(a, __RISCV_FRM_RDN, vl)
whole_floor  u64<f32                    __riscv_vfwcvt_xu_f_v_<tm>_rm(a, __RISCV_FRM_RDN, vl)
whole_floor  i32<f64                    __riscv_vfncvt_x_f_w_<tm>_rm(a, __RISCV_FRM_RDN, vl)
whole_floor  u32<f64                    __riscv_vfncvt_xu_f_w_<tm>_rm(a, __RISCV_FRM_RDN, vl)
convert   i16<i8 i32<i16 i64<i32     __riscv_vsext_vf2_<tm>(a, vl)
convert   i32<i8 i64<i16             __riscv_vsext_vf4_<tm>(a, vl)
convert   i64<i8                     __riscv_vsext_vf8_<tm>(a, vl)
convert   u16<u8 u32<u16 u64<u32     __riscv_vzext_vf2_<tm>(a, vl)
convert   u32<u8 u64<u16             __riscv_vzext_vf4_<tm>(a, vl)
convert   u64<u8                     __riscv_vzext_vf8_<tm>(a, vl)
convert   i8<i16 i16<i32 i32<i64     __riscv_vncvt_x_x_w_<tm>(a, vl)
"""
_RVV += "".join(
    f"{op}  {types}  {guard}__riscv_{read}_<t>m1_<t>(__riscv_v{reduction}_vs_<tm>_<t>m1(a, "
    f"__riscv_{write}_<t>m1({start}, 1), vl))\n"
    for op, types, reduction, start, read, write, guard in (
        ("reduce_add", "float", "fredusum", "-0.0", *_F, ""),
        ("reduce_add", "int", "redsum", "0", *_X, ""),
        ("reduce_max", "int", "redmax<u>", "<low>", *_X, ""),
        ("reduce_min", "int", "redmin<u>", "<high>", *_X, ""),
        ("reduce_max_fast", "float", "fredmax", "-INFINITY", *_F, ""),
        ("reduce_min_fast", "float", "fredmin", "INFINITY", *_F, ""),
        ("reduce_max", "float", "fredmax", "-INFINITY", *_F, _NAN),
        ("reduce_min", "float", "fredmin", "INFINITY", *_F, _NAN),
    )
)

RVV = Isa(
    name="rvv",
    target=Target("rvv", 128, "vl", registers=32, streams=False),
    words=_words,
    table=tuple(rows(_RVV)),
    base=C,
    most_bits=1024,
    least_bits=1,
    header="riscv_vector.h",
    options=("-march=rv64gcv",),
    architecture="riscv64",
    cross_options=("-mcpu=generic_rv64+m+a+f+d+c+v", "-fno-vectorize"),
    emulator_options=("-cpu", "rv64,v=true,vlen={bits},vext_spec=v1.0"),
    lengths=(128, 256, 512, 1024),
    active="vl",
    prefix="__riscv_",
    keeping="_tu",
)
