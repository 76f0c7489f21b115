"""Running printed C: as a program under the sanitizers, which stop at anything undefined, and as the shared
library that a user gets."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dojoir.codegen.c.prelude import C_TYPES
from dojoir.codegen.c.printer import print_c
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.lir import program as lir
from dojoir.runtime.build.c_toolchain import Toolchain, build_shared

Arrays = Mapping[str, NDArray[Any]]

# The last: to leave a loop scalar is no fault.
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-pass-failed")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class Machine:
    """A compiler at work in `folder`."""

    toolchain: Toolchain
    folder: Path

    def check_warnings(self, source: str, *more: str) -> None:
        """Asserts that a source compiles as strict C11 without a warning."""
        openmp = [option for option in self.toolchain.options if option.startswith("-fopenmp")]
        path = self._write("warnings.c", source)
        options = ["-std=c11", "-O2", *WARNINGS, *openmp, *more]
        done = self._call(*self.toolchain.command, *options, "-c", "-o", str(self.folder / "warnings.o"), str(path))
        assert done.returncode == 0, done.stderr + source

    def run_checked(self, program: lir.Program, arrays: Arrays, **sizes: int) -> tuple[int, Arrays]:
        """The status and the arrays afterwards of a run with exactly the memory of the arrays, under the
        sanitizers for addresses, leaks and undefined behaviour."""
        source = print_c(program)
        text = source + "\n" + _main(program, arrays, sizes)
        path, data, run = self._write("main.c", text), self.folder / "data", self.folder / "main"
        data.write_bytes(b"".join(array.tobytes() for array in arrays.values()))
        options = ["-std=c11", "-O1", "-w", "-ffp-contract=off", *_sanitizers(self.toolchain)]
        done = self._call(*self.toolchain.command, *options, "-o", str(run), str(path), "-lm")
        assert done.returncode == 0, done.stderr + text
        done = self._call(str(run), str(data))
        assert done.returncode == 0, done.stderr + text
        left = data.read_bytes()
        results: dict[str, NDArray[Any]] = {}
        for name, array in arrays.items():
            results[name] = np.frombuffer(left[: array.nbytes], array.dtype).reshape(array.shape)
            left = left[array.nbytes :]
        return int(np.frombuffer(left, np.int32)[0]), results

    def run_shared(self, program: lir.Program, arrays: Arrays, **sizes: int) -> tuple[int, Arrays]:
        """The same through a shared library, built as for a user."""
        out = self.folder / f"{len(list(self.folder.iterdir()))}.so"  # no library is ever loaded for another
        build_shared(print_c(program), out, toolchain=self.toolchain)
        library = ctypes.CDLL(str(out))
        function = getattr(library, symbol(program.name))
        function.restype = ctypes.c_int32
        by_value = {var.name for var in program.by_value}
        results = {name: array.copy() for name, array in arrays.items()}
        values: list[object] = []
        for array in program.arguments:
            given = results[array.name]
            if array.name in by_value:
                values.append(np.ctypeslib.as_ctypes_type(given.dtype)(given.item()))
            else:
                values.append(given.ctypes.data_as(ctypes.c_void_p))
        values += [ctypes.c_int64(sizes[size.name]) for size in program.sizes]
        return int(function(*values)), results

    def macros(self, *headers: str) -> list[str]:
        """What a program that includes these headers must not use as a name of its own."""
        path = self._write("headers.c", "".join(f"#include <{header}>\n" for header in headers))
        done = self._call(*self.toolchain.command, "-std=c11", "-dM", "-E", str(path))
        names = re.findall(r"^#define (\w+)", done.stdout, re.MULTILINE)
        return [name for name in names if not name.startswith("_")]

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def _call(self, *command: str) -> subprocess.CompletedProcess[str]:
        # A request for too much memory is to give NULL, as it does without the sanitizer.
        env = os.environ | {"ASAN_OPTIONS": "allocator_may_return_null=1"}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


@cache
def _sanitizers(toolchain: Toolchain) -> tuple[str, ...]:
    """The sanitizers that the compiler has: some come without their libraries."""
    command = [*toolchain.command, *SANITIZERS, "-x", "c", "-o", "/dev/null", "-"]
    done = subprocess.run(command, input="int main(void) { return 0; }", capture_output=True, text=True)
    return SANITIZERS if done.returncode == 0 else ()


def _main(program: lir.Program, arrays: Arrays, sizes: Mapping[str, int]) -> str:
    """A main() that reads the arrays from a file, calls the kernel, and writes them back with the status."""
    by_value = {var.name: C_TYPES[var.type.dtype.name] for var in program.by_value}
    reads, writes, frees, values = [], [], [], []
    for n, array in enumerate(program.arguments):
        size = arrays[array.name].nbytes
        reads.append(f"void *a{n} = malloc({size}); if (fread(a{n}, 1, {size}, file) != {size}) return 101;")
        writes.append(f"fwrite(a{n}, 1, {size}, file);")
        frees.append(f"free(a{n});")
        values.append(f"*({by_value[array.name]} *)a{n}" if array.name in by_value else f"a{n}")
    values += [f"INT64_C({sizes[size.name]})" for size in program.sizes]
    lines = [
        'FILE *file = fopen(argv[argc - 1], "r+b");',
        *reads,
        f"int32_t result = {symbol(program.name)}({', '.join(values)});",
        "rewind(file);",
        *writes,
        "fwrite(&result, 4, 1, file);",
        "fclose(file);",
        *frees,
        "return 0;",
    ]
    body = "\n".join(f"    {line}" for line in lines)
    return f"#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv)\n{{\n{body}\n}}\n"
