"""The same operator on a GPU: which kernel runs there, compiled when the first tensor comes from one."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import torch

import dojoir
from dojoir.passes import Versions

GRID = frozenset({"gx", "gy", "gz"})
"""The marks of scopes whose iterations are blocks of a GPU."""


Given: TypeAlias = dojoir.Kernel | dojoir.Trace | Versions


class OnDevice:
    """A kernel for tensors of GPUs. `given` is what the operator is made of, `own` what is asked for instead."""

    def __init__(self, given: Given, own: Given | None) -> None:
        """Raises ArgumentError where `own` takes other arguments than `given`."""
        self._given, self._own = given, own
        if own is not None:
            _check_alike(last(given), last(own))

    @cached_property
    def compiled(self) -> dojoir.Compiled:
        """Raises what `dojoir.optimize` and `dojoir.compile` raise: ToolchainError where a tool is missing."""
        target = "cuda" if torch.version.hip is None else "hip"
        return dojoir.compile(self.kernel(target), target)

    def kernel(self, target: str) -> dojoir.Kernel:
        """The kernel that is asked for; else the given one where it is made for a GPU, else what the schedules of
        the target make of its text."""
        if self._own is not None:
            return last(self._own)
        kernel = last(self._given)
        if any(GRID & {*getattr(node, "marks", ())} for _, node in kernel.walk()):
            return kernel
        text = kernel if isinstance(self._given, dojoir.Kernel) else self._given.start
        return dojoir.optimize(text, target).kernel

    def __call__(self, *arguments: Any, **sizes: Any) -> None:
        self.compiled(*arguments, **sizes)


def last(given: Given) -> dojoir.Kernel:
    """The kernel, or the one that a trace or the last version leads to."""
    return given if isinstance(given, dojoir.Kernel) else given.kernel


def to_compile(given: Given) -> dojoir.Kernel | Versions:
    """The input of compilation for a processor: the kernel, the one that a trace leads to, or all versions."""
    return given.kernel if isinstance(given, dojoir.Trace) else given


def _check_alike(kernel: dojoir.Kernel, other: dojoir.Kernel) -> None:
    mine, its = _outside(kernel), _outside(other)
    if mine != its:
        raise dojoir.ArgumentError(
            f"cuda= takes a kernel of the same arguments: {other.name} has {its}, and {kernel.name} has {mine}",
            "other-arguments",
        )


def _outside(kernel: dojoir.Kernel) -> str:
    """The sizes and arguments, as a text."""
    lines = dojoir.to_text(kernel).splitlines()
    declared = [" ".join(line.split()) for line in lines if line.split(" ")[0] in ("in", "out", "inout")]
    return "; ".join([f"sizes {', '.join(kernel.runtime_sizes) or 'none'}", *declared])
