"""The prelude of the kernels: the types, numbers and helper functions of the text that no header gives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dojoir.codegen.c.prelude import prelude
from dojoir.codegen.gpu.dialects import ATOMICS, GUARD, TYPES, Language
from dojoir.ir.buffer_rules import SWIZZLES
from dojoir.ir.dtypes import DTYPES

_TYPES = {
    "int64_t": "i64", "int32_t": "int", "int16_t": "short", "int8_t": "signed char",
    "uint64_t": "u64", "uint32_t": "unsigned", "uint16_t": "unsigned short", "uint8_t": "unsigned char",
}  # fmt: skip

_NUMBERS = {
    "INT8_MIN": "(-128)", "INT8_MAX": "127", "INT16_MIN": "(-32768)", "INT16_MAX": "32767",
    "INT32_MIN": "(-2147483647 - 1)", "INT32_MAX": "2147483647",
    "INT64_MIN": "(-9223372036854775807LL - 1)", "INT64_MAX": "9223372036854775807LL",
    "UINT8_MAX": "255", "UINT16_MAX": "65535", "UINT32_MAX": "4294967295u", "UINT64_MAX": "18446744073709551615ull",
}  # fmt: skip

_FLOATS = {
    "cuda": {"INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fc00000)"},
    "hip": {"INFINITY": "__builtin_huge_valf()", "NAN": '__builtin_nanf("")'},
}

_APPROXIMATE = {
    "approx_exp2": (
        "__builtin_exp2f(a)",
        {
            "cuda": 'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));',
            "hip": "result = __builtin_amdgcn_exp2f(a);",
        },
    ),
    "approx_rsqrt": (
        "1.0f / __builtin_sqrtf(a)",
        {
            "cuda": 'asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));',
            "hip": "result = __builtin_amdgcn_rsqf(a);",
        },
    ),
}
"""Instructions that are right but for their last bits, and what the harness takes for them."""

_HARDWARE = {
    "max_f32": ("__CUDA_ARCH__ >= 800", "float", '"max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b)'),
    "min_f32": ("__CUDA_ARCH__ >= 800", "float", '"min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b)'),
    **{
        f"f32_to_{kind}": (
            when,
            "unsigned short",
            '"{ .reg .pred nan; setp.nan.f32 nan, %1, %1;"\n'
            f'        " cvt.rn.{kind}.f32 %0, %1; @nan mov.b16 %0, {nan}; }}"\n'
            '        : "=h"(result) : "f"(x)',
        )
        for kind, when, nan in (
            ("f16", "defined(__CUDA_ARCH__)", "0x7e00"),
            ("bf16", "__CUDA_ARCH__ >= 800", "0x7fc0"),
        )
    },
    "f16_to_f32": ("defined(__CUDA_ARCH__)", "float", '"cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(stored)'),
    **{
        f"f8{kind}_to_f32": (
            "__CUDA_ARCH__ >= 890",
            "float",
            f'"{{ .reg .b32 both; .reg .b16 low, high; cvt.rn.f16x2.{kind}x2 both, %1;"\n'
            '        " mov.b32 {low, high}, both; cvt.f32.f16 %0, low; }"\n'
            '        : "=f"(result) : "h"((unsigned short)stored)',
        )
        for kind in ("e4m3", "e5m2")
    },
    "sat_f32_to_f8e4m3": (
        "__CUDA_ARCH__ >= 890",
        "unsigned short",
        '"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(0.0f), "f"(x)',
    ),
    "sat_f32_to_f4e2m1": (
        "defined(__CUDA_ARCH_FEAT_SM100_ALL)",
        "unsigned",
        '"{ .reg .b8 pair; cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2; cvt.u32.u8 %0, pair; }"\n'
        '        : "=r"(result) : "f"(0.0f), "f"(x)',
    ),
}
"""Functions that are one instruction on some NVIDIA GPUs, or one and a test for NaN, and on which. They give the
bits that their text gives, but for the sign and payload of a NaN that is widened."""

_FUNCTION = """\
static __device__ inline float {name}(float a)
{{
    float result;
#ifdef DOJOIR_HARNESS
    result = {harness};
#else
    {text}
#endif
    return result;
}}

"""

_DOT = """\
static __device__ inline int dot4_{kinds}(int a, int b, int c)  // c and four products of the bytes of a and b
{{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
    asm("dp4a.{cuda} %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
#else
    for (int n = 0; n < 32; n += 8)
        c = (int)((unsigned)c + (unsigned)(({one})(a >> n) * ({other})(b >> n)));
#endif
    return c;
}}

"""

_DOTS = {"i8_i8": "s32.s32", "u8_u8": "u32.u32", "u8_i8": "u32.s32"}
"""The sums of four products of bytes, by the types of these, and those of the instruction of NVIDIA GPUs."""

_SHARED_MEMORY = {
    "start_copy": """\
// of N bytes to shared memory
template <int N> static __device__ inline void start_copy(void *to, const void *from)
{
#ifdef DOJOIR_HARNESS
    simt_start_copy(to, from, N);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if (N == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
        :: "r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
        :: "r"(at), "l"(from), "n"(N) : "memory");
#else
    for (int n = 0; n < N / 4; n++)
        ((unsigned *)to)[n] = ((const unsigned *)from)[n];
#endif
}

""",
    "commit_copies": """\
static __device__ inline void commit_copies()  // those started since the last time are a group
{
#ifdef DOJOIR_HARNESS
    simt_commit_copies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

""",
    "fence_proxy": """\
static __device__ inline void fence_proxy()  // what this thread wrote to shared memory, the asynchronous proxy sees
{
#ifdef DOJOIR_HARNESS
    simt_fence_proxy();
#else
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

""",
    **{
        f"swizzled{row}": f"""\
// where an element of so many bytes lies if chunks of 16 bytes are exchanged in blocks of eight rows of {row}
template <int BYTES> static __device__ inline int swizzled{row}(unsigned n)
{{
    return (int)(n ^ n * BYTES / 128 % {row // 16} * (16 / BYTES));
}}

"""
        for row in SWIZZLES
    },
    "shared_matrix": """\
// a matrix in shared memory in rows of 128 bytes whose chunks are exchanged, eight rows together, and how many
// bytes apart parts of so many columns are
static __device__ inline u64 shared_matrix(unsigned at, unsigned apart)
{
    return (u64)((at & 0x3ffff) >> 4) | (u64)(apart >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

""",
    "land_copies": """\
template <int N> static __device__ inline void land_copies()  // waits for all groups but the last N
{
#ifdef DOJOIR_HARNESS
    simt_land_copies(N);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}

""",
}

_SWAPPED = """\
template <class W, class T> static __device__ inline bool swapped(T *at, T &seen, T made)  // if it is as `seen`
{{
    union {{ T value; W bits; }} before, after;
    before.value = seen;
    after.value = made;
    const W bits = {cas}((W *)at, before.bits, after.bits);
    const bool done = bits == before.bits;
    before.bits = bits;
    seen = before.value;
    return done;
}}

"""

_LOADED = """\
static __device__ inline {kind} loaded_{dtype}({kind} a)  // a compiler loads it where this stands, and not later
{{{before}
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+{cuda}"({held}));
#elif defined(__HIP_DEVICE_COMPILE__)
    asm volatile("" : "+v"({held}));
#elif defined(DOJOIR_HARNESS)
    asm volatile("" : "+m"({held}));
#endif
    return {result};
}}

"""

_REGISTERS = {"f64": "d", "f32": "f", "i64": "l", "u64": "l", **dict.fromkeys(("i32", "u32"), "r")}
_REGISTERS |= dict.fromkeys(("i8", "u8", "i16", "u16"), "r")
"""The letters of registers in assembly for NVIDIA GPUs, by what they hold. Not all GPUs have one for narrow
integers: they are held as `int`."""

_BITS = re.compile(
    r"\(([^()]+) a\)\n\{\n    ([^\n]+) bits;\n    memcpy\(&bits, &a, sizeof bits\);\n    return bits;\n\}"
)


def for_host(code: str) -> str:
    """Text of the C printer in the words of C++ on the host, with the helper functions that it calls before it, by
    names that those of the device do not have."""
    helpers = prelude(" ".join(re.findall(r"\b\w+_[a-z]\d+(?=\()", code)))  # of numbers: as `min_i64`
    text = f"{helpers}\n{code}" if helpers else code
    for name in re.findall(r"^static inline [^(]*?(\w+)\(", helpers, re.MULTILINE):
        text = re.sub(rf"\b{name}\b", f"host_{name}", text)
    return _typed(text)


def reworded(code: str) -> str:
    """Text of the C printer in the words of C++ on a device."""
    return re.sub(r"^static inline ", "static __device__ inline ", _typed(code), flags=re.MULTILINE)


def with_hardware(code: str, language: Language) -> str:
    """Text of a device whose functions are those of the hardware where it has them."""
    for name, (when, kind, text) in _HARDWARE.items() if language.name == "cuda" else ():
        head = rf"^static __device__ inline ([^(\n]*)\b{name}\([^)\n]*\)\n{{\n(.*?)^}}\n"
        found = re.search(head, code, re.DOTALL | re.MULTILINE)
        if found is not None:
            to = "" if found[1].strip() == kind else f"({found[1].strip()})"
            own = f"    {kind} result;\n    asm({text});\n    return {to}result;\n"
            code = f"{code[: found.start(2)]}#if {when}\n{own}#else\n{found[2]}#endif\n{code[found.end(2) :]}"
    return code


def _typed(code: str) -> str:
    """Text of the C printer with the types of C++ that has no headers."""
    code = _BITS.sub(
        r"(\1 a)\n{\n    union { \1 from; \2 to; } bits;\n    bits.from = a;\n    return bits.to;\n}", code
    )
    code = re.sub(r"\bu?int(8|16|32|64)_t\b", lambda found: _TYPES[found[0]], code)
    return re.sub(r"\b_Bool\b", "bool", code)


def support(code: str, language: Language) -> Iterator[str]:
    """The lines that `code` needs before it."""
    used = set(re.findall(r"[A-Za-z_]\w*", code))
    if "swapped" in used:
        used.add(language.atomics["cas"])
    if language.header:
        yield from (GUARD, language.header, "#endif", "")
    yield "typedef long long i64;"
    if {"u64", "shared_matrix"} & used or language.name == "hip":
        yield "typedef unsigned long long u64;"
    if language.name == "hip":
        yield from _hip(used, language.warp)
        for kind, lanes in sorted(set(re.findall(r"\b([fiu]\d+)x([24])\b", code))):
            size = DTYPES[kind].itemsize * int(lanes)
            parts = ", ".join("xyzw"[: int(lanes)])
            yield f"struct __align__({size}) {kind}x{lanes} {{ {TYPES[kind]} {parts}; }};"
    for name, number in {**_FLOATS[language.name], **_NUMBERS}.items():
        if name in used:
            yield f"#ifndef {name}"
            yield f"#define {name} {number}"
            yield "#endif"
    yield ""
    for name, (harness, words) in _APPROXIMATE.items():
        if name in used:
            yield from _FUNCTION.format(name=name, harness=harness, text=words[language.name]).splitlines()
    if "swapped" in used:
        yield from _SWAPPED.format(cas=language.atomics["cas"]).splitlines()
    for dtype, register in _REGISTERS.items():
        if f"loaded_{dtype}" in used:
            kind, narrow = TYPES[dtype], DTYPES[dtype].bits < 32
            own = ("\n    int held = a;", "held", f"({kind})held") if narrow else ("", "a", "a")
            before, held, result = own
            yield from _LOADED.format(
                kind=kind, dtype=dtype, cuda=register, before=before, held=held, result=result
            ).splitlines()
    for name, text in _SHARED_MEMORY.items():
        if name in used:
            yield from text.splitlines()
    for kinds, cuda in _DOTS.items():
        if f"dot4_{kinds}" in used:
            one, other = (TYPES[kind] for kind in kinds.split("_"))
            yield from _DOT.format(kinds=kinds, cuda=cuda, one=one, other=other).splitlines()


def _hip(used: set[str], warp: int) -> Iterator[str]:
    """Functions on the lanes of a wavefront, which the headers of HIP have not in all versions; and the harness's
    words for the same."""
    functions = [(name, harness, text) for name, harness, text in _HIP if name in used]
    yield "#ifdef DOJOIR_HARNESS"
    yield from (f"#define {harness}" for _, harness, _ in functions)
    yield "#else"
    yield from _WAVEFRONT.format(lanes=warp).splitlines()
    if any("lane_x" in text or "moved" in text for _, _, text in functions):
        yield from _LANES.splitlines()
    for _, _, text in functions:
        yield from text.splitlines()
    yield "#endif"


_WAVEFRONT = """\
#if defined(__AMDGCN__) && defined(__AMDGCN_WAVEFRONT_SIZE)
#if __AMDGCN_WAVEFRONT_SIZE != {lanes}
#error "this text is for wavefronts of {lanes} lanes: compile it with -mwavefrontsize{lanes}"
#endif
#elif defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#error "this text is for wavefronts of {lanes} lanes, and this GPU has others"
#endif
"""
"""Newer compilers do not say how many lanes a wavefront has, but for which family of GPUs they compile."""

_LANES = """\
static __device__ inline unsigned lane_x()
{
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
}
template <class T> static __device__ inline T moved(T a, unsigned from)  // what `a` is in another lane
{
    union { T value; int words[(sizeof(T) + 3) / 4]; } bits;
    bits.value = a;
    for (int &word : bits.words)
        word = __builtin_amdgcn_ds_bpermute((int)(4 * from), word);
    return bits.value;
}
"""

_FENCED = """\
static __device__ inline void {name}
{{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "{scope}");
    __builtin_amdgcn_{barrier}();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "{scope}");
}}
"""

_ATOMIC = """\
template <class T> static __device__ inline void atomic_{op}(T *at, T value)
{{
    __hip_atomic_fetch_{op}(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}}
"""

_HIP = (
    (
        "warp_barrier",
        "warp_barrier(mask) __syncwarp(mask)",
        _FENCED.format(name="warp_barrier(u64)", scope="wavefront", barrier="wave_barrier"),
    ),
    (
        "shuffle_xor",
        "shuffle_xor(mask, a, by) __shfl_xor_sync(mask, a, by)",
        """\
template <class T> static __device__ inline T shuffle_xor(u64, T a, unsigned by)
{
    return moved(a, lane_x() ^ by);
}
""",
    ),
    (
        "shuffle_up",
        "shuffle_up(mask, a, ...) __shfl_up_sync(mask, a, __VA_ARGS__)",
        """\
template <class T> static __device__ inline T shuffle_up(u64, T a, unsigned by, unsigned width = 64)
{
    return moved(a, lane_x() % width < by ? lane_x() : lane_x() - by);
}
""",
    ),
    (
        "shuffle",
        "shuffle(mask, a, ...) __shfl_sync(mask, a, __VA_ARGS__)",
        """\
template <class T> static __device__ inline T shuffle(u64, T a, unsigned from, unsigned width = 64)
{
    return moved(a, lane_x() / width * width + from);
}
""",
    ),
    *(
        (f"atomic_{op}", f"atomic_{op}(at, value) atomic{op.title()}(at, value)", _ATOMIC.format(op=op))
        for op in ATOMICS
        if op != "cas"
    ),
    (
        "atomic_cas",
        "atomic_cas(at, seen, made) atomicCAS(at, seen, made)",
        """\
template <class T> static __device__ inline T atomic_cas(T *at, T seen, T made)
{
    __hip_atomic_compare_exchange_strong(
            at, &seen, made, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return seen;
}
""",
    ),
)
