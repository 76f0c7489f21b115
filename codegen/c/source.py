"""Target c: a kernel as C11 without intrinsics."""

from __future__ import annotations

from dojoir.codegen.c.printer import print_c
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import C, Target
from dojoir.ir.nodes import Kernel


def target(name: str, cpu: str | None) -> Target:
    return C


def emit(kernel: Kernel, name: str, cpu: str | None) -> str:
    return print_c(lower(kernel, C))
