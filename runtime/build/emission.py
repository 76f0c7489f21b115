"""What compilers make of a kernel, as text: LLVM's IR after its passes, the code of a processor, PTX and SASS."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from dojoir.backends.host import machine_for, split_target
from dojoir.codegen import emission
from dojoir.errors import ToolchainError
from dojoir.ir.nodes import Kernel
from dojoir.ir.traced import Traced, last_kernel
from dojoir.runtime.build.llvm_engine import host
from dojoir.runtime.build.llvm_lane_signs import LACKING, is_wrong, without
from dojoir.runtime.build.llvm_masks import with_single_lanes_apart
from dojoir.runtime.build.llvm_passes import OPTIMISATION
from dojoir.runtime.gpu import disassembly
from dojoir.support.public import public

FORMS: Mapping[str, str] = {
    "llvm-opt": "LLVM IR after LLVM's passes, as it is compiled",
    "asm": "the code of the processor, as text for an assembler",
    "ptx": "the CUDA source as NVRTC compiles it, for the architecture of `cpu` (sm_90a)",
    "sass": "the machine code of that GPU, by nvdisasm",
}
"""The forms of a kernel that compilers make, by name."""


@public
def emit(
    kernel: Kernel | Traced,
    target: str = "c",
    *,
    cpu: str | None = None,
    watch: Callable[[str, str], None] | None = None,
) -> str:
    """The source of a kernel for a target: `c` (C11, for any compiler), `llvm` (LLVM IR, for this machine), C11
    with the intrinsics of `avx512`, `avx2`, `neon` or `rvv`, or C++ for a GPU (`cuda`, `hip`). `llvm-opt` is that
    LLVM IR after LLVM's passes, and `asm` the machine code as text; `ptx` and `sass` are the same of `cuda`, and
    need no GPU. `cpu` is the processor that these are
    for, by LLVM's name (`znver3`; `target` may name it as well: `asm@znver3`): any that is known, of any
    architecture that LLVM has here, this one by default. Of a trace, the last kernel is meant. `watch` is told of
    each pass of the lowering: its name, and what it left, as text.

    Raises ArgumentError for an unknown target or processor, KernelError for a kernel that the target cannot take,
    ToolchainError where LLVM has no such architecture.
    """
    kernel = last_kernel(kernel)
    form, cpu = split_target(target, cpu)
    if form not in FORMS:
        return emission.emit(kernel, target, cpu=cpu, watch=watch)
    if form in ("ptx", "sass"):
        made = disassembly.ptx if form == "ptx" else disassembly.sass
        return made(emission.emit(kernel, "cuda", watch=watch), cpu or machine_for("cuda").architecture)
    machine = _machine(cpu)
    llvm: Any = importlib.import_module("llvmlite.binding")
    module = llvm.parse_assembly(emission.emit(kernel, "llvm", cpu=cpu, watch=watch))
    module.triple, module.data_layout = str(machine.triple), str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
    tuning.loop_vectorization = tuning.loop_interleaving = tuning.loop_unrolling = tuning.slp_vectorization = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    text = with_single_lanes_apart(str(module))
    if form == "llvm-opt":
        return text
    for lacking in LACKING:
        assembly = str(_machine(cpu, lacking).emit_assembly(llvm.parse_assembly(text)))
        if not is_wrong(assembly):
            break
    return assembly


def _machine(cpu: str | None, lacking: str = "") -> Any:
    """LLVM's description of a processor, less the features `lacking`. Raises ArgumentError for one that is not
    known."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    here = host()
    if cpu is None or cpu == "host":
        triple, name, features = here.triple, here.cpu, here.features
    else:
        architecture = machine_for("llvm", cpu).architecture
        own, _, system = here.triple.partition("-")
        triple, name, features = f"{architecture}-{system}" if architecture != own else here.triple, cpu, ""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise ToolchainError(
            f"the LLVM of this llvmlite has no code for {triple}: {error}", "missing-architecture"
        ) from None
    return target.create_target_machine(
        cpu=name, features=without(features, lacking), opt=OPTIMISATION, reloc="pic", codemodel="default"
    )
