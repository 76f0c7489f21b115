"""A row a block: what `block_rows` makes of a kernel whose rows are independent, for a GPU.

The threads of a block share the elements of a row, a few neighbours each that one access moves. What several steps
need of the row is read once, and stays in registers, spread over the threads; sums and maxima over the row are put
together by all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Extent, Guard, Kernel, Path, Scope, Statement, accesses_in
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.storage.staging import Stage

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
    widths = {extent: _width(trace.kernel, path, extent, threads) for extent in extents}
    for scope, extent in zip(row.scopes(), extents, strict=True):
        act(trace, Split, scope, widths[extent] * threads)
        if widths[extent] > 1:
            act(trace, Split, scope.child(0), widths[extent])
        act(trace, SwapScopes, scope)
    for name in own:
        keep_in_registers(trace, name, threads, widths)
    on_threads(trace, row)
    act(trace, Bind, row, "gx")


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
    if len(extents) != 1 or any(not isinstance(node, Statement) for scope in inside for node in scope.body):
        raise ArgumentError("the scopes inside have other scopes, or different extents", "bad-arguments")
    return extents.pop()


def keep_row(trace: Trace, row: Spot, name: str) -> str:
    """Has a row of an array read once, into a copy that all of the row uses. Returns the name of that. Raises
    IllegalMove where a move is refused."""
    kept = fresh_name(trace.kernel, f"{name}_row")
    act(trace, Stage, row, name, kept, "in")
    act(trace, JoinScopes, row.beside(-1), row)
    return kept


def temporaries_of(trace: Trace, row: Spot) -> list[str]:
    """Gives the temporaries that nothing outside of a row uses, but those in shared memory, elements for one row
    alone, and returns them. Raises IllegalMove where a move is refused."""
    own = [n for n in used_inside(trace.kernel, row.path) if trace.kernel.buffer(n).storage != "shared"]
    for name in own:
        for d in _dims_along(trace.kernel, name, row.depth):
            act(trace, ReuseDims, name, d)
    return own


def keep_in_registers(trace: Trace, name: str, threads: int, widths: Mapping[int, int]) -> None:
    """Spreads a temporary of a row over the registers of the threads, as the scopes along the row are: `widths` has
    the neighbours of a thread by their extents. Raises IllegalMove where a move is refused."""
    for d, dim in reversed(list(enumerate(trace.kernel.buffer(name).dims))):
        width = widths.get(dim.extent.offset) if dim.extent.is_constant and not dim.collapsed else None
        if width is not None:
            act(trace, SplitDim, name, d, width * threads)
            if width > 1:
                act(trace, SplitDim, name, d + 1, width)
    if trace.kernel.buffer(name).storage != "reg":
        act(trace, PlaceBuffer, name, "reg")


def on_threads(trace: Trace, row: Spot) -> None:
    """Runs the scopes right inside of a row on threads; what is inside of them, which a thread does, is unrolled.
    Neighbours of a thread that are not in registers are moved by one access. Raises IllegalMove where a move is
    refused."""
    for shared in row.scopes():
        times = shared.child(0)
        act(trace, Bind, shared, "bx")
        act(trace, Unroll, times)
        neighbours = times.child(0)
        while isinstance(neighbours.node, Guard):
            neighbours = neighbours.child(0)
        if isinstance(neighbours.node, Scope):
            used = {access.buffer for access in accesses_in((shared.node,))}
            in_memory = any(trace.kernel.buffer(name).storage != "reg" for name in used)
            act(trace, Vectorize if in_memory else Unroll, neighbours)


def _extent(scope: Spot) -> int:
    """The constant extent of a scope. Raises ArgumentError for one that is open."""
    extent = scope.scope.extent.constant
    if extent is None:
        message = f"the scope at {scope} has no constant extent: fix its size, so that registers hold a row"
        raise ArgumentError(message, "bad-arguments")
    return extent


def _width(kernel: Kernel, path: Path, extent: int, threads: int) -> int:
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
    indices = [{access.indices[d] for access in used} for d in range(len(kernel.buffer(name).dims))]
    alone = [len(each) == 1 and _only(next(iter(each)), depth) for each in indices]
    return [d for d, dim in enumerate(kernel.buffer(name).dims) if not dim.collapsed and alone[d]]


def _only(index: Affine | Access, depth: int) -> bool:
    """Whether an index is made of the iterator at `depth` alone."""
    return isinstance(index, Affine) and index.iterators == {depth}
