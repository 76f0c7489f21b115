"""Building candidates: as `dojoir.compile` does, without the files of the cache, and with a digest of what came
out."""

from __future__ import annotations

import hashlib

from dojoir.backends.backend import check_types, code
from dojoir.backends.host import chosen_cpu, split_target
from dojoir.backends.registry import backend_named
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.lower import lower
from dojoir.codegen.target import llvm_host
from dojoir.ir.nodes import Kernel
from dojoir.runtime.build import llvm_engine
from dojoir.runtime.build.llvm_passes import Processor, compiled_here
from dojoir.runtime.build.pool import parallel_for
from dojoir.runtime.call.compiled import Compiled
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Built:
    """A candidate as a callable."""

    compiled: Compiled
    digest: str


def build(kernel: Kernel, target: str, threads: int) -> Built:
    """A kernel that is proved, built in this process. Raises KernelError and ToolchainError as `compile` does."""
    name, cpu = split_target(target)
    backend = backend_named(name)
    check_types(kernel, backend)
    if name == "llvm":
        return _through_llvm(kernel, threads, chosen_cpu(cpu))
    made: Compiled = code(backend.compile)(
        kernel, name, threads, chosen_cpu(cpu) if backend.machine is None else None
    )
    return Built(made, hashlib.sha256(made.source.encode()).hexdigest())


def _through_llvm(kernel: Kernel, threads: int, cpu: str | None) -> Built:
    target = llvm_host(cpu)
    program = lower(kernel, target)
    text = print_llvm(program, target)
    here = llvm_engine.host(cpu)
    machine_code = compiled_here(text, Processor(here.triple, here.cpu, here.features))
    symbols = {"dojo_parallel_for": parallel_for(threads)} if "@dojo_parallel_for" in text else {}
    name = symbol(kernel.name)
    library = llvm_engine.load_object(machine_code, [name], symbols)
    compiled = Compiled(kernel, "llvm", threads, text, library.addresses[name], library, program.checks)
    return Built(compiled, hashlib.sha256(machine_code).hexdigest())
