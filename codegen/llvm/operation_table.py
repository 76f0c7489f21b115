"""The words of LLVM IR: a row for each operation, on scalars and vectors alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial

from dojoir.codegen.c.dialect import Dialect, rows
from dojoir.codegen.lir.program import Type
from dojoir.codegen.llvm import words as text
from dojoir.support.frozen import dataclass

FAST = "reassoc nsz arcp contract afn "
"""The flags of `fp fast`. No `nnan` and `ninf`: a NaN or an infinity is still a value, not undefined."""


_NAMES = {"f32": ("ps", "d"), "f64": ("pd", "q"), "u32": ("ps", "d"), "u64": ("pd", "q")}


def _words_of_llvm(type: Type, fast: bool) -> Mapping[str, str]:
    """t: the type; m: as names of intrinsics spell it; s: the letter of operations with a sign, or without; fast:
    flags; true: in every lane. On x86: v, w: letters of a register and of its lanes; bits: of a register; n: a mask
    of its lanes; most: all bits but the sign; mode: that of rounding, where it is asked for."""
    dtype = type.dtype
    vector, word = _NAMES.get(dtype.name, ("", ""))
    return {
        "t": text.spelled(type), "m": text.mangled(type), "s": "s" if dtype.kind == "i" else "u",
        "fast": FAST if fast else "", "true": text.repeated(type, "true"), "v": vector, "w": word,
        "bits": str(dtype.bits * type.lanes), "n": f"i{max(8, type.lanes)}",
        "zero": "zeroinitializer", "mode": ", i32 4" if dtype.bits * type.lanes == 512 else "",
        "most": text.repeated(type, str((1 << (dtype.bits - 1)) - 1)),
    }  # fmt: skip


_LLVM = """
neg       float                      fneg <fast><t> a
abs       float                      <fast>@llvm.fabs.<m>(<t> a)
abs       signed                     @llvm.abs.<m>(<t> a, i1 false)
sqrt      float                      <fast>@llvm.sqrt.<m>(<t> a)
floor     float                      <fast>@llvm.floor.<m>(<t> a)
ceil      float                      <fast>@llvm.ceil.<m>(<t> a)
round     float                      <fast>@llvm.roundeven.<m>(<t> a)
fma       float                      <fast>@llvm.fma.<m>(<t> a, <t> b, <t> c)
add       float                      fadd <fast><t> a, b
sub       float                      fsub <fast><t> a, b
mul       float                      fmul <fast><t> a, b
div       float                      fdiv <fast><t> a, b
add       int                        add <t> a, b
sub       int                        sub <t> a, b
mul       int                        mul <t> a, b
div       int                        udiv <t> a, b
rem       int                        urem <t> a, b
quot      int                        <s>div <t> a, b
rest      int                        <s>rem <t> a, b
max       float                      @llvm.maximum.<m>(<t> a, <t> b)
max       int                        @llvm.<s>max.<m>(<t> a, <t> b)
min       int                        @llvm.<s>min.<m>(<t> a, <t> b)
not       bool                       xor <t> a, <true>
and       int bool                   and <t> a, b
or        int bool                   or <t> a, b
xor       int bool                   xor <t> a, b
shl       int                        shl <t> a, b
shr       int                        lshr <t> a, b
sar       int                        ashr <t> a, b
eq        float                      fcmp oeq <t> a, b
ne        float                      fcmp une <t> a, b
lt        float                      fcmp olt <t> a, b
le        float                      fcmp ole <t> a, b
gt        float                      fcmp ogt <t> a, b
ge        float                      fcmp oge <t> a, b
eq        int bool                   icmp eq <t> a, b
ne        int bool                   icmp ne <t> a, b
lt        int bool                   icmp <s>lt <t> a, b
le        int bool                   icmp <s>le <t> a, b
gt        int bool                   icmp <s>gt <t> a, b
ge        int bool                   icmp <s>ge <t> a, b
convert   int<float                  @llvm.fpto<s>i.sat.<m>.<from_m>(<from_t> a)
convert   f64<f32 f32<f16 f32<bf16   fpext <from_t> a to <t>
convert   f32<f64 f16<f32 bf16<f32   fptrunc <from_t> a to <t>
convert   float<signed               sitofp <from_t> a to <t>
convert   float<unsigned float<bool  uitofp <from_t> a to <t>
convert   int<bool                   zext <from_t> a to <t>
convert   int8<int8 int16<int16 int32<int32 int64<int64  a
convert   int16<i8 int32<i8 int64<i8 int32<i16 int64<i16 int64<i32  sext <from_t> a to <t>
convert   int16<u8 int32<u8 int64<u8 int32<u16 int64<u16 int64<u32  zext <from_t> a to <t>
convert   int8<int16 int8<int32 int8<int64 int16<int32 int16<int64 int32<int64  trunc <from_t> a to <t>
bitcast   number<number f16<u16 u16<f16 bf16<u16 u16<bf16  bitcast <from_t> a to <t>
"""

_MINIMUM = """
min       float                      @llvm.minimum.<m>(<t> a, <t> b)
"""
_AVX512 = """
# each bit as two have it of a, b and all but the sign
signed_or  u32@128,256,512 u64@128,256,512  @llvm.x86.avx512.pternlog.<w>.<bits>(<t> a, <t> b, <t> <most>, i32 232)
# LLVM's own takes integers, and knows no instruction for them
ldexp     float@128,256,512          @llvm.x86.avx512.mask.scalef.<v>.<bits>(<t> a, <t> b, <t> <zero>, <n> -1<mode>)
"""


_VNNI = """
dot_ui    int32@256,512              @llvm.x86.avx512.vpdpbusd.<bits>(<t> c, <t> a, <t> b)
"""
_MADD = """
madd      int32@256                  @llvm.x86.avx2.pmadd.wd(<16 x i16> a, <16 x i16> b)
madd      int32@512                  @llvm.x86.avx512.pmaddw.d.512(<32 x i16> a, <32 x i16> b)
"""
_DOTPROD = """
dot_ii    int32@128                  @llvm.aarch64.neon.sdot.v4i32.v16i8(<t> c, <16 x i8> a, <16 x i8> b)
dot_uu    int32@128                  @llvm.aarch64.neon.udot.v4i32.v16i8(<t> c, <16 x i8> a, <16 x i8> b)
"""


@dataclass(frozen=True)
class Llvm(Dialect):
    """LLVM IR."""

    def takes(self, type: Type) -> bool:
        return True


@cache
def llvm(fast: bool, x86: bool, avx512: bool, vnni: bool) -> Llvm:
    """The words for a processor; `fast`: with flags. LLVM's own minimum is many instructions on x86. `vnni`: it has
    sums of products of bytes."""
    own = (_VNNI if vnni else _MADD) + (_AVX512 if avx512 else "") if x86 else _MINIMUM + (_DOTPROD if vnni else "")
    words = partial(_words_of_llvm, fast=fast)
    return Llvm("LLVM for a processor", words, tuple(rows(own)), Llvm("LLVM", words, tuple(rows(_LLVM)), None))


CALL = re.compile(r"(.*)@([\w.]+)\((.*)\)")
"""Flags, name and operands, each behind its type, of a row that is a call."""
OPERAND = re.compile(r"(<[^>]*>|\S+) (\w+|-\d+|splat \([^)]*\))(?:, |$)")
