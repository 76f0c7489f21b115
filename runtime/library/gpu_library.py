"""A library of kernels for a GPU: a source each, with the function that launches it, a header and a demo."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.emission import emit, lower
from dojoir.codegen.gpu.host_code import is_failing
from dojoir.codegen.gpu.printer import declaration
from dojoir.ir.nodes import Kernel
from dojoir.runtime.library.demo import DemoDevice, device_demo
from dojoir.runtime.library.text import LibraryPart, header
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Kit:
    """The tools for building a GPU's programs: the suffix of sources, the header of the runtime, the compiler and
    its options."""

    suffix: str
    runtime: str
    include: str
    compiler: str


KITS = {
    "cuda": Kit("cu", "cuda", "cuda_runtime.h", "nvcc -O3 -fmad=false -arch=native"),
    "hip": Kit("hip", "hip", "hip/hip_runtime.h", "hipcc -O3 -ffp-contract=off --offload-arch=native"),
}


def device_part(kernel: Kernel, target: str, name: str) -> LibraryPart:
    """A kernel of the library `name`: its source includes the header where a host compiler reads it."""
    kit = KITS[target]
    source = emit(kernel, target)
    guard = source.rindex('extern "C" int run_')
    start = source.rindex("\n//", 0, guard) + 1
    source = f'{source[:start]}#include "{name}.h"\n{source[start:]}'
    return LibraryPart(
        kernel, f"{declaration(lower(kernel, target), target)};", f"{symbol(kernel.name)}.{kit.suffix}", source
    )


def device_texts(name: str, parts: Sequence[LibraryPart], target: str) -> dict[str, str]:
    """The files of the library, by their names."""
    kit = KITS[target]
    sources = " ".join(part.file for part in parts)
    build = f"{kit.compiler} -o demo demo.{kit.suffix} {sources}"
    failing = frozenset(symbol(p.kernel.name) for p in parts if is_failing(lower(p.kernel, target)))
    return {
        **{part.file: part.source for part in parts},
        f"{name}.h": header(name, parts, kit.include),
        f"demo.{kit.suffix}": device_demo(name, parts, DemoDevice(kit.runtime, failing), kit.include, build),
    }


def shared_library_line(name: str, parts: Sequence[LibraryPart], target: str) -> str:
    """The line that makes a shared library of the sources."""
    kit = KITS[target]
    sources = " ".join(part.file for part in parts)
    pic = "-Xcompiler -fPIC" if target == "cuda" else "-fPIC"
    return f"{kit.compiler} -shared {pic} -o lib{name}.so {sources}"
