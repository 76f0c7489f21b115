"""Storage: dimensions that need none are collapsed, and small temporaries are in registers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import BufferName, Word
from dojoir.passes.schedule.facts.sizes import Sizes
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims

SCALAR_LIKE = 16
"""The most elements of a temporary that goes into registers."""


def collapsed(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Collapses each dimension of a temporary in memory that needs no storage."""
    for name in _in_memory(kernel):
        for i, dim in enumerate(kernel.buffer(name).dims):
            if not dim.collapsed:
                yield Fit((), ReuseDims(BufferName(name), i))


def registers(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Puts temporaries in memory that are known to be small into registers."""
    for name in _in_memory(kernel):
        stored = [dim.extent for dim in kernel.buffer(name).dims if not dim.collapsed]
        known = all(extent.is_constant for extent in stored)
        if known and prod(extent.offset for extent in stored) <= SCALAR_LIKE:
            yield Fit((), PlaceBuffer(BufferName(name), Word("reg")))


def _in_memory(kernel: Kernel) -> list[str]:
    return [buffer.name for buffer in kernel.buffers if buffer.role == "tmp" and buffer.storage == "heap"]
