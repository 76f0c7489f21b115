"""Nests on a GPU that accumulate at indices from data: threads share the iterations, and meet by atomics.

Where the result is small, each block has a copy of its own in shared memory, and adds that to the result in the
end: privatisation, as histograms are computed on GPUs (Podlozhnyuk, "Histogram calculation in CUDA", 2007).

Nests on a GPU whose innermost scopes all go along what lies side by side: blocks for what is around, threads for
the columns.

So sums of gathered rows run, as products with sparse matrices and bags of embeddings: what is read at an index from
data is a row, which threads read together (Bell and Garland, "Implementing Sparse Matrix-Vector Multiplication on
Throughput-Oriented Processors", 2009).

Nests on a GPU that assign at indices from data: of the iterations that assign one element the last is found, and
then all of them run side by side.

The last one is a maximum of the numbers of iterations, which threads take by atomics (`keep_last_writer`). An index
that goes on in the nest, as the place of the next element that is kept, is brought into an array first: the nest
becomes one that computes it, a scan, and one that assigns.
"""

from __future__ import annotations

from math import prod

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Kernel, Path, Scope, Site, expr_accesses
from dojoir.ir.paths import is_inside
from dojoir.ir.places import siblings
from dojoir.ir.words import GRID
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import depends, dims_along, is_plain, require, sites_in
from dojoir.passes.schedule.gpu.sharing.threads import THREADS, a_thread_each, along, grid, keep_private
from dojoir.passes.schedule.steps.spots import Array, Spot, act, add_dim, nested, spot
from dojoir.passes.values.last_writers import KeepLastWriter
from dojoir.sets.distinct_writes import distinct_writes

COPY_BYTES = 16 << 10
"""The largest result of which each block has a copy: several blocks of a multiprocessor have room for theirs."""

BLOCKS = 512
"""How many blocks have a copy: a few for each multiprocessor, as each adds all of it to the result."""


def adds_at_data(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives a thread to each iteration. Raises DojoError where a nest accumulates nothing at data, or its
    iterations may not be shared."""
    keep_private(trace, path)
    scopes = nested(spot(trace, path))
    require(_scattered(trace, path) != set(), "an accumulation at data")
    require(len(scopes) <= len(GRID) and not any(scope.scope.marks for scope in scopes), "a few scopes")
    last = scopes[-1]
    extent = last.scope.extent.constant
    if len(scopes) > 1 and extent is not None and extent <= 4 * THREADS:
        last.mark("bx")
        grid(scopes[:-1])
    else:
        a_thread_each(last)
        grid((last, *scopes[:-1]))


def copies_in_blocks(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives a block a copy of a small result, in shared memory. Raises DojoError where there is none, or
    where it is used in other ways as well."""
    keep_private(trace, path)
    outer, names = spot(trace, path), _scattered(trace, path)
    require(not outer.scope.marks and len(names) == 1, "one accumulation at data")
    targets = [s.statement.target for s in sites_in(trace.kernel, path) if s.statement.scatters]
    scopes = nested(outer)
    told = (n for n, scope in enumerate(scopes) if any(dims_along(target, scope.depth) for target in targets))
    for _ in range(1, next(told, len(scopes))):  # those that say nothing of the element alone
        outer.collapse()
    (name,) = names
    buffer, extent = trace.kernel.buffer(name), outer.scope.extent.constant or 0
    sizes = [dim.extent.offset if dim.extent.is_constant else COPY_BYTES for dim in buffer.dims]
    require(prod(sizes) * buffer.dtype.itemsize <= COPY_BYTES, "a small result")
    require(extent >= BLOCKS * THREADS, "many iterations")
    outer.split(-(-extent // (BLOCKS * THREADS)) * THREADS)
    copy, together = outer.split_sum(name)
    outer.join(together)
    Array(trace, copy).reuse(0).place("shared")
    for nest in (outer.child(0), outer.child(2)):
        for _ in nested(nest)[1:]:
            nest.collapse()
    for number in range(3):
        along(outer.child(number), 0)
    outer.mark("gx")


def _scattered(trace: Trace, path: Path) -> set[str]:
    """The targets of accumulations at indices from data."""
    return {s.statement.target.buffer for s in sites_in(trace.kernel, path) if s.statement.scatters}


FEWEST, MOST = 32, 1024
"""How many columns threads have."""


def columns_in_threads(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives a block to each iteration of the scopes around, and a thread to each column. Raises DojoError where the
    innermost scopes are not all columns, of one extent that a block has threads for."""
    keep_private(trace, path)
    chain = [spot(trace, path)]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Scope) and chain[-1].child(0).scopes():
        chain.append(chain[-1].child(0))
    require(len(chain) <= len(GRID) and not any(scope.scope.marks for scope in chain), "a few scopes around")
    columns = _innermost(chain[-1])
    extents = {scope.scope.extent.constant for scope in columns}
    require(len(extents) == 1, "columns of one extent")
    (extent,) = extents
    require(extent is not None and FEWEST <= extent <= MOST, "as many columns as a block has threads")
    for scope in columns:
        require(
            all(depends(s.statement.target, scope.depth) for s in sites_in(trace.kernel, scope.path)), "columns"
        )
        scope.mark("bx")
    grid(chain)


def _innermost(around: Spot) -> list[Spot]:
    """The innermost scopes in a scope, in their order."""
    found: list[Spot] = []
    for scope in around.scopes():
        found += [scope] if is_plain(scope.node) else _innermost(scope)
    return found


def assigns_at_data(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Lets the iterations of a nest that assign at indices from data store only what stays, and returns the nests
    that it makes. Raises DojoError where it assigns nothing so, or where what says at which element it does cannot
    be computed before."""
    before, rest = len(siblings(trace.kernel, path)), path
    while (name := _going_on(trace.kernel, rest)) is not None:
        rest = _kept_beside(trace, rest, name)
    site = _assignment(trace.kernel, rest)
    count = len(site.statement.scatters) if site.statement.condition is not None else 0
    places = tuple(fresh_name(trace.kernel, f"place_{n}" if n else "place") for n in range(count))
    last = fresh_name(trace.kernel, "last")
    act(trace, KeepLastWriter, spot(trace, rest), spot(trace, site.path), last, places)
    new = len(siblings(trace.kernel, path)) - before
    made = [(*path[:-1], path[-1] + n) for n in range(new + 1)]
    return [spot(trace, one) for one in made if isinstance(trace.kernel.at(one), Scope)]


def _assignment(kernel: Kernel, path: Path) -> Site:
    """The first assignment at indices from data in a nest whose iterations may meet. Raises ArgumentError."""
    told = distinct_writes(kernel)
    for number, site in enumerate(kernel.sites):
        statement = site.statement
        if is_inside(site.path, path) and statement.scatters and statement.op == "=" and number not in told:
            return site
    raise ArgumentError("not an assignment at data", "bad-arguments")


def _going_on(kernel: Kernel, path: Path) -> str | None:
    """A buffer that says where the assignment of a nest goes, as an index or a condition, and that the nest
    writes."""
    statement = _assignment(kernel, path).statement
    written = {site.statement.target.buffer for site in sites_in(kernel, path)}
    asked = [*statement.index_reads, *(expr_accesses(statement.condition) if statement.condition else ())]
    return next((access.buffer for access in asked if access.buffer in written), None)


def _kept_beside(trace: Trace, path: Path, name: str) -> Path:
    """Keeps the values that an assignment finds in a scalar which its nest writes in an array, an element for each
    iteration, and gives the assignment a nest of its own, which is returned. Raises DojoError where a move of that
    is refused."""
    kernel = trace.kernel
    site = _assignment(kernel, path)
    writers = [s for s in sites_in(kernel, path) if s.statement.target.buffer == name]
    level = max(site.shared_ancestors(writer.path) for writer in writers)
    around = site.ancestors[len(path) - 1 : level]
    require(bool(around) and all(isinstance(node, Scope) for node in around), "scopes around an index that goes on")
    require(not kernel.buffer(name).dims, "an index that goes on in a scalar")
    levels = range(level, len(path) - 1, -1)
    child = site.path[: level + 1]
    kept = spot(trace, child).stage(name, "kept", "in")
    for n in levels:
        scope = spot(trace, site.path[:n])
        add_dim(trace, kept, scope.depth, scope.scope.extent.bounds[0])
    count = len(spot(trace, child[:-1]).body)
    for place in range(child[-1] + 1, count - 1):
        spot(trace, (*child[:-1], place)).swap_next()
    inside = count - 1
    for n in levels:
        spot(trace, site.path[:n]).part(inside)
        inside = site.path[n - 1] + 1
    return (*path[:-1], path[-1] + 1)
