"""A row a block: what `block_rows` makes of a kernel whose rows are independent, for a GPU.

The threads of a block share the elements of a row, a few neighbours each that one access moves. What several steps
need of the row is read once, and stays in registers, spread over the threads; sums and maxima over the row are put
together by all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Kernel, Path, Scope, accesses_in, format_path
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make

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
    | | | | x_row[{0}, {2}, {1}, {3}] = x[{0}, 4*{1} + 512*{2} + {3}]
    | m[{0}] = -inf
    | 128 : bx @j_in
    | | 2 : u @j
    | | | 4 : u @j_in_in
    | | | | m[{0}] max= x_row[{0}, {2}, {1}, {3}]
    | s[{0}] = 0
    | 128 : bx @k_in
    | | 2 : u @k
    | | | 4 : u @k_in_in
    | | | | e[{0}, {2}, {1}, {3}] = exp(x_row[{0}, {2}, {1}, {3}] - m[{0}])
    | | | | s[{0}] += e[{0}, {2}, {1}, {3}]
    | 128 : bx @l_in
    | | 2 : u @l
    | | | 4 : v @l_in_in
    | | | | y[{0}, 4*{1} + 512*{2} + {3}] = e[{0}, {2}, {1}, {3}] / s[{0}]
    <BLANKLINE>
    """
    path = trace.kernel.path(rows)
    if len(path) != 1:
        message = f"{rows} is inside of another scope, and the rows of a grid are outermost"
        raise ArgumentError(message, "bad-arguments")
    if not isinstance(trace.kernel.at(path), Scope):
        raise ArgumentError(f"{rows} is no scope: block_rows takes the scope over the rows", "bad-arguments")
    (row,) = path
    for name in list(read_again(trace.kernel, path)):
        kept = fresh_name(trace.kernel, f"{name}_row")
        make(trace, f"stage({row}, {name}, {kept}, in)")
        make(trace, f"join_scopes({row}, {row + 1})")
    own = [name for name in temporaries(trace.kernel, path) if trace.kernel.buffer(name).storage != "shared"]
    for name in own:
        for d in along(trace.kernel, name, 0):
            make(trace, f"reuse_dims({name}, {d})")
    children = _children(trace.kernel, path)
    widths = {extent: _width(trace.kernel, path, extent, threads) for extent in _extents(trace.kernel, path)}
    taken = [widths[extent] for extent in _extents(trace.kernel, path)]
    for child, width in zip(children, taken, strict=True):
        place = format_path(child)
        make(trace, f"split({place}, {width * threads})")
        if width > 1:
            make(trace, f"split({place}.0, {width})")
        make(trace, f"swap_scopes({place})")
    for name in own:
        for d in reversed(range(len(trace.kernel.buffer(name).dims))):
            dim = trace.kernel.buffer(name).dims[d]
            if not dim.collapsed and dim.extent.is_constant and dim.extent.offset in widths:
                width = widths[dim.extent.offset]
                make(trace, f"split_dim({name}, {d}, {width * threads})")
                if width > 1:
                    make(trace, f"split_dim({name}, {d + 1}, {width})")
        make(trace, f"place({name}, reg)")
    for child, width in zip(children, taken, strict=True):
        place = format_path(child)
        make(trace, f"bind({place}, bx)")
        make(trace, f"unroll({place}.0)")
        if width > 1:
            used = {access.buffer for access in accesses_in((trace.kernel.at(child),))}
            in_memory = any(trace.kernel.buffer(name).storage != "reg" for name in used)
            make(trace, f"{'vectorize' if in_memory else 'unroll'}({place}.0.0)")
    make(trace, f"bind({row}, gx)")


def _children(kernel: Kernel, path: Path) -> list[Path]:
    """The scopes right inside of the one at `path`."""
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    return [(*path, n) for n, node in enumerate(scope.body) if isinstance(node, Scope)]


def _extents(kernel: Kernel, path: Path) -> Iterator[int]:
    """The extents of the scopes right inside of the one at `path`. Raises ArgumentError for one that is open."""
    for child in _children(kernel, path):
        scope = kernel.at(child)
        assert isinstance(scope, Scope)
        if scope.extent.constant is None:
            place = format_path(child)
            message = f"the scope at {place} has no constant extent: fix its size, so that registers hold a row"
            raise ArgumentError(message, "bad-arguments")
        yield scope.extent.constant


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


def temporaries(kernel: Kernel, path: Path) -> Iterator[str]:
    """The temporaries that nothing outside of the scope at `path` uses."""
    users: dict[str, bool] = {}
    for site in kernel.sites:
        for access in site.statement.accesses:
            here = is_inside(site.path, path)
            users[access.buffer] = users.get(access.buffer, True) and here
    yield from (name for name, inside in users.items() if inside and kernel.buffer(name).role == "tmp")


def along(kernel: Kernel, name: str, depth: int) -> list[int]:
    """The dimensions of a temporary with storage that only the iterator at `depth` indexes."""
    used = [a for node in kernel.body for a in accesses_in((node,)) if a.buffer == name]
    return [
        d
        for d, dim in enumerate(kernel.buffer(name).dims)
        if not dim.collapsed and all(access.indices[d] == Affine.iterator(depth) for access in used)
    ]
