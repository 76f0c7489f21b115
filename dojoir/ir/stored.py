"""Kernels in cache entries that only this version of dojoir reads: a key that identifies one, and one as
bytes."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator

from dojoir.ir.instruction import Instruction, Use
from dojoir.ir.kernel import Kernel
from dojoir.ir.text import to_text
from dojoir.ir.tree import Node, Scope, Statement


def whole_text(kernel: Kernel) -> str:
    """All that a kernel says: its text with labels, and the instructions that the text has by name alone."""
    return "\n".join([to_text(kernel), *map(_instruction_text, _instructions(kernel.body))])


def _instructions(nodes: Iterable[Node]) -> Iterator[Instruction]:
    for node in nodes:
        if isinstance(node, Scope):
            yield from (hint.instruction for hint in node.hints if isinstance(hint, Use))
        if not isinstance(node, Statement):
            yield from _instructions(node.body)


def _instruction_text(one: Instruction) -> str:
    spelled = one.when, one.headers, one.c, one.llvm, one.cuda
    operands = map(sorted, (one.spread, one.shared, one.proxied, one.swizzled))
    parts = sorted(one.needs), *spelled, one.group, *operands
    return f"{whole_text(one.body)}{parts!r}"


def to_bytes(kernel: Kernel) -> bytes:
    """A kernel with labels and places in its source as bytes: they are read in a tenth of the time of parsing."""
    return pickle.dumps(kernel, pickle.HIGHEST_PROTOCOL)


def from_bytes(data: bytes) -> Kernel | None:
    """The kernel that `to_bytes` made bytes of; None where the bytes are none of a kernel. Whoever wrote the
    bytes, only nodes of kernels are made."""
    try:
        found = _KernelUnpickler(io.BytesIO(data)).load()
    except Exception:
        return None
    return found if isinstance(found, Kernel) else None


class _KernelUnpickler(pickle.Unpickler):
    """Knows the classes of which kernels are made, and nothing else."""

    def find_class(self, module: str, name: str) -> type:
        found = (
            super().find_class(module, name)
            if module.startswith("dojoir.ir.") or module == "dojoir.errors"
            else None
        )
        if not isinstance(found, type) or not hasattr(found, "__dataclass_fields__"):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a kernel")
        return found
