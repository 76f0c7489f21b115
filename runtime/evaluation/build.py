"""Building candidates: as `dojoir.compile` does, without the files of the cache, and with a digest of what came
out.

LLVM is most of what a state costs. So a candidate is printed first: one whose code was met before, or is too long,
costs no more. What moves have put in lanes is built without the passes that would do so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

from dojoir.backends.backend import check_types, code
from dojoir.backends.host import chosen_cpu, split_target
from dojoir.backends.registry import backend_named
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.emission import emit
from dojoir.codegen.lir.outcome import Check
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import llvm_host
from dojoir.errors import ToolchainError
from dojoir.ir.affine import Affine, FloorDiv, Mod
from dojoir.ir.nodes import Guard, Kernel, Node, Scope, Statement
from dojoir.runtime.build import llvm_engine
from dojoir.runtime.build.blocks import symbols_of
from dojoir.runtime.build.llvm_passes import Processor, compiled_here
from dojoir.runtime.call.compiled import Compiled
from dojoir.support.frozen import dataclass
from dojoir.types.in_bytes import in_bytes

LEFT_OUT = ("loop_vectorization", "loop_interleaving", "loop_unrolling", "slp_vectorization")
"""The passes that find little where all loops are in lanes by moves (`in_lanes`), and take half of the time; the
order of the states by their speed stays (tests/helpers/llvm_passes_of_search.py)."""

LEVEL = 2
"""The level of LLVM's pipeline for such code."""

CODE_LIMIT = 64_000
"""How many characters the code of a candidate may have where nothing else is said: half again those of the longest
schedules for rows that come with dojoir."""

FEW = 16
"""The iterations below which it matters little how LLVM runs a loop."""

COMMENTS = (";", "//")
"""The prefixes of comments in LLVM IR or C, which are not part of the code."""


@dataclass(frozen=True)
class CandidateSource:
    """A candidate as text, with what its runtime checks look at (of LLVM; other backends find it themselves)."""

    text: str
    checks: tuple[Check, ...] = ()

    @cached_property
    def code(self) -> str:
        """The text without its comments, which show the kernel: many kernels have the same code."""
        return "\n".join(line for line in self.text.splitlines() if not line.startswith(COMMENTS))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.code.encode()).hexdigest()


@dataclass(frozen=True)
class Built:
    """A candidate as a callable."""

    compiled: Compiled
    digest: str


def printed(kernel: Kernel, target: str) -> CandidateSource:
    """A kernel that is proved, as the text that it is built from: the same code gives the same machine code.
    Raises KernelError for types that the target does not have."""
    name, cpu = split_target(target)
    check_types(kernel, backend_named(name))
    if name != "llvm":
        return CandidateSource(emit(kernel, target))
    machine = llvm_host(chosen_cpu(cpu))
    program = lower(kernel, machine)
    return CandidateSource(print_llvm(program, machine), program.checks)


def check_length(source: CandidateSource, limit: int) -> None:
    """Raises ToolchainError, `too-much-code`, for a candidate whose code has more than `limit` characters."""
    if len(source.code) > limit:
        message = (
            f"its code has {len(source.code)} characters, and a candidate may have {limit}: unroll less of it, or "
            f"raise code_limit"
        )
        raise ToolchainError(message, "too-much-code")


def build(
    kernel: Kernel, target: str, threads: int, source: CandidateSource, full: bool = False, emulated: bool = False
) -> Built:
    """A kernel with its source (`printed`), built in this process; with `full` as `compile` builds it, however
    long that takes; with `emulated` for a GPU that is none. Raises KernelError and ToolchainError as `compile`
    does."""
    name, cpu = split_target(target)
    backend = backend_named(name)
    if name == "llvm":
        return _through_llvm(kernel, threads, chosen_cpu(cpu), source, full)
    made: Compiled
    kernel = in_bytes(kernel)
    if emulated:
        made = code(backend.emulate)(kernel, name)
    else:
        made = code(backend.compile)(kernel, name, threads, chosen_cpu(cpu) if backend.machine is None else None)
    return Built(made, hashlib.sha256(made.source.encode()).hexdigest())


def in_lanes(kernel: Kernel) -> bool:
    """Whether moves have put every innermost loop in lanes. The rest of a multiple (`N % 8`) may be a loop, or
    written out: neither is long. In any other loop LLVM's own lanes matter as much as those of a move."""
    lanes = any(isinstance(node, Scope) and "v" in node.marks for _, node in kernel.walk())
    return lanes and _are_in_lanes(kernel.body)


def _are_in_lanes(nodes: Sequence[Node]) -> bool:
    return all(isinstance(node, Statement) or _is_in_lanes(node) for node in nodes)


def _is_in_lanes(node: Scope | Guard) -> bool:
    if isinstance(node, Guard) or any(not isinstance(child, Statement) for child in node.body):
        return (isinstance(node, Scope) and "v" in node.marks) or _are_in_lanes(node.body)
    return bool({"u", "v"} & {*node.marks}) or any(map(_is_remainder, node.extent.bounds))


def _is_remainder(extent: Affine) -> bool:
    """Whether an extent is what a multiple leaves, or a number below the lanes of any vector."""
    few = extent.is_constant and extent.offset < FEW
    return few or any(
        isinstance(atom, Mod) or (isinstance(atom, FloorDiv) and factor == -atom.divisor)
        for atom, factor in extent.terms
    )


def _through_llvm(kernel: Kernel, threads: int, cpu: str | None, source: CandidateSource, full: bool) -> Built:
    text = source.text
    here = llvm_engine.host(cpu)
    processor = Processor(here.triple, here.cpu, here.features)
    quick = not full and in_lanes(kernel)
    machine_code = compiled_here(text, processor, LEFT_OUT, LEVEL) if quick else compiled_here(text, processor)
    name = symbol(kernel.name)
    library = llvm_engine.load_object(machine_code, [name], symbols_of(text, threads))
    compiled = Compiled(in_bytes(kernel), "llvm", threads, text, library.addresses[name], library, source.checks)
    return Built(compiled, hashlib.sha256(machine_code).hexdigest())
