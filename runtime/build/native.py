"""From a kernel to a callable through a C compiler: plain C, or C with the intrinsics of an instruction set."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dojoir.codegen.c.printer import print_c
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.lir.program import Program
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.simd.isas import ISAS
from dojoir.codegen.simd.printer import print_simd
from dojoir.codegen.target import C
from dojoir.errors import ToolchainError
from dojoir.ir.nodes import Kernel
from dojoir.runtime.build import c_toolchain, emulation, host_targets, llvm_engine
from dojoir.runtime.build.c_toolchain import Toolchain
from dojoir.runtime.build.printed import PrintedSource, printed
from dojoir.runtime.call.compiled import Compiled
from dojoir.support.cache import Cache, content_key
from dojoir.support.temporary import temporary_folder

PROCESS = os.getpid()
"""The process that loaded this; in any other, code here came through a fork."""


def through_c(kernel: Kernel, name: str, threads: int, cpu: str | None) -> Compiled:
    """The callable of a kernel that is proved, as C11 without intrinsics, for a processor by name, else this one.
    Raises ToolchainError."""

    def made() -> tuple[Program, str]:
        program = lower(kernel, C)
        return program, print_c(program)

    return _native(kernel, name, threads, printed(kernel, "c", (), made), c_toolchain.find().for_cpu(cpu))


def through_intrinsics(kernel: Kernel, target: str, threads: int, cpu: str | None = None) -> Compiled:
    """The callable of a kernel that is proved, as C11 with the intrinsics of `target`: for this processor, or for
    an emulator of another. Raises ToolchainError."""
    isa = ISAS[target]
    if host_targets.architecture() == isa.architecture:
        host_targets.check_features(isa)
        toolchain = c_toolchain.find().with_options(isa.options)
        made = partial(_program_and_source, kernel, isa)
        return _native(kernel, isa.name, threads, printed(kernel, isa.name, (), made), toolchain)
    machine = emulation.find(isa)
    program, source = _program_and_source(kernel, isa)
    sources = emulation.program_sources([(program, source)])
    binary = _built(machine.toolchain.identity, "\n".join(sources), partial(_build_program, machine, sources))
    function = emulation.EmulatedFunction(kernel, machine, binary)
    return Compiled(kernel, isa.name, 1, source, function, binary, program.checks)


def _program_and_source(kernel: Kernel, isa: Isa) -> tuple[Program, str]:
    program = lower(kernel, isa.target)
    return program, print_simd(program, isa)


def way_of_c(name: str) -> str:
    """How target c runs here. Raises ToolchainError where it does not."""
    c_toolchain.find()
    return "native"


def way_of_intrinsics(name: str) -> str:
    """How an instruction set runs here. Raises ToolchainError where it does not."""
    isa = ISAS[name]
    if host_targets.architecture() != isa.architecture:
        emulation.find(isa)
        return "emulated"
    host_targets.check_features(isa)
    c_toolchain.find()
    return "native"


def _build_program(machine: emulation.CrossMachine, sources: list[str], _: str, out: Path) -> None:
    machine.build(sources, out)


def _native(kernel: Kernel, target: str, threads: int, source: PrintedSource, toolchain: Toolchain) -> Compiled:
    """The callable of a C source that a compiler makes for this machine."""
    library = _load_shared(_build_shared(source.text, toolchain), kernel.name)
    address = ctypes.cast(getattr(library, symbol(source.name)), ctypes.c_void_p).value
    assert address is not None
    before = _thread_setter(library, threads) if "#pragma omp parallel" in source.text else None
    load = llvm_engine.load_entry
    return Compiled(kernel, target, threads, source.text, address, library, source.checks, before, load)


def _thread_setter(library: ctypes.CDLL, threads: int) -> Callable[[], object] | None:
    """Tells the OpenMP library that a kernel was linked with, if it was, how many threads the next call may use.
    OpenMP keeps that number for each calling thread, so every call sets it.

    A child of `os.fork` has none of its parent's threads, but the list of them that libgomp keeps, for which it
    would wait forever: there, kernels run on the thread that calls them. The OpenMP library of LLVM starts afresh
    after a fork by itself."""
    setter = getattr(library, "omp_set_num_threads", None)
    if setter is None:
        return None
    if threads == 1 or hasattr(library, "__kmpc_fork_call"):
        return partial(setter, threads)
    return lambda: setter(threads if os.getpid() == PROCESS else 1)


def _build_shared(source: str, toolchain: Toolchain) -> bytes:
    """The shared library of a C source, from the cache or from the compiler."""
    return _built(toolchain.identity, source, partial(c_toolchain.build_shared, toolchain=toolchain))


def _built(identity: str, source: str, build: Callable[[str, Path], None]) -> bytes:
    """The binary of a source, by `build` or from the cache. `identity` says what else it depends on."""
    store = Cache.default()
    key = content_key("c", identity, source)
    code = store.get(key)
    if code is None:
        with temporary_folder() as folder:
            out = Path(folder, "kernel.so")
            build(source, out)
            code = out.read_bytes()
        store.put(key, code)
    return code


def _load_shared(code: bytes, name: str) -> ctypes.CDLL:
    """A shared library from its bytes. The file it needs for that has no name any more afterwards."""
    with temporary_folder() as folder:
        path = Path(folder, "kernel.so")
        path.write_bytes(code)
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise ToolchainError(f"the shared library of {name} cannot be loaded: {error}", "load-failed") from None
