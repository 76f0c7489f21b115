"""From a kernel to a callable: proved, lowered, printed, built or found in the cache, loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dojoir.backends.backend import check_types, code
from dojoir.backends.host import chosen_cpu, machine_for, split_target
from dojoir.backends.registry import RUNNABLE, backend_named
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.lir.outcome import Check
from dojoir.codegen.target import llvm_host
from dojoir.errors import ArgumentError, did_you_mean
from dojoir.ir.nodes import Kernel
from dojoir.ir.traced import Traced, last_kernel
from dojoir.proof.proved import ensure_proved
from dojoir.runtime.build import llvm_engine
from dojoir.runtime.build.blocks import symbols_of
from dojoir.runtime.build.host_targets import check_machine
from dojoir.runtime.build.pool import thread_count
from dojoir.runtime.build.printed import printed
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.call.versioned import Versioned, VersionedCall
from dojoir.support.cache import Cache
from dojoir.support.public import public_with
from dojoir.types.in_bytes import in_bytes

if TYPE_CHECKING:
    from dojoir.codegen.lir.program import Program

TARGETS = RUNNABLE
"""The targets of `compile`."""


@public_with(kernel="not-a-kernel")
def compile(
    kernel: Kernel | Traced | Versioned,
    target: str = "llvm",
    *,
    threads: int | None = None,
    cpu: str | None = None,
    emulated: bool = False,
    checked: bool = True,
) -> Compiled:
    """The kernel as a callable. `target` is `llvm`, which needs no compiler installed, or one that calls a C
    compiler: `c`, `avx512`, `avx2`, `neon`, `sve`, `rvv`. The code for another processor than this machine's runs
    in an emulator. `threads` is how many threads a `p` scope may use; by default `$DOJOIR_THREADS`, or all cores
    of the process. `cpu` is the processor that code of `llvm` and `c` is for, by LLVM's name, if not this one:
    `haswell`; `llvm@haswell` as a target says the same. `cuda` and `hip` need a GPU; with `emulated` their code
    runs on the CPU instead, slowly, on NumPy arrays. What a GPU lets pass (a race, a barrier that not all threads
    reach, an access out of bounds) is a RunError. Each call checks that no two elements of a `distinct` argument
    are equal; `checked=False` leaves that out, for callers who know it, and what is compiled says so in
    `unproved`. Of a `dojoir.Trace`, the last kernel is compiled; of `dojoir.passes.Versions`, each call's sizes
    pick the one that runs.

    Raises KernelError where the kernel is wrong (`dojoir.prove`), ToolchainError where there is no compiler or it
    fails, or where this machine cannot run the code, ArgumentError for a target or number of threads that there is
    not.
    """
    if not isinstance(kernel, Kernel) and hasattr(kernel, "versions"):
        versions = _versioned(cast(Versioned, kernel), target, threads, cpu)
        if not checked:
            versions.trust()
        return versions
    kernel = last_kernel(kernel)
    name, cpu = split_target(check_target(target, cpu, emulated), cpu)
    count = thread_count(threads)
    ensure_proved(kernel)
    kernel = in_bytes(kernel)
    backend = backend_named(name)
    check_types(kernel, backend)
    made: Compiled
    if emulated:
        made = code(backend.emulate)(kernel, name)
    else:
        made = code(backend.compile)(kernel, name, count, chosen_cpu(cpu) if backend.machine is None else None)
    if backend.is_device and not emulated:
        from dojoir.runtime.gpu.compiled import DeviceCompiled

        if isinstance(made, DeviceCompiled):
            made.load_with(llvm_engine.load_entry)
    if not checked:
        made.trust()
    return made


def _versioned(given: Versioned, target: str, threads: int | None, cpu: str | None) -> Compiled:
    """All versions, behind one function that chooses."""
    if backend_named(split_target(target, cpu)[0]).is_device:
        message = (
            f"on target {target} a kernel asks for its sizes itself: compile what dojoir.optimize makes of "
            f"{given.start.name}, which has its versions inside"
        )
        raise ArgumentError(message, "bad-target")
    made = [(compile(one.kernel, target, threads=threads, cpu=cpu), one.when) for one in given.versions]
    return VersionedCall(given.start, made, llvm_engine.load_entry, llvm_engine.load_entry)


def check_kernel(kernel: object, what: str) -> Kernel:
    """`kernel`, if it is one. Raises ArgumentError with the cure."""
    if isinstance(kernel, Kernel):
        return kernel
    raise ArgumentError(
        f"{what} takes a Kernel, not {type(kernel).__name__}: parse a text with dojoir.parse", "not-a-kernel"
    )


def check_target(target: str, cpu: str | None = None, emulated: bool = False) -> str:
    """A target with the processor it is for, if one is named: `llvm@znver3`. Raises ArgumentError for a target
    that this machine does not run, or a processor that is not known, ToolchainError for one whose code it cannot
    run, a GPU that is not there if it is not `emulated`."""
    name, cpu = split_target(target, cpu)
    if name not in TARGETS:
        known = f"the targets for this machine are {', '.join(TARGETS)}"
        message = f"cannot run kernels for '{name}'{did_you_mean(name, TARGETS)}; {known}"
        raise ArgumentError(message, "unknown-target")
    backend = backend_named(name)
    if emulated and not backend.emulate:
        able = " and ".join(other for other in TARGETS if backend_named(other).emulate)
        message = f"target {name} is no GPU: emulated=True runs {able} without one; leave it out"
        raise ArgumentError(message, "bad-target")
    if backend.is_device:
        if cpu is not None:
            raise ArgumentError(f"target {name} is a GPU, and '{cpu}' is a processor: leave it out", "bad-target")
        if not emulated:
            code(backend.way)(name)
        return name
    machine = machine_for(name, cpu)
    if backend.machine is None:
        check_machine(machine)
    return name if cpu is None else f"{name}@{cpu}"


def load_llvm(
    kernel: Kernel, text: str, threads: int, checks: tuple[Check, ...] = (), cpu: str | None = None
) -> Compiled:
    """The callable for `kernel` that an LLVM module for a processor holds. `checks` are those of its program."""
    kernel = in_bytes(kernel)
    name = symbol(kernel.name)
    library = llvm_engine.build(text, [name], symbols_of(text, threads), Cache.default(), cpu)
    load = llvm_engine.load_entry
    return Compiled(kernel, "llvm", threads, text, library.addresses[name], library, checks, load=load)


def through_llvm(kernel: Kernel, name: str, threads: int, cpu: str | None) -> Compiled:
    """The callable of a kernel that is proved, through LLVM in this process."""
    target = llvm_host(cpu)

    def made() -> tuple[Program, str]:
        from dojoir.codegen.llvm.printer import print_llvm
        from dojoir.codegen.lower.pipeline import lower

        program = lower(kernel, target)
        return program, print_llvm(program, target)

    source = printed(kernel, "llvm", (target.architecture, target.cpu, *sorted(target.features)), made)
    return load_llvm(kernel, source.text, threads, source.checks, cpu)


def way_of_llvm(name: str) -> str:
    """How target llvm runs here."""
    return "in process"
