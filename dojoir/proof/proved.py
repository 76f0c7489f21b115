"""Kernels that this version of dojoir has proved well-formed: a new process need not prove them again."""

from __future__ import annotations

from dojoir.ir.kernel import Kernel
from dojoir.ir.stored import whole_text
from dojoir.proof.checker_mode import uses_core
from dojoir.support.shelf import keep, shelf_key, taken

_PROVED = b"well-formed"


def ensure_proved(kernel: Kernel) -> None:
    """As `prove`, unless an earlier process proved a kernel of the same text. Raises KernelError."""
    key = None if uses_core() else shelf_key("well-formed", whole_text(kernel))
    if taken(key) != _PROVED:
        from dojoir.proof.wellformed import prove

        prove(kernel)
        keep(key, _PROVED)
