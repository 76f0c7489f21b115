"""Squares: what is read along one dimension and written along another, a vector high and wide at a time."""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Path, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make
from dojoir.passes.schedule.strides import sites_in, step_of


def transpose_squares(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles two scopes, of which reads go along the inner one and writes along the outer one, in squares of one
    vector, which is one line of a cache: what a square reads is copied as it lies in memory, and the result is
    written so. Raises IllegalMove where a move of it is refused."""
    kernel, depth = trace.kernel, trace.kernel.depth_of(path)
    found = [access for site in sites_in(kernel, path) for access in site.statement.accesses]
    size = max(kernel.buffer(access.buffer).dtype.itemsize for access in found)
    side = max(machine.vector_bytes // size, 1)
    place = format_path(path)
    make(trace, f"tile({place}, {place}.0, {side}, {side})")
    across = [a.buffer for a in found if step_of(kernel, a, depth + 1) == 1 and step_of(kernel, a, depth) is None]
    nest = (*path, 0, 0)
    for name in dict.fromkeys(across):
        square = fresh_name(trace.kernel, f"{name}_tile")
        make(trace, f"stage({format_path(nest)}, {name}, {square}, in)")
        make(trace, f"place({square}, stack)")
        nest = (*nest[:-1], nest[-1] + 1)
    make(trace, f"swap_scopes({format_path(nest)})")
    make(trace, f"vectorize({format_path((*nest, 0))})")
