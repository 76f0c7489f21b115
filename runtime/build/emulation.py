"""Running code for another processor: a cross compiler makes a small static program, an emulator runs it.

The program reads its calls from a file and leaves arrays and statuses there. It is a child process, so whatever it
does, this process lives on.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import numpy as np

from dojoir.codegen.c.prelude import C_TYPES
from dojoir.codegen.c.printer import declaration
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.lir.program import Program
from dojoir.codegen.simd.isa_table import Isa
from dojoir.errors import Diagnostic, Note, RunError, ToolchainError
from dojoir.ir.nodes import Kernel
from dojoir.runtime.build.c_toolchain import Toolchain, build_program
from dojoir.runtime.call.layout import array_at, array_shape, passed_strides, span_of
from dojoir.runtime.call.scalars import Number, takes_value
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import temporary_folder

TIME_LIMIT = 120.0
"""Seconds that one run of an emulated program may take."""

BUILD_LIMIT = 600.0
"""Seconds that a cross compilation may take."""

VLEN = "DOJOIR_VLEN"
"""The variable that says how many bits the vectors of an emulated processor have, where they may have several."""


@dataclass(frozen=True)
class CrossMachine:
    """A cross compiler and what runs its programs: the emulator's command before that of the program."""

    toolchain: Toolchain
    emulator: tuple[str, ...]

    def build(self, sources: Sequence[str], out: Path) -> None:
        """Compiles C sources, of which one has `main`, into a program. Raises ToolchainError."""
        build_program(sources, out, toolchain=self.toolchain, limit=BUILD_LIMIT)

    def run(self, program: Path, calls: Sequence[EmulatedCall], limit: float = TIME_LIMIT) -> list[Done]:
        """Runs the calls, one after the other. Raises RunError where the program does not come to its end."""
        with temporary_folder() as folder:
            data = Path(folder, "calls")
            data.write_bytes(struct.pack("<q", len(calls)) + b"".join(map(_packed, calls)))
            command = [*self.emulator, str(program), str(data)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=limit, stdin=subprocess.DEVNULL)
            except subprocess.TimeoutExpired:
                raise RunError(f"the emulated program hung: it ran longer than {limit:g} s", "time-limit") from None
            if done.returncode != 0:
                lines = done.stderr.decode(errors="replace").splitlines()[-4:]
                message = f"the emulated program ended with status {done.returncode}"
                raise RunError(Diagnostic("crash", message, notes=tuple(map(Note, lines))))
            return list(_unpacked(data.read_bytes(), calls))


@dataclass(frozen=True)
class EmulatedCall:
    """A call of a kernel of the program by its number, every argument and size as bytes."""

    kernel: int
    arguments: tuple[bytes, ...]


@dataclass(frozen=True)
class Done:
    """The outcome of a call: its status, and the arguments afterwards."""

    status: int
    arguments: tuple[bytes, ...]


def _packed(call: EmulatedCall) -> bytes:
    head = struct.pack("<qq", call.kernel, len(call.arguments))
    return head + b"".join(struct.pack("<q", len(data)) + data for data in call.arguments)


def _unpacked(data: bytes, calls: Sequence[EmulatedCall]) -> list[Done]:
    found, at = [], 8
    for call in calls:
        (status,) = struct.unpack_from("<q", data, at)
        at += 16
        arguments = []
        for argument in call.arguments:
            arguments.append(data[at + 8 : at + 8 + len(argument)])
            at += 8 + len(argument)
        found.append(Done(status, tuple(arguments)))
    return found


# -- programs ----------------------------------------------------------------------------------------------
def program_sources(kernels: Sequence[tuple[Program, str]]) -> list[str]:
    """The sources of a program that runs calls of lowered kernels, each given with its C. Their names differ."""
    declared, cases = [], []
    for number, (program, _) in enumerate(kernels):
        declared.append(declaration(program))
        by_value = {var.name: C_TYPES[var.type.dtype.name] for var in program.by_value}
        values = [
            f"*({by_value[array.name]} *)a[{n}]" if array.name in by_value else f"a[{n}]"
            for n, array in enumerate(program.arguments)
        ]
        first = len(program.arguments)
        values += [f"*(int64_t *)a[{first + n}]" for n in range(len(program.sizes))]
        cases.append(f"    case {number}: return {symbol(program.name)}({', '.join(values)});")
    switch = "\n".join(["    switch (kernel) {", *cases, "    }"])
    calls = f"\nint32_t call(int64_t kernel, void **a)\n{{\n    (void)a;\n{switch}\n    return -1;\n}}\n"
    main = files(__package__).joinpath("emulated_main.c").read_text(encoding="utf-8")
    calling = "\n".join(["#include <stdbool.h>", "#include <stdint.h>", "", *declared, calls])
    return [*(source for _, source in kernels), calling, main]


@dataclass(frozen=True)
class EmulatedFunction:
    """A kernel as the compiled function is called, with addresses as numbers; it runs on a machine."""

    kernel: Kernel
    machine: CrossMachine
    binary: bytes

    def __call__(self, *values: Number) -> int:
        arguments, names = self.kernel.arguments, self.kernel.runtime_sizes
        numbers = [int(value) for value in values[len(arguments) :]]
        sizes = dict(zip(names, numbers, strict=False))
        sizes |= {size.name: size.value for size in self.kernel.sizes if size.value is not None}
        steps = iter(numbers[len(names) :])
        arrays: dict[str, np.ndarray] = {}
        given = []
        for buffer, value in zip(arguments, values, strict=False):
            if takes_value(buffer):
                given.append(scalar_bytes(buffer.dtype.stored, value))
            else:
                strides = passed_strides(buffer, sizes, steps)
                arrays[buffer.name] = array_at(int(value), buffer, array_shape(buffer, sizes), strides)
                given.append(ctypes.string_at(int(value), span_of(arrays[buffer.name])))
        given += [struct.pack("<q", number) for number in numbers]
        with temporary_folder() as folder:
            program = Path(folder, "program")
            program.write_bytes(self.binary)
            program.chmod(0o700)
            (done,) = self.machine.run(program, [EmulatedCall(0, tuple(given))])
        for buffer, data in zip(arguments, done.arguments, strict=False):
            if buffer.role != "in":  # its elements alone: what is between them may be another's
                array = arrays[buffer.name]
                array[...] = np.ndarray(array.shape, array.dtype, data, 0, array.strides)
        return done.status


def scalar_bytes(stored: str, value: Number) -> bytes:
    """A scalar argument as it stands in memory; floats narrower than f32 as their bits."""
    formats = {"float64": "<d", "float32": "<f", "bool": "<B", "float16": "<H"}
    sign, _, bits = stored.partition("int")
    letter = {"8": "b", "16": "h", "32": "i", "64": "q"}.get(bits, "q")
    return struct.pack(formats.get(stored, f"<{letter.upper() if sign == 'u' else letter}"), value)


# -- finding them ------------------------------------------------------------------------------------------
def find(isa: Isa) -> CrossMachine:
    """The cross compiler and the emulator for an instruction set that is not this machine's.

    Raises ToolchainError, with the cure, where one of them is missing.
    """
    return CrossMachine(cross_compiler(isa), emulator(isa))


def cross_compiler(isa: Isa) -> Toolchain:
    """The compiler of the package ziglang, for an instruction set."""
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        message = (
            f"target {isa.name} needs a cross compiler here, and the package ziglang, which has one, is not "
            f"installed: pip install 'dojoir[cross]'; --emit {isa.name} writes the source without it"
        )
        raise ToolchainError(message, "no-compiler")
    command = (sys.executable, "-m", "ziglang", "cc")
    headers = Path(spec.origin).parent / "lib" / "libc" / "include"
    target = f"{isa.architecture}-linux-musl"
    options = (
        *("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-w", "-target", target, *isa.cross_options),
        *("-static", "-nostdlib", "-fno-stack-protector"),
        *("-isystem", str(headers / target), "-isystem", str(headers / "generic-musl")),
    )
    return Toolchain(command, f"ziglang {_version()}", options, isa.name)


@lru_cache(maxsize=1)
def _version() -> str:
    from importlib.metadata import version

    return version("ziglang")


def emulator(isa: Isa) -> tuple[str, ...]:
    """The command of the emulator, for an instruction set of another architecture."""
    names = (f"qemu-{isa.architecture}", f"qemu-{isa.architecture}-static")
    program = next((found for name in names if (found := which(name)) is not None), None)
    if program is None:
        message = (
            f"target {isa.name} needs an emulator here, and {names[0]} is not on the path: install qemu-user "
            f"(Debian, Ubuntu: apt install qemu-user; Fedora: dnf install qemu-user); --emit {isa.name} writes "
            f"the source without it"
        )
        raise ToolchainError(message, "no-emulator")
    bits = _length(isa)
    return (program, *(option.format(bits=bits, bytes=bits // 8) for option in isa.emulator_options))


def _length(isa: Isa) -> int:
    """The bits of a register of the emulated processor. Raises ToolchainError where it has none of that length."""
    if not isa.lengths:
        return isa.target.vector_bits
    bits = os.environ.get(VLEN, str(isa.lengths[0]))
    if bits not in map(str, isa.lengths):
        *most, last = isa.lengths
        known = f"{', '.join(map(str, most))} or {last}"
        raise ToolchainError(f"{VLEN} is '{bits}': it must be {known}", "bad-vector-length")
    return int(bits)
