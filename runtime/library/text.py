"""The texts of a library that say how to use it: its header, and its files for CMake and pkg-config."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from dojoir.ir.format import format_buffer, format_condition
from dojoir.ir.nodes import Kernel
from dojoir.support.frozen import dataclass

STATUS = "Returns 0 when done, 1 when memory ran out, more when an index read from data was out of bounds."


@dataclass(frozen=True)
class LibraryPart:
    """A kernel of a library: its declaration in C, the file with its code, and that code; the files that this code
    calls, with theirs, where it has versions."""

    kernel: Kernel
    declaration: str
    file: str
    source: str
    more: tuple[tuple[str, str], ...] = ()

    @property
    def texts(self) -> dict[str, str]:
        """All its code, by file."""
        return {self.file: self.source, **dict(self.more)}


def including(source: str, file: str) -> str:
    """A C source that includes the header of its library first, so that the compiler compares the two."""
    return source.replace("#include ", f'#include "{file}"\n#include ', 1)


_STRIDES = (
    "// Of a strided array, the strides of all dimensions but the innermost follow the sizes, in elements:",
    "// neighbours along one are that far apart, at least as far as what is inside reaches.",
)

DEVICE_STATUS = "Returns the error of the runtime, 0 when all launches are in the stream."


def header(name: str, parts: Sequence[LibraryPart], runtime: str = "") -> str:
    """The header of the library; for kernels of a GPU it includes `runtime`."""
    guard = f"{name.upper()}_H"
    lines = [
        f"// The kernels of the library {name}. Arrays are dense, the last dimension innermost unless an order is",
        "// given; those of one call must not overlap. Floats of less than 32 bits are passed as their bits.",
        *(_STRIDES if any(buffer.strided for part in parts for buffer in part.kernel.arguments) else ()),
        f"// {DEVICE_STATUS if runtime else STATUS}",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdbool.h>",
        "#include <stdint.h>",
        *([f"#include <{runtime}>"] if runtime else []),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for part in parts:
        kernel = part.kernel
        lines.append("")
        lines += [f"// {format_buffer(buffer)}" for buffer in kernel.arguments]
        lines += [f"// where {', '.join(map(format_condition, kernel.facts))}"] if kernel.facts else []
        unproved = [f"{buffer.name} {fact}" for buffer, fact in kernel.data_facts]
        lines += [f"// no function here checks what is declared of data: {', '.join(unproved)}"] if unproved else []
        lines += _wrapped(part.declaration)
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def _wrapped(declaration: str) -> list[str]:
    return wrap(declaration, 100, subsequent_indent="    ", break_long_words=False)


def cmake(name: str, parts: Sequence[LibraryPart], options: Sequence[str] = ()) -> str:
    """The CMakeLists.txt that builds, tests and installs the library from its sources."""
    sources = "\n    ".join(file for part in parts for file in part.texts)
    return f"""\
cmake_minimum_required(VERSION 3.16)
project({name} C)
set(CMAKE_C_STANDARD 11)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
option(DOJO_NATIVE "Compile for the processor of this machine" ON)

add_library({name} SHARED
    {sources})
target_include_directories({name} PUBLIC
    $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}>
    $<INSTALL_INTERFACE:include>)
target_compile_options({name} PRIVATE {" ".join(["-O3", *options])} -ffp-contract=off
    -fno-math-errno -fno-trapping-math $<$<C_COMPILER_ID:GNU>:-fno-predictive-commoning>)
if(DOJO_NATIVE)
    target_compile_options({name} PRIVATE -march=native)
endif()
find_package(OpenMP COMPONENTS C)
if(OpenMP_C_FOUND)
    target_link_libraries({name} PRIVATE OpenMP::OpenMP_C)
endif()
target_link_libraries({name} PRIVATE m)

add_executable({name}_demo demo.c)
target_link_libraries({name}_demo PRIVATE {name} m)
enable_testing()
add_test(NAME {name}_demo COMMAND {name}_demo)

install(TARGETS {name} LIBRARY DESTINATION lib)
install(FILES {name}.h DESTINATION include)
"""


def pkg_config(name: str, parts: Sequence[LibraryPart]) -> str:
    """The .pc file of the library where it lies: header, library and this file in one folder."""
    kernels = ", ".join(part.kernel.name for part in parts)
    return f"""\
prefix=${{pcfiledir}}

Name: {name}
Description: Kernels compiled by dojoir: {kernels}
Version: 1
Cflags: -I${{prefix}}
Libs: -L${{prefix}} -l{name}
Libs.private: -lm
"""
