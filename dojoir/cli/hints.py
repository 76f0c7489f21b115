"""Which option was meant, by spelling or by what other tools call it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MEANT = {
    "-O": "opt optimise schedule O0 O1 O2 O3 Ofast",
    "-p": "pass passes pass-pipeline apply move transform",
    "--list-passes": "list-moves print-passes show-passes",
    "--moves": "legal legal-moves candidates actions",
    "--explain": "why-not legality dependences deps",
    "--find": "query match grep",
    "--cost": "flops roofline bytes footprint",
    "--emit asm": "asm assembly disassemble filetype S",
    "--emit llvm-opt": "emit-llvm ir llvm-ir print-llvm",
    "--time": "bench benchmark measure profile speed",
    "--timing": "mlir-timing time-passes timings",
    "--check": "verify test validate compare",
    "--run": "execute exec jit interpret",
    "--cpu": "mcpu march mtune arch processor host",
    "--print-diff": "diff",
    "--print-ir-after-all": "dump print-after-all mlir-print-ir-after-all trace verbose v debug",
    "--print-lir-after-all": "print-lir lir print-after-lowering",
    "--doctor": "info system hardware devices diagnose",
    "--save-trace": "record save trace-out",
    "--fp": "fast-math ffast-math math precision",
    "--seed": "random random-seed",
    "--threads": "jobs j cores num-threads",
    "--size": "N M K shape sizes dim dims define",
    "--names": "named iterator-names",
}
"""Options of ours, each with what other tools call such a thing."""

_BY_WORD = {word: option for option, words in MEANT.items() for word in words.split()}


def nearest(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the nearest known word, or an empty string."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


_TARGETS = {
    "c": "C cpp c++ cc gcc clang openmp cpu",
    "cuda": "ptx cubin nvidia gpu nvptx nvcc triton",
    "hip": "amd rocm amdgpu hipcc",
    "neon": "arm aarch64 arm64",
    "rvv": "riscv riscv64",
    "llvm": "x86 x86_64 x86-64 native host jit ll mlir",
    "avx2": "avx sse",
    "avx512": "avx-512 avx512f",
}
"""Targets of ours, each with what other tools call such a thing."""


def nearest_target(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the target that a word means, or an empty string."""
    meant = next((target for target, words in _TARGETS.items() if word in words.split()), None)
    return f"; did you mean '{meant}'?" if meant else nearest(word, known)


def hint_for_option(word: str, flags: Iterable[str]) -> str:
    """The hint for an argument that is no option: which one was meant."""
    if not word.startswith("-"):
        return ""
    name = word.partition("=")[0]
    meant = _BY_WORD.get(name.lstrip("-")) or _BY_WORD.get(name.lstrip("-").replace("_", "-"))
    return f"; did you mean '{meant}'?" if meant else nearest(name, flags)
