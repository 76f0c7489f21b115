"""The words of CUDA and HIP: one text but for these words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache

from dojoir.codegen.c.dialect import Dialect, rows
from dojoir.codegen.c.precedence import Form, Text
from dojoir.codegen.c.spelling import C, Spelling
from dojoir.codegen.lir.operations import OPERATIONS
from dojoir.codegen.lir.program import INDEX, Type
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.support.frozen import dataclass

TYPES = {
    "f64": "double", "f32": "float",
    "i64": "i64", "i32": "int", "i16": "short", "i8": "signed char",
    "u64": "u64", "u32": "unsigned", "u16": "unsigned short", "u8": "unsigned char",
    "bool": "bool",
}  # fmt: skip
"""The C++ name of each type, without headers, with two of the text's own."""

GUARD = "#if !defined(__CUDACC_RTC__) && !defined(__HIPCC_RTC__) && !defined(DOJOIR_HARNESS)"
"""Before what a host compiler alone takes."""


@dataclass(frozen=True)
class Language:
    """The words of a GPU's C++: of the host's calls, numbers of threads and blocks, and mathematical functions.
    A kernel may declare so much shared memory as `declared_bytes`; more is asked for by a launch."""

    name: str
    runtime: str
    about: str
    compiler: str
    warp: int
    thread: str
    block: str
    library: str
    barrier: str
    warp_barrier: str
    shuffle: str
    atomics: Mapping[str, str]
    declared_bytes: int
    header: str = ""


ATOMICS = ("add", "max", "min", "and", "or", "xor", "cas")
"""The operations that threads do to memory in one step."""

CUDA = Language(
    "cuda",
    "cuda",
    "CUDA C++",
    "nvcc -O3 -fmad=false -arch=native",
    32,
    "threadIdx.x",
    "blockIdx.{axis}",
    "",
    "__syncthreads()",
    "__syncwarp",
    "__shfl{how}_sync",
    {name: f"atomic{name.title() if name != 'cas' else 'CAS'}" for name in ATOMICS},
    48 << 10,
)
HIP = Language(
    "hip",
    "hip",
    "HIP C++",
    "hipcc -O3 -ffp-contract=off --offload-arch=native",
    64,
    "threadIdx.x",
    "blockIdx.{axis}",
    "__builtin_",
    "__syncthreads()",
    "warp_barrier",
    "shuffle{how}",
    {name: f"atomic_{name}" for name in ATOMICS},
    64 << 10,
    "#include <hip/hip_runtime.h>",
)


_ROWS = """
loaded    number                     loaded_<t>(a)
approx_exp2  f32                     approx_exp2(a)
approx_rsqrt  f32                    approx_rsqrt(a)
max_number  f32                      <lib>fmaxf(a, b)
min_number  f32                      <lib>fminf(a, b)
"""


@cache
def _dialect(library: str, short: bool) -> Dialect:
    """C++ without headers on a GPU, with a beginning of the names of its library. `short`: indices have 32 bits."""

    def words(type: Type) -> Mapping[str, str]:
        own = TYPES[type.dtype.name]
        held = TYPES["i32"] if short and type == INDEX else own
        return {**C.words(type), "type": held, "plain": own, "lib": library}

    return Dialect("C++ on a GPU", words, tuple(rows(_ROWS)), C)


@dataclass(frozen=True)
class GpuSpelling(Spelling):
    """The words of C++ on a GPU. `short`: indices have 32 bits."""

    language: Language = field(default=CUDA)
    short: bool = False

    def type(self, type: Type) -> str:
        if type.lanes > 1:
            carrier = transported(type)
            return wide_name(carrier) if self.language.name == "cuda" else str(carrier)
        return super().type(type)

    def element(self, dtype: DType) -> str:
        return "unsigned char" if dtype.kind == "b" else TYPES[dtype.name]

    def const(self, type: Type, value: int | float | bool) -> Text:
        text = super().const(type, value)
        return Text(text.text, text.level) if type.dtype.bits == 64 and not text.literal else text

    def form(self, op: str, type: Type, source: Type | None = None) -> Form:
        two = len(OPERATIONS[op].operands) == 2
        return super().form(op, Type(DTYPES["i32"]) if self.short and two and type == INDEX else type, source)


def spelling(language: Language, short: bool = False) -> GpuSpelling:
    return GpuSpelling(_dialect(language.library, short), language, short)


def transported(type: Type) -> Type:
    """The type that moves a few neighbours in memory: themselves, or where C++ has no such type, their words."""
    return type if type.lanes <= 4 else Type(DTYPES["u32"], type.lanes * type.dtype.itemsize // 4)


def wide_name(type: Type) -> str:
    """The name of the type for a few neighbours in memory that one access moves."""
    words = {"f32": "float", "f64": "double", "i32": "int", "u32": "uint", "i16": "short", "u16": "ushort"}
    words |= {"i8": "char", "u8": "uchar", "i64": "longlong", "u64": "ulonglong", "bool": "uchar"}
    return f"{words[type.dtype.name]}{type.lanes}"
