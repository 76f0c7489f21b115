"""The next row is fetched while this one is worked on, where a pass over rows has time for that.

The first of several passes over a row waits for memory, and a later one that takes an `exp` of each element does
not use it: it asks for the elements one row further on. On a Zen 4 log_softmax of rows of 4096 takes 0.77 of the
time so, of 2500 0.94, of 8000 0.96; of 2048 1.07.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.prefetch import Prefetch
from dojoir.passes.schedule.facts.short_rows import is_costly
from dojoir.passes.schedule.facts.sizes import Sizes, bytes_of, count_of
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.support.frozen import dataclass

OPEN = 4096
"""How far ahead it asks where the length of a row is not known."""

SHORTEST, LONGEST = 10 << 10, 32 << 10
"""The bytes of rows for which it pays: of a shorter one little is slow, and the first cache does not hold a longer
one beside the next."""


WIDE = 32
"""The bytes of vectors of machines that wait so: with shorter ones an `exp` of each element takes longer than
memory."""


@dataclass(frozen=True)
class Pass:
    """A second, compute-bound sweep of the scope at `path` over a row of `array`, during which the next row can be
    prefetched."""

    path: Path
    array: str


def next_rows(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Fetches the next row in each such pass, where it is known that rows are of such lengths and the caches do not
    hold all of them, or nothing is known of their number."""
    if machine.vector_bytes < WIDE:
        return
    for one in _found(kernel):
        scope, buffer = kernel.at(one.path), kernel.buffer(one.array)
        assert isinstance(scope, Scope)
        length, total = count_of(scope.extent, sizes), bytes_of(buffer, sizes)
        if length is None:
            distance = OPEN if total is None else 0
        else:
            fits = SHORTEST <= length * buffer.dtype.itemsize <= LONGEST
            distance = length if fits and (total is None or total > machine.held) else 0
        if distance:
            yield Fit(one.path, partial(_fetch, one=one, distance=distance))


def _fetch(trace: Trace, one: Pass, distance: int) -> None:
    act(trace, Prefetch, spot(trace, one.path), one.array, distance)


def _found(kernel: Kernel) -> Iterator[Pass]:
    """In the order of the text, one for each scope over rows."""
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
                yield Pass((*path, n), again[0])
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
