"""The shared memory of a launch: what its kernel declares, and what a launch has to ask for."""

from __future__ import annotations

from dojoir.codegen.gpu.dialects import Language
from dojoir.codegen.lir.program import Const, Launch

ALIGN = 16
"""The bytes to which shared arrays are aligned at least: the widest access."""


def shared_offsets(launch: Launch) -> tuple[int, ...]:
    """Where each shared array begins in a block's memory, in bytes, then how many bytes all take."""
    at = 0
    found: list[int] = []
    for array in launch.shared:
        align = max(array.align, ALIGN)
        at = -(-at // align) * align
        found.append(at)
        assert isinstance(array.elements, Const), f"array {array.name} has an open size"
        at += max(1, int(array.elements.value)) * array.dtype.itemsize
    return (*found, at)


def dynamic_bytes(launch: Launch, language: Language) -> int:
    """The bytes of shared memory that a launch has to ask for: 0 where the kernel may declare them."""
    total = shared_offsets(launch)[-1]
    return total if total > language.declared_bytes else 0
