"""The words of CUDA and HIP: one text but for these words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from dojoir.codegen.c.precedence import Apply, Form, Prefix, Text
from dojoir.codegen.c.spelling import Spelling, scalar
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
    function: str
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
    "{name}",
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
    "__builtin_{name}",
    "__syncthreads()",
    "warp_barrier",
    "shuffle{how}",
    {name: f"atomic_{name}" for name in ATOMICS},
    64 << 10,
    "#include <hip/hip_runtime.h>",
)


@dataclass(frozen=True)
class GpuSpelling(Spelling):
    """The words of C++ on a GPU. `short`: indices have 32 bits."""

    language: Language = field(default=CUDA)
    short: bool = False

    def type(self, type: Type) -> str:
        if type.lanes > 1:
            carrier = transported(type)
            return wide_name(carrier) if self.language.name == "cuda" else str(carrier)
        return self._word(scalar(type))

    def _word(self, dtype: DType) -> str:
        """The C++ type of a value: an index that is short, a short one."""
        return TYPES["i32" if self.short and dtype.name == "i64" else dtype.name]

    def element(self, dtype: DType) -> str:
        return "unsigned char" if dtype.kind == "b" else TYPES[dtype.name]

    def const(self, type: Type, value: int | float | bool) -> Text:
        text = super().const(type, value)
        return Text(text.text, text.level) if type.dtype.bits == 64 and not text.literal else text

    def binary(self, op: str, type: Type) -> Form:
        return super().binary(op, Type(DTYPES["i32"]) if self.short and type == INDEX else type)

    def unary(self, op: str, type: Type) -> Form:
        if op == "loaded":
            return Apply(f"loaded_{type.dtype}")
        return Apply(op) if op.startswith("approx_") else super().unary(op, type)

    def convert(self, to: Type, source: Type) -> Form:
        target, given = scalar(to), scalar(source)
        if target.is_integer and given.is_float:
            return super().convert(to, source)
        return Prefix(f"({self._word(target)})")

    def bitcast(self, to: Type, source: Type) -> Form:
        target, given = scalar(to), scalar(source)
        if target.is_integer and given.is_integer:
            return Prefix(f"({TYPES[target.name]})")
        return Apply(f"{given}_as_{target}")

    def _complement(self, dtype: DType) -> Form:
        return Prefix(f"({TYPES[dtype.name]})~") if dtype.name in ("u8", "u16") else Prefix("~")

    def _library(self, name: str, dtype: DType) -> Form:
        plain = f"{name}f" if dtype.bits == 32 else name
        return Apply(self.language.function.format(name=plain))


def transported(type: Type) -> Type:
    """The type that moves a few neighbours in memory: themselves, or where C++ has no such type, their words."""
    return type if type.lanes <= 4 else Type(DTYPES["u32"], type.lanes * type.dtype.itemsize // 4)


def wide_name(type: Type) -> str:
    """The name of the type for a few neighbours in memory that one access moves."""
    words = {"f32": "float", "f64": "double", "i32": "int", "u32": "uint", "i16": "short", "u16": "ushort"}
    words |= {"i8": "char", "u8": "uchar", "i64": "longlong", "u64": "ulonglong", "bool": "uchar"}
    return f"{words[type.dtype.name]}{type.lanes}"
