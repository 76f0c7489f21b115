"""The targets that are instruction sets: a kernel as C11 with intrinsics."""

from __future__ import annotations

from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.simd.isas import ISAS
from dojoir.codegen.simd.printer import print_simd
from dojoir.codegen.target import Target
from dojoir.ir.nodes import Kernel


def target(name: str, cpu: str | None) -> Target:
    return ISAS[name].target


def emit(kernel: Kernel, name: str, cpu: str | None) -> str:
    isa = ISAS[name]
    return print_simd(lower(kernel, isa.target), isa)
