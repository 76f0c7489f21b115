"""Target llvm: a kernel as LLVM IR."""

from __future__ import annotations

from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import Target, llvm_host
from dojoir.ir.nodes import Kernel


def target(name: str, cpu: str | None) -> Target:
    return llvm_host(cpu)


def emit(kernel: Kernel, name: str, cpu: str | None) -> str:
    chosen = target(name, cpu)
    return print_llvm(lower(kernel, chosen), chosen)
