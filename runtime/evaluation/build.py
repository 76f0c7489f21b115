"""Building candidates: as `dojoir.compile` does, without the files of the cache, and with a digest of what came
out.

LLVM is most of what a state costs. Code of LARGE characters and more is in lanes and unrolled by its moves, and is
built without the passes that would do so; what would be longer than MOST is not built at all.
"""

from __future__ import annotations

import hashlib

from dojoir.backends.backend import check_types, code
from dojoir.backends.host import chosen_cpu, split_target
from dojoir.backends.registry import backend_named
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.lower import lower
from dojoir.codegen.target import llvm_host
from dojoir.errors import ToolchainError
from dojoir.ir.nodes import Kernel
from dojoir.runtime.build import llvm_engine
from dojoir.runtime.build.llvm_passes import Processor, compiled_here
from dojoir.runtime.build.pool import parallel_for
from dojoir.runtime.call.compiled import Compiled
from dojoir.support.frozen import dataclass

LARGE = 20_000
"""From how many characters of LLVM IR on LEFT_OUT is left out of the passes of a candidate."""

LEFT_OUT = ("loop_vectorization", "loop_interleaving", "loop_unrolling", "slp_vectorization")
"""What finds little in code that moves have put in lanes and unrolled (tests/helpers/llvm_passes_of_search.py)."""

MOST = 256_000
"""How many characters of LLVM IR a candidate may have: twice the longest schedule that comes with dojoir."""


@dataclass(frozen=True)
class Built:
    """A candidate as a callable."""

    compiled: Compiled
    digest: str


def build(kernel: Kernel, target: str, threads: int, full: bool = False, emulated: bool = False) -> Built:
    """A kernel that is proved, built in this process; with `full` as `compile` builds it, however long that takes;
    with `emulated` for a GPU that is none.
    Raises KernelError and ToolchainError as `compile` does, and ToolchainError, `too-much-code`, for a candidate
    that is too long."""
    name, cpu = split_target(target)
    backend = backend_named(name)
    check_types(kernel, backend)
    if name == "llvm":
        return _through_llvm(kernel, threads, chosen_cpu(cpu), full)
    made: Compiled
    if emulated:
        made = code(backend.emulate)(kernel, name)
    else:
        made = code(backend.compile)(kernel, name, threads, chosen_cpu(cpu) if backend.machine is None else None)
    return Built(made, hashlib.sha256(made.source.encode()).hexdigest())


def _through_llvm(kernel: Kernel, threads: int, cpu: str | None, full: bool) -> Built:
    target = llvm_host(cpu)
    program = lower(kernel, target)
    text = print_llvm(program, target)
    if len(text) > MOST and not full:
        message = (
            f"its code has {len(text)} characters of LLVM IR, and a candidate may have {MOST}: unroll less of it"
        )
        raise ToolchainError(message, "too-much-code")
    here = llvm_engine.host(cpu)
    without = LEFT_OUT if len(text) >= LARGE and not full else ()
    machine_code = compiled_here(text, Processor(here.triple, here.cpu, here.features), without)
    symbols = {"dojo_parallel_for": parallel_for(threads)} if "@dojo_parallel_for" in text else {}
    name = symbol(kernel.name)
    library = llvm_engine.load_object(machine_code, [name], symbols)
    compiled = Compiled(kernel, "llvm", threads, text, library.addresses[name], library, program.checks)
    return Built(compiled, hashlib.sha256(machine_code).hexdigest())
