"""What a schedule needs to know of a machine: data, no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dojoir.errors import ArgumentError, did_you_mean


@dataclass(frozen=True)
class Machine:
    """A core has `registers` vector registers of `vector_bytes` bytes each; there are `cores` cores (0: some, not
    known how many), and `caches` gives the bytes of the caches that one core uses, the nearest first."""

    name: str
    vector_bytes: int = 64
    registers: int = 32
    cores: int = 0
    caches: tuple[int, ...] = (32 << 10, 1 << 20)


MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        machine.name: machine
        for machine in (
            Machine("llvm"),
            Machine("c", vector_bytes=32, registers=16),
            Machine("avx512"),
            Machine("avx2", vector_bytes=32, registers=16),
            Machine("neon", vector_bytes=16),
            Machine("rvv", vector_bytes=16),
        )
    }
)
"""Typical machines, by the target that runs on them."""


def machine_named(name: str) -> Machine:
    """The machine of a target. Raises ArgumentError with the nearest name."""
    try:
        return MACHINES[name]
    except KeyError:
        known = ", ".join(MACHINES)
        message = f"no machine is known for '{name}'{did_you_mean(name, MACHINES)}; known are {known}"
        raise ArgumentError(message, "unknown-machine") from None
