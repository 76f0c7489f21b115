"""The shared memory of a launch: what its kernel declares, and what a launch has to ask for."""

from __future__ import annotations

from collections.abc import Iterable

from dojoir.codegen.gpu.dialects import Language
from dojoir.codegen.lir.program import Allocate, Const, Instruct, Launch
from dojoir.codegen.lir.walk import statements
from dojoir.codegen.target import CUDA

ALIGN = 16
"""The bytes to which shared arrays are aligned at least: the widest access."""

RESERVED = 1 << 10
"""The bytes of shared memory that a block takes beside what it asks for."""

REGISTERS = 1 << 16
"""How many a multiprocessor has."""

OTHERS = 40
"""The registers of a thread that no array of the text is in."""


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


def alignment(launch: Launch) -> int:
    """The bytes that the memory of a block is a multiple of."""
    return max([256, *(array.align for array in launch.shared)])


def swizzled(launches: Iterable[Launch]) -> dict[str, tuple[int, int]]:
    """The bytes of a row and of an element, of each array of which chunks are exchanged."""
    arrays = [array for launch in launches for array in launch.shared if array.swizzle]
    return {array.name: (array.swizzle, array.dtype.itemsize) for array in arrays}


def dynamic_bytes(launch: Launch, language: Language) -> int:
    """The bytes of shared memory that a launch has to ask for: 0 where the kernel may declare them."""
    total = shared_offsets(launch)[-1]
    return total if total > language.declared_bytes else 0


def bounds_of(launch: Launch) -> str:
    """The arguments of `__launch_bounds__`: the threads of a block and, of kernels on matrix units, the blocks that
    a multiprocessor is to hold, as shared memory and registers allow. Without that number ptxas saves registers
    for more blocks: it loads each fragment just before its use, and the warp waits for it."""
    inside = tuple(statements(launch.body))
    if not any(isinstance(stmt, Instruct) and stmt.instruction.group > 1 for stmt in inside):
        return str(launch.threads)
    arrays = [stmt.array for stmt in inside if isinstance(stmt, Allocate)]
    bits = sum(
        int(array.elements.value) * array.dtype.bits for array in arrays if isinstance(array.elements, Const)
    )
    blocks = (CUDA.shared_bytes + RESERVED) // (shared_offsets(launch)[-1] + RESERVED)
    return f"{launch.threads}, {max(1, min(blocks, REGISTERS // launch.threads // (bits // 32 + OTHERS)))}"
