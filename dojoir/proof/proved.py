"""Kernels that this version of dojoir has proved well-formed: a new process need not prove them again."""

from __future__ import annotations

from dojoir.ir.kernel import Kernel
from dojoir.ir.stored import whole_text
from dojoir.proof.checker_mode import uses_core
from dojoir.support.memo import tables
from dojoir.support.shelf import keep, shelf_key, taken

_PROVED = b"well-formed"


def ensure_proved(kernel: Kernel) -> None:
    """As `prove`, unless an earlier process proved a kernel of the same text, or the moves that led to it. Raises
    KernelError."""
    if uses_core() or taken(_key(kernel)) != _PROVED:
        from dojoir.proof.wellformed import prove

        prove(kernel)
        keep_as_proved(kernel)


def keep_as_proved(kernel: Kernel) -> None:
    """Keeps for later processes that a kernel is well-formed: it was proved to be, or legal moves led to it from
    one that was. Not what is only supposed, nor what the core alone was asked."""
    if tables().sure is None and not uses_core():
        keep(_key(kernel), _PROVED)


def _key(kernel: Kernel) -> str | None:
    return shelf_key("well-formed", whole_text(kernel))
