"""What the lowering needs to know of a target: data, no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from dojoir.instruction import Instruction

INTRINSICS = ("avx512", "avx2", "neon", "rvv")
"""The targets that are printed as C with the intrinsics of an instruction set: the names of `isas.ISAS`."""


@dataclass(frozen=True)
class Target:
    """`vector_bits` is the width of a register (0: leave lanes to the compiler, a `v` scope stays a plain loop
    marked simd) and `registers` how many there are. `tail` says how a last partial vector runs: `mask`,
    `scalar`, or `vl` (the target is asked for each vector how many lanes it takes). `native` names the narrow float
    types that the target converts itself; the others are expanded into integer arithmetic. `streams`: it has
    stores past the caches; `scales`: vectors of 128 and 256 bits, and of 512 or several times that, have `ldexp`.
    `architecture` and `features` are those of the machine, by LLVM's names (empty: any)."""

    name: str
    vector_bits: int
    tail: str = "scalar"
    native: frozenset[str] = frozenset()
    registers: int = 16
    streams: bool = True
    architecture: str = ""
    features: frozenset[str] = frozenset()
    scales: bool = False

    def spells(self, instruction: Instruction) -> bool:
        """Whether the target has words for an instruction. C asks its compiler, LLVM must know the machine."""
        if self.name == "llvm":
            return instruction.llvm is not None and instruction.needs <= self.features
        return instruction.c is not None


C = Target("c", 0)


def llvm_target(architecture: str, features: frozenset[str]) -> Target:
    """The LLVM target of a machine, from its architecture (`x86_64`, `aarch64`, …) and features by LLVM's
    names (`avx2`, `avx512f`, …)."""
    native = frozenset({"f16"}) if "f16c" in features or architecture == "aarch64" else frozenset[str]()
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features:
        return Target("llvm", 512, "mask", native, 32, True, architecture, features, True)
    if "avx2" in features:
        return Target("llvm", 256, "scalar", native, 16, True, architecture, features)
    return Target(
        "llvm", 128, "scalar", native, 32 if architecture == "aarch64" else 16, True, architecture, features
    )


def llvm_host() -> Target:
    """The LLVM target of the machine that this process runs on."""
    binding = import_module("llvmlite.binding")
    triple: str = binding.get_default_triple()
    features: Mapping[str, bool] = binding.get_host_cpu_features()
    present = frozenset(name for name, is_present in features.items() if is_present)
    return llvm_target(triple.partition("-")[0], present)
