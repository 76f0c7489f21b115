"""From a kernel to a callable: proved, lowered, printed, built or found in the cache, loaded."""

from __future__ import annotations

from dojoir.codegen.c_names import symbol
from dojoir.codegen.lir import Program
from dojoir.codegen.llvm import print_llvm
from dojoir.codegen.lower import lower
from dojoir.codegen.target import INTRINSICS, llvm_host
from dojoir.errors import ArgumentError, did_you_mean
from dojoir.ir import Kernel
from dojoir.runtime import llvm_engine
from dojoir.runtime.cache import Cache
from dojoir.runtime.compiled import Compiled
from dojoir.runtime.pool import parallel_for, thread_count
from dojoir.wellformed import prove

TARGETS = ("llvm", "c", *INTRINSICS)
"""What `compile` makes code for."""


def compile(kernel: Kernel, target: str = "llvm", *, threads: int | None = None) -> Compiled:
    """The kernel as a callable. `target` is `llvm`, which needs no compiler installed, or one that calls a C
    compiler: `c`, `avx512`, `avx2`, `neon`, `rvv`. The code for another processor than this machine's runs in an
    emulator.
    `threads` is how many threads a `p` scope may use; by default `$DOJOIR_THREADS`, or all cores of the process.

    Raises KernelError where the kernel is wrong (`dojoir.prove`), ToolchainError where there is no compiler or it
    fails, or where this machine cannot run the code, ArgumentError for a target or number of threads that there is
    not.
    """
    check_kernel(kernel, "compile")
    check_target(target)
    count = thread_count(threads)
    prove(kernel)
    if target == "llvm":
        return _through_llvm(kernel, count)
    from dojoir.runtime import native  # its printers and toolchains, which llvm does not need

    return native.through_c(kernel, count) if target == "c" else native.through_intrinsics(kernel, target, count)


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
