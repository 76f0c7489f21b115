"""A row a block: what `block_rows` makes of a kernel whose rows are independent, for a GPU.

The threads of a block share the elements of a row, a few neighbours each that one access moves. What several steps
need of the row is read once, and stays in registers, spread over the threads; sums and maxima over the row are put
together by all of them.

Rows of open length on a GPU: in the registers of a block where they are not too long, chosen at the call.

A row of up to 16384 elements is read once, by threads that have a few accesses of 16 bytes each; a longer one, or
one whose length 4 does not divide, stays in memory.

Rows on a GPU: what goes along them several times keeps them in registers, spread over a block or over a warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Condition, Extent, Guard, Kernel, Path, Scope, accesses_in
from dojoir.ir.paths import is_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unmark
from dojoir.passes.schedule.facts.strides import depends, given, is_plain, require, sites_in, step_of
from dojoir.passes.schedule.steps.spots import Array, Spot, act, mark_all, spot
from dojoir.passes.schedule.steps.versions import AtMost, Multiple, split_versions

MOST_UNROLLED = 64
"""How many times a thread may go along its row."""


def block_rows(trace: Trace, rows: str, threads: int = 256) -> None:
    """Runs each iteration of the scope at `rows` on a block of a GPU, the scopes right inside on its `threads`.
    Their extents are constants that all threads share equally. Temporaries of a row stay in registers, and so do
    arrays of which several scopes read the same row. Scopes over the rows are joined before.

    >>> import dojoir
    >>> kernel = dojoir.kernels.load("softmax").specialize(M=1024)
    >>> print(dojoir.parse_pipeline("block_rows(0, 128)")[0].on(dojoir.apply(kernel, "join_scopes(0, 1)")).kernel)
    kernel softmax(N, M = 1024)
    in  x: f32[N, 1024]
    out y: f32[N, 1024]
    tmp m: f32[N~] reg
    tmp e: f32[N~, 2, 128, 4] reg
    tmp s: f32[N~] reg
    tmp x_row: f32[N~, 2, 128, 4] reg
    <BLANKLINE>
    N : gx @i
    | 128 : bx
    | | 2 : u
    | | | 4 : v
    | | | | x_row[{i}, {2}, {1}, {3}] = x[{i}, 4*{1} + 512*{2} + {3}]
    | m[{i}] = -inf
    | 128 : bx @j_in
    | | 2 : u @j
    | | | 4 : u @j_in_in
    | | | | m[{i}] max= x_row[{i}, {j}, {j_in}, {j_in_in}]
    | s[{i}] = 0
    | 128 : bx @k_in
    | | 2 : u @k
    | | | 4 : u @k_in_in
    | | | | e[{i}, {k}, {k_in}, {k_in_in}] = exp(x_row[{i}, {k}, {k_in}, {k_in_in}] - m[{i}])
    | | | | s[{i}] += e[{i}, {k}, {k_in}, {k_in_in}]
    | 128 : bx @l_in
    | | 2 : u @l
    | | | 4 : v @l_in_in
    | | | | y[{i}, 4*{l_in} + 512*{l} + {l_in_in}] = e[{i}, {l}, {l_in}, {l_in_in}] / s[{i}]
    <BLANKLINE>
    """
    path = trace.kernel.path(rows)
    if len(path) != 1:
        message = f"{rows} is inside of another scope, and the rows of a grid are outermost"
        raise ArgumentError(message, "bad-arguments")
    row = spot(trace, path)
    if not isinstance(row.node, Scope):
        raise ArgumentError(f"{rows} is no scope: block_rows takes the scope over the rows", "bad-arguments")
    for name in list(read_again(trace.kernel, path)):
        keep_row(trace, row, name)
    own = temporaries_of(trace, row)
    extents = [_extent(scope) for scope in row.scopes()]
    for name in own:
        _is_of_one_thread(trace.kernel, name, row, extents)
    widths = {extent: _width_shared(trace.kernel, path, extent, threads) for extent in extents}
    _spread(row, own, threads, widths)
    row.mark("gx")


def _spread(row: Spot, own: Iterable[str], threads: int, widths: Mapping[int, int]) -> None:
    """Shares a row out over threads, of which each has neighbours by the extents of its scopes, and keeps its own
    temporaries in registers. Raises ArgumentError for a scope of another extent, as what reads the row at a shift
    needs, IllegalMove where a move is refused."""
    for scope in row.scopes():
        width = given(widths.get(scope.count), "rows of one constant length")
        shared_out(scope, Affine.constant(scope.count), threads, -(-scope.count // (threads * width)), width)
    for name in own:
        keep_in_registers(row.trace, name, threads, widths)
    on_threads(row.trace, row)


def _is_of_one_thread(kernel: Kernel, name: str, row: Spot, extents: Sequence[int]) -> None:
    """Raises ArgumentError where elements of a temporary that the scopes along a row share out are used by another
    of their iterations, which may be another thread: registers hold what is a thread's own."""
    along = Affine.iterator(row.depth + 1)
    shared = [d for d, dim in enumerate(kernel.buffer(name).dims)
              if not dim.collapsed and dim.extent.is_constant and dim.extent.offset in extents]  # fmt: skip
    for access in accesses_in((row.node,)):
        if access.buffer == name and any(access.indices[d] != along for d in shared):
            message = f"an iteration along the row uses an element of {name} that another one has"
            raise ArgumentError(message, "bad-arguments")


def extent_along(row: Spot) -> Extent:
    """The one extent of the scopes right inside of a row, which have statements alone. Raises ArgumentError where
    they have others, or there are none."""
    inside = [scope.scope for scope in row.scopes()]
    extents = {scope.extent for scope in inside}
    require(len(extents) == 1 and all(map(is_plain, inside)), "scopes of statements alone, of one extent")
    return extents.pop()


def keep_row(trace: Trace, row: Spot, name: str) -> str:
    """Has a row of an array read once, into a copy that all of the row uses. Returns the name of that. Raises
    IllegalMove where a move is refused."""
    kept = row.stage(name, "row", "in")
    row.beside(-1).join(row)
    return kept


def elements_of_one_row(kept: Array) -> Array:
    """Gives a copy of rows elements for one of them alone: the last dimension is along it."""
    for dim in range(len(kept.trace.kernel.buffer(kept.name).dims) - 1):
        kept.reuse(dim)
    return kept


def temporaries_of(trace: Trace, row: Spot) -> list[str]:
    """Gives the temporaries that nothing outside of a row uses, but those in shared memory, elements for one row
    alone, and returns them. Raises IllegalMove where a move is refused."""
    own = [n for n in used_inside(trace.kernel, row.path) if trace.kernel.buffer(n).storage != "shared"]
    for name in own:
        for d in _dims_along(trace.kernel, name, row.depth):
            Array(trace, name).reuse(d)
    return own


def keep_in_registers(trace: Trace, name: str, threads: int, widths: Mapping[int, int]) -> None:
    """Spreads a temporary of a row over the registers of the threads, as the scopes along the row are: `widths` has
    the neighbours of a thread by their extents. Raises IllegalMove where a move is refused."""
    for d, dim in reversed(list(enumerate(trace.kernel.buffer(name).dims))):
        width = widths.get(dim.extent.offset) if dim.extent.is_constant and not dim.collapsed else None
        if width is not None:
            Array(trace, name).split(d, width * threads)
            if width > 1:
                Array(trace, name).split(d + 1, width)
    if trace.kernel.buffer(name).storage != "reg":
        Array(trace, name).place("reg")


def on_threads(trace: Trace, row: Spot) -> None:
    """Runs the scopes right inside of a row on threads; what is inside of them, which a thread does, is unrolled.
    Neighbours of a thread that are not in registers are moved by one access. Raises IllegalMove where a move is
    refused."""
    for shared in row.scopes():
        times = shared.child(0)
        shared.mark("bx")
        times.mark("u")
        neighbours = times.child(0)
        while isinstance(neighbours.node, Guard):
            neighbours = neighbours.child(0)
        if isinstance(neighbours.node, Scope):
            used = {access.buffer for access in accesses_in((shared.node,))}
            in_memory = any(trace.kernel.buffer(name).storage != "reg" for name in used)
            neighbours.mark("v" if in_memory else "u")


def _extent(scope: Spot) -> int:
    """The constant extent of a scope. Raises ArgumentError for one that is open."""
    extent = scope.scope.extent.constant
    if extent is None:
        message = f"the scope at {scope} has no constant extent: fix its size, so that registers hold a row"
        raise ArgumentError(message, "bad-arguments")
    return extent


def _width_shared(kernel: Kernel, path: Path, extent: int, threads: int) -> int:
    """How many neighbours a thread takes of a row of `extent` elements: as many as one access of it can move."""
    accesses = [access for access in accesses_in((kernel.at(path),)) if 1 in _depths(access)]
    sizes = [kernel.buffer(access.buffer).dtype.itemsize for access in accesses]
    for width in (8, 4, 2, 1):
        times, left = divmod(extent, width * threads)
        if width * max(sizes, default=ACCESS_BYTES) <= ACCESS_BYTES and not left and times <= MOST_UNROLLED:
            return width
    message = f"{threads} threads do not share rows of {extent} elements equally, at most {4 * MOST_UNROLLED} each"
    raise ArgumentError(message, "bad-arguments")


def read_again(kernel: Kernel, path: Path) -> Iterator[str]:
    """The arguments of which several scopes right inside the one at `path` read the row."""
    seen: dict[str, set[Path]] = {}
    for site in kernel.sites:
        if is_inside(site.path, path) and len(site.path) > len(path) + 1:
            for access in site.statement.reads:
                buffer = kernel.buffer(access.buffer)
                if buffer.role == "in" and len(buffer.dims) > 1 and 0 in _depths(access):
                    seen.setdefault(access.buffer, set()).add(site.path[: len(path) + 1])
    yield from (name for name, places in seen.items() if len(places) > 1)


def _depths(access: Access) -> set[int]:
    return {depth for index in access.indices if isinstance(index, Affine) for depth in index.iterators}


def used_inside(kernel: Kernel, path: Path) -> Iterator[str]:
    """The temporaries that nothing outside of the scope at `path` uses."""
    users: dict[str, bool] = {}
    for site in kernel.sites:
        here = is_inside(site.path, path)
        for name in site.statement.buffers:
            users[name] = users.get(name, True) and here
    yield from (name for name, inside in users.items() if inside and kernel.buffer(name).role == "tmp")


def own_scalars_of(kernel: Kernel, path: Path) -> Iterator[str]:
    """The scalar temporaries that nothing outside of the scope at `path` uses: each iteration has its own."""
    yield from (name for name in used_inside(kernel, path) if not kernel.buffer(name).dims)


def _dims_along(kernel: Kernel, name: str, depth: int) -> list[int]:
    """The dimensions of a temporary with storage that only the iterator at `depth` indexes, everywhere alike."""
    used = [a for node in kernel.body for a in accesses_in((node,)) if a.buffer == name]
    found = []
    for d, dim in enumerate(kernel.buffer(name).dims):
        (first, *others) = {access.indices[d] for access in used}
        if not dim.collapsed and not others and isinstance(first, Affine) and first.iterators == {depth}:
            found.append(d)
    return found


FORMS = ((16384, 1024), (4096, 256))
"""The lengths up to which a row stays in registers, in units of a quarter of an access' elements, and the threads
of a block for it: at most four accesses each."""


def rows_by_length(trace: Trace, path: Path, rest: Callable[[Trace, Path], None]) -> None:
    """Gives each row, an iteration of the scope at `path`, to a block: a version for each range of lengths, and the
    schedule of `rest` for all other rows. Raises ArgumentError where it is not rows of one open length of which
    several steps read the same elements."""
    length = _length(spot(trace, path))
    require(bool(_read_again(trace.kernel, path)), "a row that a step reads again")
    width = _width_of_access(trace.kernel, path)
    longest = FORMS[0][0] * width // 4
    others, here = split_versions(trace, path, Multiple(str(length), width), AtMost(str(length), longest))
    versions = []
    for n, (elements, threads) in enumerate(FORMS):
        longer = here
        for shorter, _ in FORMS[n + 1 : n + 2]:
            longer, here = split_versions(trace, here, AtMost(str(length), shorter * width // 4))
        versions.append(spot(trace, longer))
        row_in_registers(trace, versions[-1], threads, elements // (4 * threads), width)
    for version in versions:  # last, as each move after them is held against what they promise
        version.mark("gx")
    rest(trace, others)


def row_in_registers(trace: Trace, row: Spot, threads: int, times: int, width: int) -> None:
    """Shares each iteration of the scope `row` out over `threads` of a block, which have `times` groups of `width`
    neighbours each of the scopes right inside. Raises DojoError where the length may be more."""
    length, again = _length(row), _read_again(trace.kernel, row.path)
    for scope in row.scopes():
        shared_out(scope, length, threads, times, width)
    for name in again:
        kept = row.stage(name, "row", "in")
        copy = row.beside(-1)
        shared_out(copy.child(0), length, threads, times, width)
        copy.join(row)
        last = len(trace.kernel.buffer(kept).dims) - 1
        elements_of_one_row(Array(trace, kept)).split(last, width * threads).split(last + 1, width).place("reg")
    on_threads(trace, row)


def shared_out(scope: Spot, length: Affine, threads: int, times: int, width: int) -> None:
    """A scope of up to `length` iterations as `threads` times `times` times `width` ones, those past the end under
    a guard: threads outermost."""
    shared = scope.split(width * threads)
    number = scope.iterator * (width * threads) + shared.iterator * width
    if length == Affine.constant(threads * times * width):  # no guard: threads share it equally
        if width > 1:
            shared.split(width)
    elif width == 1:
        shared.guard([Condition(number, "<", length)])
        shared.bound(Affine.constant(threads))
        scope.constant(times)
    else:
        neighbours = shared.split(width)
        neighbours.guard([Condition(number, "<", length)])
        for one, extent in ((neighbours, width), (shared, threads), (scope, times)):
            one.constant(extent)
        shared.guard([Condition(number, "<", length)])
        neighbours.child(0).unguard()
    scope.swap()


def _length(row: Spot) -> Affine:
    """The one open extent of the scopes right inside of a row, which have statements alone."""
    bounds = extent_along(row).bounds
    require(not any(isinstance(node, Guard) for node in row.body), "a row without guards")
    require(len(bounds) == 1 and not bounds[0].is_constant and not bounds[0].iterators, "rows of an open size")
    return bounds[0]


def _read_again(kernel: Kernel, path: Path) -> list[str]:
    """The arguments of which several scopes right inside the one at `path` read the row, as it lies."""
    depth = kernel.depth_of(path)
    seen: dict[str, set[int]] = {}
    for site in kernel.sites:
        if site.path[: len(path)] == path and len(site.path) > len(path) + 1:
            for access in site.statement.reads:
                row = depends(access, depth) and step_of(kernel, access, depth + 1) == 1
                if row and kernel.buffer(access.buffer).role == "in":
                    seen.setdefault(access.buffer, set()).add(site.path[len(path)])
    return [name for name, places in seen.items() if len(places) > 1]


def _width_of_access(kernel: Kernel, path: Path) -> int:
    """How many neighbours one access moves."""
    sizes = [kernel.buffer(a.buffer).dtype.itemsize for a in accesses_in((kernel.at(path),))]
    return ACCESS_BYTES // max(sizes)


MOST_EACH = 56
"""How many elements of a row a thread may keep, of 64 registers."""

BLOCK = 256


def rows_in_warps(trace: Trace, path: Path, machine: Machine) -> None:
    """A row a warp, whose lanes put together what they have without shared memory: several rows a block."""
    row = spot(trace, path)
    _rows(trace, row, machine.warp)
    for shared in row.scopes():
        act(trace, Unmark, shared, "bx")
        shared.mark("lane")
    mark_all(((row.split(BLOCK // machine.warp), "bx"), (row, "gx")))


def rows_in_blocks(trace: Trace, path: Path, machine: Machine) -> None:
    """A row a block."""
    row = spot(trace, path)
    length = extent_along(row).constant or 0
    _rows(trace, row, next((t for t in (128, 256, 512) if length <= 16 * t), 1024))
    row.mark("gx")


def rows_as_one(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Collapses two scopes over rows, as of a batch of planes, into one, so that structures for rows apply."""
    rows = spot(trace, path)
    inner = rows.child(0)
    require(len(rows.body) == 1 and isinstance(inner.node, Scope) and len(inner.body) > 1, "scopes over rows")
    require(all(scope.scopes() == [] for scope in inner.scopes()) and bool(inner.scopes()), "rows by themselves")
    rows.collapse()
    return [rows]


def _rows(trace: Trace, row: Spot, threads: int) -> None:
    """A row on `threads` threads, the last time under a guard where they do not share it equally."""
    require(not row.path[:-1], "a nest by itself")
    sums = [site.statement for site in sites_in(trace.kernel, row.path) if site.statement.accumulation is not None]
    own = {*own_scalars_of(trace.kernel, row.path)}
    shared = [s for s in sums if s.target.buffer not in own and not depends(s.target, row.depth)]
    require(not shared, "rows that share no sum")
    length = given(extent_along(row).constant, "rows of one constant length")
    require(length >= threads, "rows for all threads")
    width = _width_in_row(trace, row, length)
    times = -(-length // (threads * width))
    require(times * width <= MOST_EACH, "rows for registers")
    for name in list(read_again(trace.kernel, row.path)):
        keep_row(trace, row, name)
    _spread(row, temporaries_of(trace, row), threads, {length: width})


def _width_in_row(trace: Trace, row: Spot, length: int) -> int:
    """How many neighbours of a row one access moves, where each row begins where that may be."""
    depth = row.depth + 1
    sizes: Sequence[int] = [
        trace.kernel.buffer(a.buffer).dtype.itemsize for a in accesses_in((row.node,)) if depends(a, depth)
    ]
    width = ACCESS_BYTES // max(sizes, default=ACCESS_BYTES)
    while length % width:
        width //= 2
    return max(1, width)
