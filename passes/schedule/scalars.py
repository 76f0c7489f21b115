"""Scalars that a text uses again: each use has one of its own, so that nests that have it may run in any order.

A text that names one scalar for the sum of each of two nests makes the second wait for the first, and neither can
run in lanes: a temporary belongs to what encloses all its uses.
"""

from __future__ import annotations

from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import BufferName, Move, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import first, repeat
from dojoir.passes.storage.sharing import UnshareBuffer


def own_scalars(trace: Trace) -> None:
    """Gives each stretch of the text that begins to use a scalar anew, inside of a scope, a scalar of its own."""
    repeat(first(_again))(trace)


def _again(kernel: Kernel) -> list[Move]:
    """From the last in the text to the first, so that each takes the name of no other."""
    scalars = {buffer.name for buffer in kernel.buffers if buffer.role == "tmp" and not buffer.dims}
    nested = {site.statement.target.buffer for site in kernel.sites if site.scopes} & scalars
    found: list[Move] = []
    for move in UnshareBuffer.candidates(kernel):
        assert isinstance(move, UnshareBuffer)
        if str(move.buffer) in nested:
            name = BufferName(fresh_name(kernel, str(move.buffer)))
            found.append(UnshareBuffer(move.buffer, name, move.position, move.accesses))
    return found[::-1]
