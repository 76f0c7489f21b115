"""Rows of a constant length that threads do not share equally, in the registers of a block.

A thread has every so many-th element, one at a time, since rows begin where no wide access may; the last time under
a guard. What several steps need of the row is read once.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Path
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind
from dojoir.passes.schedule.gpu.rows.open_rows import shared_out
from dojoir.passes.schedule.gpu.rows.rows import (
    extent_along,
    keep_in_registers,
    keep_row,
    on_threads,
    read_again,
    temporaries_of,
)
from dojoir.passes.schedule.steps.spots import act, spot

MOST_EACH = 56
"""How many elements of a row a thread may keep, of 64 registers."""

THREADS = (1024, 512, 256)


def guarded_rows(trace: Trace, path: Path) -> None:
    """Gives each row, an iteration of the scope at `path`, to a block. Raises DojoError where it is not rows of one
    constant length, or they are too long for the registers of a block."""
    row = spot(trace, path)
    length = extent_along(row).constant
    if length is None:
        raise ArgumentError("the length of rows is open", "bad-arguments")
    again = list(read_again(trace.kernel, path))
    threads = next((t for t in THREADS if length >= 8 * t), THREADS[-1])
    times = -(-length // threads)
    if not again or times > MOST_EACH or length < threads:
        raise ArgumentError(f"rows of {length} elements are not for the registers of a block", "bad-arguments")
    for name in again:
        keep_row(trace, row, name)
    own = temporaries_of(trace, row)
    for scope in row.scopes():
        shared_out(trace, scope, Affine.constant(length), threads, times, 1)
    for name in own:
        keep_in_registers(trace, name, threads, {length: 1})
    on_threads(trace, row)
    act(trace, Bind, row, "gx")
