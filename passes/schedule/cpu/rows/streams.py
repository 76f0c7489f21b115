"""Streams: what is written once, and is larger than the last cache, goes past the caches.

A store to a line that no cache has reads it first, and puts out what was there: two thirds of the memory traffic of
`y = 2 * x` are then of use. Stores past the caches write lines that nobody reads soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Buffer, Kernel, Scope
from dojoir.passes.base.move import BufferName
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.stream import Stream, StreamLarge
from dojoir.passes.schedule.facts.sizes import Sizes, bytes_of
from dojoir.passes.schedule.facts.strides import step_of
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit

LONG = 512
"""How many neighbours a scope in lanes writes at least: shorter ones are not brought to whole lines."""


def streams(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Streams each output that is larger than the last cache, that nothing reads, and of which all stores are of
    neighbours in lanes. Where sizes are not known, the kernel asks for them."""
    for buffer in kernel.buffers:
        if is_written_along(kernel, buffer):
            first = next(site.path for site in kernel.sites if site.statement.target.buffer == buffer.name)
            yield Fit(first, partial(stream_if_large, buffer=buffer, machine=machine, sizes=sizes))


def stream_if_large(trace: Trace, buffer: Buffer, machine: Machine, sizes: Sizes) -> None:
    """Streams an output if the caches do not hold it; where sizes are not known, the kernel asks for them."""
    size, name = bytes_of(buffer, sizes), BufferName(buffer.name)
    if buffer.role == "out" and not buffer.stream and machine.held and (size is None or size > machine.held):
        tried(trace, Stream(name) if size is not None else StreamLarge(name, machine.held))


def is_written_along(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether nothing reads an array, and all that write it go along it in long lanes."""
    sites = [site for site in kernel.sites if any(a.buffer == buffer.name for a in site.statement.accesses)]
    for site in sites:
        around = site.ancestors[-1] if site.ancestors else None
        written = site.statement.target.buffer == buffer.name and site.statement.accumulation is None
        if not written or any(access.buffer == buffer.name for access in site.statement.reads):
            return False
        if not isinstance(around, Scope) or "v" not in around.marks or (around.constant_bound or LONG) < LONG:
            return False
        if step_of(kernel, site.statement.target, len(site.scopes) - 1) != 1:
            return False
    return bool(sites)
