"""What the lowering needs to know of a target: data, no code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`vector_bits` is the width of a register (0: leave lanes to the compiler, a `v` scope stays a plain loop
    marked simd). `tail` says how a last partial vector runs: `mask` or `scalar`. `native` names the storage
    types that the target converts itself; the others are expanded into integer arithmetic."""

    name: str
    vector_bits: int
    tail: str = "scalar"
    native: frozenset[str] = frozenset()
    registers: int = 16
