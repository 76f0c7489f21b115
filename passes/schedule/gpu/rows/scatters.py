"""Nests on a GPU that accumulate at indices from data: threads share the iterations, and meet by atomics.

Where the result is small, each block has a copy of its own in shared memory, and adds that to the result in the
end: privatisation, as histograms are computed on GPUs (Podlozhnyuk, "Histogram calculation in CUDA", 2007).
"""

from __future__ import annotations

from math import prod

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Path
from dojoir.ir.words import GRID
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.strides import sites_in
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.gpu.sharing.private import keep_private
from dojoir.passes.schedule.gpu.sharing.threads import THREADS, along, grid
from dojoir.passes.schedule.steps.spots import act, nested, spot
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.values.reductions import SplitReduction

COPY_BYTES = 16 << 10
"""The largest result of which each block has a copy: several blocks of a multiprocessor have room for theirs."""

BLOCKS = 512
"""How many blocks have a copy: a few for each multiprocessor, as each adds all of it to the result."""


def adds_at_data(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives a thread to each iteration. Raises DojoError where a nest accumulates nothing at data, or its
    iterations may not be shared."""
    keep_private(trace, path)
    scopes = nested(spot(trace, path))
    known(_scattered(trace, path) != set(), "an accumulation at data")
    known(len(scopes) <= len(GRID) and not any(scope.scope.marks for scope in scopes), "a few scopes")
    last = scopes[-1]
    extent = last.scope.extent.constant
    if len(scopes) > 1 and extent is not None and extent <= 4 * THREADS:
        act(trace, Bind, last, "bx")
        grid(trace, scopes[:-1])
    else:
        act(trace, Split, last, THREADS)
        act(trace, Bind, last.child(0), "bx")
        grid(trace, (last, *scopes[:-1]))


def copies_in_blocks(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives a block a copy of a small result, in shared memory. Raises DojoError where there is none, or
    where it is used in other ways as well."""
    keep_private(trace, path)
    outer, names = spot(trace, path), _scattered(trace, path)
    known(len(nested(outer)) == 1 and not outer.scope.marks and len(names) == 1, "one accumulation at data")
    (name,) = names
    buffer, extent = trace.kernel.buffer(name), outer.scope.extent.constant or 0
    sizes = [dim.extent.offset if dim.extent.is_constant else COPY_BYTES for dim in buffer.dims]
    known(prod(sizes) * buffer.dtype.itemsize <= COPY_BYTES, "a small result")
    known(extent >= BLOCKS * THREADS, "many iterations")
    act(trace, Split, outer, -(-extent // (BLOCKS * THREADS)) * THREADS)
    copy = fresh_name(trace.kernel, f"{name}_part")
    act(trace, SplitReduction, outer, name, copy, outer.scope.extent)
    act(trace, JoinScopes, outer.beside(-1), outer)
    act(trace, JoinScopes, outer, outer.beside(1))
    act(trace, ReuseDims, copy, 0)
    act(trace, PlaceBuffer, copy, "shared")
    for number in range(3):
        along(trace, outer.child(number), 0)
    act(trace, Bind, outer, "gx")


def _scattered(trace: Trace, path: Path) -> set[str]:
    """The targets of accumulations at indices from data."""
    return {s.statement.target.buffer for s in sites_in(trace.kernel, path) if s.statement.scatters}
