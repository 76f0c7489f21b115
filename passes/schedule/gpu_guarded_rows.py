"""Rows of a constant length that threads do not share equally, in the registers of a block.

A thread has every so many-th element, one at a time, since rows begin where no wide access may; the last time under
a guard. What several steps need of the row is read once.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Path, Scope, Statement, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make
from dojoir.passes.schedule.gpu_open_rows import shared_out
from dojoir.passes.schedule.gpu_rows import along, read_again, temporaries

MOST_EACH = 56
"""How many elements of a row a thread may keep, of 64 registers."""

THREADS = (1024, 512, 256)


def guarded_rows(trace: Trace, path: Path) -> None:
    """Gives each row, an iteration of the scope at `path`, to a block. Raises DojoError where it is not rows of one
    constant length, or they are too long for the registers of a block."""
    row = format_path(path)
    length = _length(trace, path)
    again = list(read_again(trace.kernel, path))
    threads = next((t for t in THREADS if length >= 8 * t), THREADS[-1])
    times = -(-length // threads)
    if not again or times > MOST_EACH or length < threads:
        raise ArgumentError(f"rows of {length} elements are not for the registers of a block", "bad-arguments")
    for name in again:
        kept = fresh_name(trace.kernel, f"{name}_row")
        make(trace, f"stage({row}, {name}, {kept}, in)")
        make(trace, f"join_scopes({row}, {format_path((*path[:-1], path[-1] + 1))})")
    depth = trace.kernel.depth_of(path)
    own = list(temporaries(trace.kernel, path))
    for name in own:
        for d in along(trace.kernel, name, depth):
            make(trace, f"reuse_dims({name}, {d})")
    children = [(*path, n) for n, node in enumerate(_scope(trace, path).body) if isinstance(node, Scope)]
    for child in children:
        shared_out(trace, child, Affine.constant(length), threads, times, 1)
    for name in own:
        for d, dim in enumerate(trace.kernel.buffer(name).dims):
            if not dim.collapsed and dim.extent == Affine.constant(length):
                make(trace, f"split_dim({name}, {d}, {threads})")
        make(trace, f"place({name}, reg)")
    for child in children:
        make(trace, f"bind({format_path(child)}, bx)")
        make(trace, f"unroll({format_path(child)}.0)")
    make(trace, f"bind({row}, gx)")


def _length(trace: Trace, path: Path) -> int:
    """The one extent of the scopes right inside of the one at `path`, which have statements alone."""
    inside = [node for node in _scope(trace, path).body if isinstance(node, Scope)]
    extents = {node.extent.constant for node in inside}
    if len(extents) != 1 or any(not isinstance(child, Statement) for node in inside for child in node.body):
        raise ArgumentError("the scopes inside have other scopes, or different extents", "bad-arguments")
    (length,) = extents
    if length is None:
        raise ArgumentError("the length of rows is open", "bad-arguments")
    return length


def _scope(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    return scope
