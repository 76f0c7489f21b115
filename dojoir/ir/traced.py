"""A kernel, or a trace whose last kernel is meant: where a kernel is compiled, timed or checked."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

from dojoir.ir.kernel import Kernel


class Traced(Protocol):
    """A kernel with the moves that made it, such as a `dojoir.Trace`: `start` is the first, `kernel` the last."""

    @property
    def start(self) -> Kernel: ...
    @property
    def kernel(self) -> Kernel: ...
    def to_json(self) -> dict[str, Any]: ...


def last_kernel(given: Kernel | Traced) -> Kernel:
    """A kernel itself, or the last one of a trace."""
    return given if isinstance(given, Kernel) else given.kernel


def first_kernel(given: Kernel | Traced) -> Kernel:
    """A kernel itself, or the one that a trace starts with."""
    return given if isinstance(given, Kernel) else given.start


def is_traced(value: object) -> TypeGuard[Traced]:
    """Whether a value is such a trace, and neither a kernel nor a function."""
    return not isinstance(value, Kernel | str) and hasattr(value, "to_json") and hasattr(value, "start")
