"""The names of a gradient's buffers."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.gradient.activity import has_gradient
from dojoir.gradient.order import Order
from dojoir.ir.nodes import Kernel
from dojoir.ir.words import name_error


class FreshNames:
    """Names that no size and no buffer of a kernel has."""

    def __init__(self, kernel: Kernel, prefix: str) -> None:
        """Raises ArgumentError for a prefix that makes no name."""
        self._kernel, self._prefix = kernel, prefix
        self._used = set(kernel.declared)
        wrong = name_error(f"{prefix}x")
        if wrong is not None:
            raise ArgumentError(f"prefix={repr_of(prefix)}: {wrong}", "bad-arguments")

    def gradient(self, buffer: str) -> str:
        """The name of the gradient of a buffer: that of an argument is always the same."""
        name = f"{self._prefix}{buffer}"
        if self._kernel.buffer(buffer).role == "tmp":
            return self.free(name)
        if name in self._used:
            raise ArgumentError(
                f"the gradient of {buffer} would be called {name}, as another name of {self._kernel.name} is: "
                f"rename that one, or give another prefix=",
                "name-clash",
            )
        self._used.add(name)
        return name

    def free(self, name: str) -> str:
        """The name itself, or the first free of NAME2, NAME3, …"""
        found = (
            name if name not in self._used else next(n for i in count(2) if (n := f"{name}{i}") not in self._used)
        )
        self._used.add(found)
        return found


def check_names(kernel: Kernel, of: Collection[str] | None, keep: Collection[str]) -> tuple[str, ...]:
    """The arguments that gradients are asked of: those named, or all that have one. Raises ArgumentError for
    others."""
    inputs = [b.name for b in kernel.buffers if b.role in ("in", "inout") and has_gradient(b)]
    wanted = tuple(inputs if of is None else dict.fromkeys(of))
    for name in wanted:
        if name not in inputs:
            known = ", ".join(inputs) or "none"
            raise ArgumentError(
                f"kernel {kernel.name} has no floating-point input '{name}' to take a gradient of"
                f"{did_you_mean(name, inputs)}; it has: {known}",
                "no-such-input",
            )
    if not wanted:
        raise ArgumentError(
            f"kernel {kernel.name} has no floating-point input to take a gradient of", "no-such-input"
        )
    made = [b.name for b in kernel.buffers if b.role in ("out", "tmp")]
    for name in keep:
        if name not in made:
            raise ArgumentError(
                f"kernel {kernel.name} has no output or temporary '{name}' to keep{did_you_mean(name, made)}; "
                f"it has: {', '.join(made)}",
                "unknown-buffer",
            )
    if not any(b.role in ("out", "inout") and has_gradient(b) for b in kernel.buffers):
        raise ArgumentError(
            f"kernel {kernel.name} has no floating-point result: it has no gradient", "no-such-input"
        )
    return wanted


def check_kept(kernel: Kernel, given: Kernel, keep: Collection[str]) -> None:
    """Raises ArgumentError for what cannot be kept: of which more values are needed than the last ones. `given` is
    the kernel with an element for each value of a temporary."""
    order = Order(given)
    for name in keep:
        read = [(k, a) for k, site in enumerate(given.sites) for a in site.statement.term_reads if a.buffer == name]
        if len(kernel.buffer(name).dims) != len(given.buffer(name).dims) or any(
            order.is_stale(k, access) for k, access in read
        ):
            raise ArgumentError(
                f"{name} of kernel {kernel.name} is written over after it is read, so its last values are not all "
                f"that the gradient needs: do not keep it, or give it an element for each value",
                "bad-keep",
            )
