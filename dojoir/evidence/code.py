"""The digest of machine code: the same for the same compiler, processor and kernel."""

from __future__ import annotations

import hashlib
from importlib.metadata import version

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle import MachineCode


def code_and_text(kernel: dojoir.Kernel, target: str) -> tuple[MachineCode, str] | None:
    """The machine code of a kernel as LLVM gives it, by its digest, and the text that this is of; None for what
    another compiler makes."""
    name, _, cpu = target.partition("@")
    if name != "llvm":
        return None
    try:
        text = dojoir.emit(kernel, "asm", cpu=cpu or None)
    except dojoir.DojoError:
        return None
    digest = hashlib.sha256(text.encode()).hexdigest()
    return MachineCode(f"llvmlite {version('llvmlite')}", cpu or runtime.processor(), digest), text
