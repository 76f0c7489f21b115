"""Streams: what is written once, and is larger than the last cache, goes past the caches.

A store to a line that no cache has reads it first, and puts out what was there: two thirds of the memory traffic of
`y = 2 * x` are then of use. Stores past the caches write lines that nobody reads soon.

The next row is fetched while this one is worked on, where a pass over rows has time for that.

The first of several passes over a row waits for memory, and a later one that takes an `exp` of each element does
not use it: it asks for the elements one row further on. On a Zen 4 log_softmax of rows of 4096 takes 0.77 of the
time so, of 2500 0.94, of 8000 0.96; of 2048 1.07.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Buffer, Kernel, Path, Scope
from dojoir.passes.base.move import BufferName
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.prefetch import Prefetch
from dojoir.passes.hardware.stream import Stream, StreamLarge
from dojoir.passes.schedule.facts.narrow import is_costly
from dojoir.passes.schedule.facts.strides import Sizes, bytes_of, count_of, depends, scope_at, sites_in, step_of
from dojoir.passes.schedule.steps.combinators import Fit, tried
from dojoir.passes.schedule.steps.spots import act, spot

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


OPEN = 4096
"""How far ahead it asks where the length of a row is not known."""

SHORTEST, LONGEST = 10 << 10, 32 << 10
"""The bytes of rows for which it pays: of a shorter one little is slow, and the first cache does not hold a longer
one beside the next."""


WIDE = 32
"""The bytes of vectors of machines that wait so: with shorter ones an `exp` of each element takes longer than
memory."""


def next_rows(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Fetches the next row in each such pass, where it is known that rows are of such lengths and the caches do not
    hold all of them, or nothing is known of their number."""
    if machine.vector_bytes < WIDE:
        return
    for path, array in _found(kernel):
        scope, buffer = scope_at(kernel, path), kernel.buffer(array)
        length, total = count_of(scope.extent, sizes), bytes_of(buffer, sizes)
        if length is None:
            distance = OPEN if total is None else 0
        else:
            fits = SHORTEST <= length * buffer.dtype.itemsize <= LONGEST
            distance = length if fits and (total is None or total > machine.held) else 0
        if distance:
            yield Fit(path, partial(_fetch, path=path, array=array, distance=distance))


def _fetch(trace: Trace, path: Path, array: str, distance: int) -> None:
    act(trace, Prefetch, spot(trace, path), array, distance)


def _found(kernel: Kernel) -> Iterator[tuple[Path, str]]:
    """Second sweeps that take long over a row of an array, one for each scope over rows: where, and which array."""
    for path, rows in kernel.walk():
        if not isinstance(rows, Scope) or "v" in rows.marks:
            continue
        begun: dict[str, Scope] = {}
        for n, along in enumerate(rows.body):
            if not isinstance(along, Scope) or "v" not in along.marks or along.hints:
                continue
            read = _rows_read(kernel, (*path, n))
            again = [name for name in read if name in begun and begun[name].extent == along.extent]
            if again and any(is_costly(site.statement) for site in sites_in(kernel, (*path, n))):
                yield (*path, n), again[0]
                break
            begun |= dict.fromkeys(read, along)


def _rows_read(kernel: Kernel, along: Path) -> list[str]:
    """The inputs of which the scope at a path reads one row for each iteration of the scope around it."""
    depth = kernel.depth_of(along)
    found = [a for site in sites_in(kernel, along) for a in site.statement.reads]
    return list(dict.fromkeys(
        a.buffer for a in found
        if kernel.buffer(a.buffer).role == "in" and depends(a, depth - 1) and step_of(kernel, a, depth) == 1
    ))  # fmt: skip
