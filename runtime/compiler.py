"""From a kernel to a callable: proved, lowered, printed, built or found in the cache, loaded."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dojoir.codegen.c import print_c
from dojoir.codegen.c_names import symbol
from dojoir.codegen.lir import Program
from dojoir.codegen.llvm import print_llvm
from dojoir.codegen.lower import lower
from dojoir.codegen.target import C, llvm_host
from dojoir.errors import ArgumentError, ToolchainError, did_you_mean
from dojoir.ir import Kernel
from dojoir.runtime import c_toolchain, llvm_engine
from dojoir.runtime.cache import Cache, content_key
from dojoir.runtime.compiled import Compiled
from dojoir.runtime.pool import parallel_for, thread_count
from dojoir.wellformed import prove

TARGETS = ("llvm", "c")
"""What `compile` can make for this machine."""


def compile(kernel: Kernel, target: str = "llvm", *, threads: int | None = None) -> Compiled:
    """The kernel as a callable. `target` is `llvm`, which needs no compiler installed, or `c`, which calls one.
    `threads` is how many threads a `p` scope may use; by default `$DOJOIR_THREADS`, or all cores of the process.

    Raises KernelError where the kernel is wrong (`dojoir.prove`), ToolchainError where there is no compiler or it
    fails, ArgumentError for a target or number of threads that there is not.
    """
    check_kernel(kernel, "compile")
    check_target(target)
    count = thread_count(threads)
    prove(kernel)
    return _through_llvm(kernel, count) if target == "llvm" else _through_c(kernel, count)


def check_kernel(kernel: object, what: str) -> Kernel:
    """`kernel`, if it is one. Raises ArgumentError with the cure."""
    if isinstance(kernel, Kernel):
        return kernel
    raise ArgumentError(
        f"{what} takes a Kernel, not {type(kernel).__name__}: parse a text with dojoir.parse", "not-a-kernel"
    )


def check_target(target: str) -> None:
    """Raises ArgumentError for a target that this machine does not run."""
    if target not in TARGETS:
        known = f"the targets for this machine are {', '.join(TARGETS)}"
        message = f"cannot run kernels for '{target}'{did_you_mean(target, TARGETS)}; {known}"
        raise ArgumentError(message, "unknown-target")


def load_llvm(kernel: Kernel, text: str, threads: int, program: Program | None = None) -> Compiled:
    """The callable for `kernel` that an LLVM module holds. `program` is what it was printed from."""
    symbols = {"dojo_parallel_for": parallel_for(threads)} if "@dojo_parallel_for" in text else {}
    name = symbol(kernel.name)
    library = llvm_engine.build(text, [name], symbols, Cache.default())
    checks = program.checks if program is not None else ()
    return Compiled(kernel, "llvm", threads, text, library.addresses[name], library, checks)


def _through_llvm(kernel: Kernel, threads: int) -> Compiled:
    target = llvm_host()
    program = lower(kernel, target)
    return load_llvm(kernel, print_llvm(program, target), threads, program)


def _through_c(kernel: Kernel, threads: int) -> Compiled:
    program = lower(kernel, C)
    source = print_c(program)
    library = _load_shared(_build_shared(source), kernel.name)
    address = ctypes.cast(getattr(library, symbol(program.name)), ctypes.c_void_p).value
    assert address is not None
    before = _thread_setter(library, threads) if "#pragma omp parallel" in source else None
    return Compiled(kernel, "c", threads, source, address, library, program.checks, before)


def _thread_setter(library: ctypes.CDLL, threads: int) -> Callable[[], object] | None:
    """Tells the OpenMP library that a kernel was linked with, if it was, how many threads the next call may use.
    OpenMP keeps that number for each calling thread, so every call sets it."""
    setter = getattr(library, "omp_set_num_threads", None)
    return None if setter is None else partial(setter, threads)


def _build_shared(source: str) -> bytes:
    """The shared library of a C source, from the cache or from the compiler."""
    toolchain = c_toolchain.find()
    store = Cache.default()
    key = content_key("c", toolchain.identity, source)
    code = store.get(key)
    if code is None:
        with tempfile.TemporaryDirectory(prefix="dojoir-") as folder:
            out = Path(folder, "kernel.so")
            c_toolchain.build_shared(source, out, toolchain=toolchain)
            code = out.read_bytes()
        store.put(key, code)
    return code


def _load_shared(code: bytes, name: str) -> ctypes.CDLL:
    """A shared library from its bytes. The file it needs for that has no name any more afterwards."""
    handle, path = tempfile.mkstemp(prefix="dojoir-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        return ctypes.CDLL(path)
    except OSError as error:
        raise ToolchainError(f"the shared library of {name} cannot be loaded: {error}", "load-failed") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
