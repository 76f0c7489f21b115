"""The source of a kernel for any target, and its program before it is spelled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from dojoir.backends.backend import Backend, check_types, code
from dojoir.backends.host import machine_for, split_target
from dojoir.backends.registry import TARGETS, backend_named
from dojoir.codegen.gpu.source import gpu_program
from dojoir.codegen.lir.passes import watching
from dojoir.codegen.lir.program import Program
from dojoir.codegen.lir.text import lir_text
from dojoir.codegen.lower.pipeline import lower as lower_to
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Kernel
from dojoir.ir.text import to_text
from dojoir.support.public import public


@public
def emit(
    kernel: Kernel, target: str = "c", *, cpu: str | None = None, watch: Callable[[str, str], None] | None = None
) -> str:
    """The source of a kernel for a target: `c` (C11, for any compiler), `llvm` (LLVM IR, for this machine), or C11
    with the intrinsics of `avx512`, `avx2`, `neon`, `sve` or `rvv`, or C++ for a GPU (`cuda`, `hip`). `cpu` is the
    processor that LLVM IR is for, by LLVM's name (`znver3`; `target` may name it as well: `llvm@znver3`): any that
    is known, this one by default. `watch` is told of each pass of the lowering: its name and what it left, as text.

    Raises ArgumentError for an unknown target or processor, KernelError for a kernel that the target cannot take.
    """
    backend, cpu = _backend_and_cpu(target, cpu)
    check_types(kernel, backend)
    with watching(lambda name, now: watch(name, _text(now))) if watch else nullcontext():
        source: str = code(backend.emit)(kernel, backend.name, cpu)
    return source


def _text(now: Kernel | Program) -> str:
    return lir_text(now) if isinstance(now, Program) else to_text(now, names=True)


def lower(kernel: Kernel, target: str = "c", *, cpu: str | None = None) -> Program:
    """The program of a kernel for a target, before it is spelled. Raises as `emit` does, and ArgumentError for a
    target that takes none."""
    backend, cpu = _backend_and_cpu(target, cpu)
    if not backend.target:
        raise ArgumentError(f"target {backend.name} takes no lowered program", "bad-target")
    return lower_to(kernel, code(backend.target)(backend.name, cpu))


def _backend_and_cpu(name: str, cpu: str | None) -> tuple[Backend, str | None]:
    name, cpu = split_target(name, cpu)
    backend = backend_named(name)
    if cpu is not None:
        machine_for(name, cpu)  # there is such a processor, and it has what the target needs
    return backend, cpu


__all__ = ["TARGETS", "emit", "gpu_program", "lower"]
