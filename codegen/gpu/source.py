"""The targets that are GPUs: a kernel as C++ for one, and with what to launch of it."""

from __future__ import annotations

from dataclasses import replace

from dojoir.codegen.gpu.printer import print_gpu
from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.gpu.program import gpu_program as gpu_program_of
from dojoir.codegen.lir.passes import is_watched
from dojoir.codegen.lir.program import Program
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import CUDA, HIP, Target
from dojoir.ir.nodes import Kernel
from dojoir.proof.checker_mode import uses_core
from dojoir.support.memo import ObjectMemo

GPUS = {gpu.name: gpu for gpu in (CUDA, HIP)}


def target(name: str, cpu: str | None) -> Target:
    return GPUS[name]


def emit(kernel: Kernel, name: str, cpu: str | None) -> str:
    return print_gpu(_lowered(kernel, GPUS[name]), name)


def gpu_program(kernel: Kernel, target: str, *, wide: bool = True, short: bool = False) -> GpuProgram:
    """The source of a kernel for `cuda` or `hip`, with what to launch of it; without wide accesses for arrays that
    lack the alignment that `GpuProgram.wide` asks for. Where it is `short`, all that may count in 32 bits at some
    sizes does: it is for sizes that `GpuProgram.fits`. Raises as `emit` does."""
    program = gpu_program_of(_lowered(kernel, replace(GPUS[target], wide=wide)), target)
    return program.shortened if short else program


def _lowered(kernel: Kernel, target: Target) -> Program:
    """The program of a kernel for a GPU. The last ones are kept: a planner asks whether a target takes what it
    chose, and who asked the planner then asks for the source of that."""
    known = None if uses_core() or is_watched() else _programs.get(kernel)
    if known is None or known[0] != target:
        known = _programs.put((target, lower(kernel, target)), kernel)
    return known[1]


_programs: ObjectMemo[tuple[Target, Program]] = ObjectMemo(2)
