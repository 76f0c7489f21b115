"""The source of a kernel for any target, and its program before it is spelled."""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.codegen.c import print_c
from dojoir.codegen.isas import ISAS
from dojoir.codegen.lir import Program
from dojoir.codegen.llvm import print_llvm
from dojoir.codegen.lower import lower as lower_to
from dojoir.codegen.simd import print_simd
from dojoir.codegen.target import C, Target, llvm_host
from dojoir.errors import ArgumentError, did_you_mean
from dojoir.ir import Kernel

TARGETS: Mapping[str, str] = {
    "llvm": "LLVM IR for this machine, compiled in process; needs no toolchain",
    "c": "C11 without intrinsics, for any compiler",
    **{name: isa.about for name, isa in ISAS.items()},
}
"""The targets by name, each with what it gives."""


def emit(kernel: Kernel, target: str = "c") -> str:
    """The source of a kernel for a target: `c` (C11, for any compiler), `llvm` (LLVM IR, for this machine), or C11
    with the intrinsics of `avx512`, `avx2`, `neon` or `rvv`.

    Raises ArgumentError for an unknown target, KernelError for a kernel that the target cannot take.
    """
    chosen = _target(target)
    program = lower_to(kernel, chosen)
    if chosen.name in ISAS:
        return print_simd(program, ISAS[chosen.name])
    return print_c(program) if chosen.name == "c" else print_llvm(program, chosen)


def lower(kernel: Kernel, target: str = "c") -> Program:
    """The program of a kernel for a target, before it is spelled. Raises as `emit` does."""
    return lower_to(kernel, _target(target))


def _target(name: str) -> Target:
    match name:
        case "c":
            return C
        case "llvm":
            return llvm_host()
        case _ if name in ISAS:
            return ISAS[name].target
        case _:
            known = f"the targets are {', '.join(TARGETS)}"
            message = f"there is no target '{name}'{did_you_mean(name, TARGETS)}; {known}"
            raise ArgumentError(message, "unknown-target")
