"""The conditions of storage moves on a temporary: it is one, has the dimension, and fits its storage."""

from __future__ import annotations

from dojoir.ir.nodes import Buffer, Kernel
from dojoir.ir.words import MAX_BLOCK
from dojoir.passes.base.about import AboutTemporary
from dojoir.passes.base.move import Refusal

MAX_STACK_BYTES = 64 * 1024
"""The largest buffer that may live on the stack."""

MAX_BLOCK_BYTES = 256 * 1024
"""The size of the registers of all threads of a GPU's block, in bytes."""

MAX_REGISTER_ELEMENTS = 1024
"""The most elements that a buffer in registers may have, for each of the threads of a GPU that may share it if it
has several dimensions. As many as the others of these have indices, in a block."""


def temporary(kernel: Kernel, name: str) -> Buffer:
    """The temporary of that name. Raises Refusal for an argument of the kernel."""
    return AboutTemporary.named(kernel, name).buffer


def check_dim(buffer: Buffer, dim: int) -> None:
    if not 0 <= dim < len(buffer.dims):
        has = f"dimensions 0 to {len(buffer.dims) - 1}" if buffer.dims else "no dimensions"
        raise Refusal("unknown-dim", f"`{buffer.name}` has {has}, not {dim}")


def check_constant(buffer: Buffer, storage: str) -> None:
    elements = 1
    for i, dim in enumerate(buffer.dims):
        if not dim.collapsed:
            if not dim.extent.is_constant:
                raise Refusal(
                    "open-extent",
                    f"`{buffer.name}` has extent {dim.extent} in dimension {i}; in {storage} it must be a constant",
                    hint=f"reuse_dims({buffer.name}, {i}) or a fixed size makes it one",
                )
            elements *= dim.extent.offset
    kept = [dim.extent.offset for dim in buffer.dims if not dim.collapsed]
    threads = max(min(elements // min(kept), MAX_BLOCK), max(kept)) if len(kept) > 1 else 1
    each = elements // threads
    if storage == "reg" and each > MAX_REGISTER_ELEMENTS:
        beside = f" for each of {threads}" if len(kept) > 1 else ""
        raise Refusal(
            "too-large", f"`{buffer.name}` has {each} elements{beside}, more than {MAX_REGISTER_ELEMENTS}"
        )
    most = MAX_STACK_BYTES if storage == "stack" or len(kept) < 2 else MAX_BLOCK_BYTES
    if elements * buffer.dtype.itemsize > most:
        size = elements * buffer.dtype.itemsize
        raise Refusal("too-large", f"`{buffer.name}` has {size} bytes, more than {most}")
