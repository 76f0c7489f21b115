"""The description of a target for the lowering: data, no code."""

from __future__ import annotations

from dataclasses import replace

from dojoir.backends.host import chosen_cpu, machine_for
from dojoir.backends.machine import GRID, MACHINES, machine_with
from dojoir.ir.instruction import Instruction
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Target:
    """`vector_bits` is the width of a register (0: leave lanes to the compiler, a `v` scope stays a plain loop
    marked simd) and `registers` how many there are. `tail` says how a last partial vector runs: `mask`, `scalar`,
    or `vl` (the target is asked for each vector how many lanes it takes). Of a target that has none for all types,
    `masked` says of elements of how many bits neighbours are read and written under a mask. `native` names the
    narrow float types that the target converts itself; the others are expanded into integer arithmetic. `streams`:
    it has stores past the caches; `scales`: vectors of 128 and 256 bits, and of 512 or several times that, have
    `ldexp`. `warp`: it is a GPU, whose warps have so many threads, a block `shared_bytes` of its own, a thread
    registers of `thread_bytes`, and a launch at most `grid` blocks along x, y and z. `wide`: one access moves
    several elements where they are aligned for that. `approximates`: it has instructions for 2ˣ and 1/√x of an f32
    that are right but for their last bits. `dots`: vectors of so many lanes, or a multiple, have the sum of four
    products of bytes (0: none), and `mixed`, that they have one instruction for it, of u8 by i8 alone. `reshapes`:
    a bitcast may give a vector of twice as many lanes of half the width. `lands_later`: threads start copies to
    shared memory and wait for them later. `architecture` and `features` are those of
    the machine, by LLVM's names (empty: any), `cpu` its processor where one is named."""

    name: str
    vector_bits: int
    tail: str = "scalar"
    native: frozenset[str] = frozenset()
    registers: int = 16
    streams: bool = True
    architecture: str = ""
    features: frozenset[str] = frozenset()
    scales: bool = False
    cpu: str = ""
    warp: int = 0
    shared_bytes: int = 0
    thread_bytes: int = 0
    grid: tuple[int, int, int] = GRID
    wide: bool = True
    approximates: bool = False
    masked: frozenset[int] = frozenset()
    dots: int = 0
    mixed: bool = False
    reshapes: bool = False
    lands_later: bool = False

    def spells(self, instruction: Instruction) -> bool:
        """Whether the target has words for an instruction. C asks its compiler, LLVM must know the machine."""
        if self.name == "llvm":
            return instruction.llvm is not None and instruction.needs <= self.features
        if self.warp:
            return instruction.cuda is not None and self.name == "cuda" and instruction.needs <= self.features
        return instruction.c is not None


C = Target("c", 0)


def _gpu(name: str) -> Target:
    """The target of a GPU, with the room that its machine has."""
    machine = MACHINES[name]
    return Target(
        name,
        0,
        streams=False,
        warp=machine.warp,
        shared_bytes=machine.shared_bytes,
        thread_bytes=machine.thread_bytes,
        grid=machine.grid,
        architecture=machine.architecture,
        features=machine.features,
        approximates=True,
        lands_later="sm_80" in machine.features,
    )


CUDA, HIP = _gpu("cuda"), _gpu("hip")


def has_vnni(features: frozenset[str], vector_bits: int) -> bool:
    """Whether an x86 has `vpdpbusd` of such vectors."""
    return {"avx512vnni", "avx512vl"} <= features or ("avxvnni" in features and vector_bits == 256)


LITTLE_ENDIAN = frozenset({"x86_64", "aarch64", "arm64", "riscv64"})
"""Architectures of which it is known that the first of two bytes of an integer is the low one."""


def llvm_target(architecture: str, features: frozenset[str]) -> Target:
    """The LLVM target of a machine, from its architecture (`x86_64`, `aarch64`, …) and features by LLVM's
    names (`avx2`, `avx512f`, …)."""
    native = frozenset({"f16"}) if "f16c" in features or architecture == "aarch64" else frozenset[str]()
    machine = machine_with("", architecture, features)
    tail = "mask" if machine.masks else "scalar"
    masked = frozenset({32, 64}) if tail == "scalar" and "avx2" in features else frozenset[int]()
    return Target(
        "llvm",
        8 * machine.vector_bytes,
        tail,
        native,
        machine.registers,
        True,
        architecture,
        features,
        machine.masks,
        masked=masked,
        dots=(machine.vector_bytes // 4 if architecture == "aarch64" else 8) if machine.dots else 0,
        mixed=has_vnni(features, 8 * machine.vector_bytes),
        reshapes=architecture in LITTLE_ENDIAN,
    )


def llvm_host(cpu: str | None = None) -> Target:
    """The LLVM target of a processor: of the one that is named, else of the machine that this process runs on, or
    the one that DOJOIR_CPU names. Raises ArgumentError for a processor that is not known."""
    machine = machine_for("llvm", cpu)
    return replace(llvm_target(machine.architecture, machine.features), cpu=chosen_cpu(cpu) or "")
