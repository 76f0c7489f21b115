"""What `default_schedule` makes of a kernel for a GPU, by rule: each nest that can be a grid becomes one.

A nest begins with scopes whose iterations are independent. Where the elements of a row are the work of an
iteration, a block has it, and its threads the elements; else a thread has an iteration, or a few neighbours of one
that an access moves together.
"""

from __future__ import annotations

from functools import partial

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Kernel, Node, Path, Scope, Statement, format_path
from dojoir.ir.text import format_condition
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make, tried
from dojoir.passes.schedule.gpu_channels import channels_apart
from dojoir.passes.schedule.gpu_convolutions import tile_convolution
from dojoir.passes.schedule.gpu_flat import flattened
from dojoir.passes.schedule.gpu_guarded_rows import guarded_rows
from dojoir.passes.schedule.gpu_open_products import product_by_size
from dojoir.passes.schedule.gpu_open_rows import rows_by_length
from dojoir.passes.schedule.gpu_private import keep_private
from dojoir.passes.schedule.gpu_rows import block_rows
from dojoir.passes.schedule.gpu_scans import scan_rows
from dojoir.passes.schedule.gpu_squares import turn_squares
from dojoir.passes.schedule.gpu_threads import THREADS, along
from dojoir.passes.schedule.gpu_totals import add_up
from dojoir.passes.schedule.gpu_triangles import growing_rows
from dojoir.passes.schedule.strides import depends, sites_in, step_of
from dojoir.proof.core.marks import GRID

TILE = (8, 32)
"""Rows and columns of threads where a block has a part of a plane."""

COLUMNS = (16, 32)
"""Rows and columns of threads that add up columns."""

ROWS = 8
"""How many rows a thread goes down where it reads the neighbours of each."""

WARP_ROW = 1024
"""The most elements of a row that a warp takes by itself."""

IMAGE_THREADS = 1024
"""How many threads go through an image of which a block has all."""

MOST_BLOCKS = 65535
"""How many blocks a grid may have along its second and third dimension."""


def schedule_grids(trace: Trace, machine: Machine) -> None:
    """Makes a grid of every nest that can be one; what is around is host code. Never fails on a well-formed
    kernel."""
    for i in reversed(range(len(trace.kernel.body))):
        _host(trace, (i,), machine)


def _host(trace: Trace, path: Path, machine: Machine) -> None:
    node = trace.kernel.at(path)
    if isinstance(node, Statement) or (isinstance(node, Scope) and node.marks):
        return
    once = isinstance(node, Scope) and node.extent.constant == 1 and not _leaf(node)  # as a step of time is
    if isinstance(node, Scope) and not once and tried(trace, partial(_nest, path=path, machine=machine)):
        return
    for i in reversed(range(len(node.body))):
        _host(trace, (*path, i), machine)


def _nest(trace: Trace, path: Path, machine: Machine) -> None:
    """A grid of the scope at `path`. Raises DojoError where a move is refused."""
    if not _chain(trace, path):
        if tried(trace, partial(_apart, path=path, machine=machine)):
            return
        add_up(trace, path)
        return
    if any(tried(trace, partial(way, path=path, machine=machine)) for way in (_constant_rows, _product)):
        return
    if any(tried(trace, partial(way, path=path)) for way in (guarded_rows, scan_rows, tile_convolution)):
        return
    if any(tried(trace, partial(way, path=path, machine=machine)) for way in (_channels, growing_rows)):
        return
    keep_private(trace, path)
    _known(any(tried(trace, partial(way, path=path)) for way in WAYS))


def _channels(trace: Trace, path: Path, machine: Machine) -> None:
    """Large sums of which there are fewer than multiprocessors, as of batches by channel: each in several blocks,
    and what they give in launches of its own."""
    for at in reversed(channels_apart(trace, path, machine)):
        if not tried(trace, partial(_images, path=at)):
            _nest(trace, at, machine)


def _images(trace: Trace, path: Path) -> None:
    """A block for each iteration of the first two scopes, whose threads have what is inside, 16 bytes at a time."""
    chain = _chain(trace, path)[:2]
    _known(len(chain) == 2)
    keep_private(trace, path)
    scope = trace.kernel.at(chain[-1])
    assert isinstance(scope, Scope)
    inner = [(*chain[-1], n) for n, node in enumerate(scope.body) if isinstance(node, Scope)]
    _known(len(inner) == 1)
    at, width = flattened(trace, inner[0])
    node = trace.kernel.at(at)
    assert isinstance(node, Scope)
    _known(at == inner[0] and (node.extent.constant or 0) > THREADS and len(node.body) == 1)
    width = max(width, _width(trace.kernel, at))
    if width > 1:
        make(trace, f"split({format_path(at)}, {width})")
        make(trace, f"vectorize({format_path(at)}.0)")
    along(trace, at, 0, IMAGE_THREADS)
    _grid(trace, chain)


def _apart(trace: Trace, path: Path, machine: Machine) -> None:
    """Distributes a scope whose last statement adds to what all iterations share: the rest may be a grid."""
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    make(trace, f"split_scopes({format_path(path)}, {len(scope.body) - 1})")
    _host(trace, (*path[:-1], path[-1] + 1), machine)
    _nest(trace, path, machine)


# -- what there is -----------------------------------------------------------------------------------------
def _chain(trace: Trace, path: Path) -> list[Path]:
    """The scopes from `path` on, each the only child of the one before, that iterations of a grid can be, and whose
    extents the host knows."""
    found: list[Path] = []
    start = trace.kernel.depth_of(path)
    while True:
        kernel = trace.kernel
        scope = kernel.at(path)
        if not isinstance(scope, Scope) or _gathers(kernel, path):
            return found
        if any(depth >= start for bound in scope.extent.bounds for depth in bound.iterators):
            return found
        if not tried(trace, f"bind({format_path(path)}, gx)"):
            return found
        trace.undo()
        found.append(path)
        if len(scope.body) != 1:
            return found
        path = (*path, 0)


def _gathers(kernel: Kernel, path: Path) -> bool:
    """Whether iterations of the scope at `path` accumulate into one element."""
    depth = kernel.depth_of(path)
    return any(
        site.statement.accumulation and not depends(site.statement.target, depth) for site in sites_in(kernel, path)
    )


def _leaf(node: Node) -> bool:
    """Whether no scope is inside a node."""
    return isinstance(node, Statement) or all(not isinstance(n, Scope) and _leaf(n) for n in node.body)


def _last(trace: Trace, path: Path) -> tuple[list[Path], Scope]:
    chain = _chain(trace, path)
    scope = trace.kernel.at(chain[-1])
    assert isinstance(scope, Scope)
    return chain, scope


def _known(found: bool) -> None:
    """Raises ArgumentError where a nest is not of the form that a rule is for."""
    if not found:
        raise ArgumentError("not of this form", "bad-arguments")


# -- a thread an iteration ---------------------------------------------------------------------------------
def _threads(trace: Trace, path: Path) -> None:
    """The innermost scope of the chain on the threads of a block, as many neighbours each as an access moves."""
    chain, scope = _last(trace, path)
    if len(chain) > 3:
        _plane(trace, chain, TILE)
        return
    inner, place = chain[-1], format_path(chain[-1])
    width = _width(trace.kernel, inner) if all(isinstance(n, Statement) for n in scope.body) else 1
    make(trace, f"split({place}, {THREADS * width})")
    if width > 1:
        make(trace, f"split({place}.0, {width})")
        make(trace, f"vectorize({place}.0.0)")
    make(trace, f"bind({place}.0, bx)")
    _grid(trace, chain)


def _flat(trace: Trace, path: Path) -> None:
    """Scopes over what lies side by side as one, on threads: blocks of neighbours in it run side by side too."""
    chain, scope = _last(trace, path)
    _known(len(chain) > 1 and all(isinstance(n, Statement) for n in scope.body))
    at, width = flattened(trace, path)
    chain = chain[: len(at) - len(path) + 1]
    extents = [_constant(trace.kernel, place) for place in chain]
    _known(width > 1 and len(extents) <= len(GRID) and all(0 < extent <= MOST_BLOCKS for extent in extents[:-1]))
    place = format_path(at)
    make(trace, f"split({place}, {THREADS * width})")
    make(trace, f"split({place}.0, {width})")
    make(trace, f"vectorize({place}.0.0)")
    make(trace, f"bind({place}.0, bx)")
    for place_of, mark in zip(reversed(chain), GRID, strict=False):
        make(trace, f"bind({format_path(place_of)}, {mark})")


def _constant(kernel: Kernel, path: Path) -> int:
    """The constant extent of a scope; 0 where it is open."""
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    return scope.extent.constant or 0


def _neighbours(trace: Trace, path: Path) -> None:
    """A few rows a thread, where it reads the neighbours of each: what one row has read serves the next."""
    chain, scope = _last(trace, path)
    kernel = trace.kernel
    _known(len(chain) == 2 and all(isinstance(n, Statement) for n in scope.body))
    outer = kernel.depth_of(chain[0])
    near: dict[str, set[str]] = {}
    for site in sites_in(kernel, path):
        _known(site.statement.accumulation is None)
        for access in site.statement.reads:
            if depends(access, outer):
                near.setdefault(access.buffer, set()).add(str(access.indices[0]))
    _known(any(len(rows) > 2 for rows in near.values()))
    place = format_path(path)
    make(trace, f"split({place}, {ROWS})")
    make(trace, f"swap_scopes({place}.0)")
    inner = (*path, 0, 0)
    _whole_extent(trace, inner, ROWS)
    make(trace, f"unroll({format_path(inner)})")
    make(trace, f"split({place}.0, {THREADS})")
    make(trace, f"bind({place}.0.0, bx)")
    make(trace, f"bind({place}, gy)")
    make(trace, f"bind({place}.0, gx)")


def _whole_extent(trace: Trace, path: Path, extent: int) -> None:
    """Makes the extent of a scope, which is at most `extent`, so much, what is past its end under a guard."""
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    own = Affine.iterator(trace.kernel.depth_of(path))
    ends = [Condition(own, "<", bound) for bound in scope.extent.bounds if not bound.is_constant]
    if ends:
        place = format_path(path)
        text = " and ".join(map(format_condition, ends))
        make(trace, f'add_guard({place}.0, {len(scope.body)}, "{text}")')
        make(trace, f"set_extent({place}, {extent})")


def _tiled(trace: Trace, path: Path) -> None:
    """A part of a plane a block, where the rows of it are in the same columns: products of matrices."""
    chain, scope = _last(trace, path)
    kernel = trace.kernel
    _known(len(chain) > 1 and not _leaf(scope))
    inner = kernel.depth_of(chain[-1])
    sums = [s for s in sites_in(kernel, chain[-1]) if s.statement.accumulation]
    shared = [a for s in sums for a in s.statement.reads if depends(a, inner) and not depends(a, inner - 1)]
    _known(bool(sums and shared) and all(depends(s.statement.target, inner) for s in sums))
    _plane(trace, chain, (16, 16))


def _product(trace: Trace, path: Path, machine: Machine) -> None:
    """A product of matrices, in tiles where they divide the sizes."""
    chain, _ = _last(trace, path)
    _known(len(chain) in {2, 3})
    product_by_size(trace, path, len(chain) == 3, machine, _tiled)


def _plane(trace: Trace, chain: list[Path], tile: tuple[int, int]) -> None:
    """The last two scopes of the chain in tiles, a thread an element of one."""
    place = format_path(chain[-2])
    make(trace, f"tile({place}, {place}.0, {tile[0]}, {tile[1]})")
    rows = (*chain[-1], 0)
    make(trace, f"bind({format_path(rows)}, by)")
    make(trace, f"bind({format_path((*rows, 0))}, bx)")
    _grid(trace, chain)


def _grid(trace: Trace, chain: list[Path]) -> None:
    """The first scopes of a chain as a grid: the outermost has the most blocks."""
    for path, mark in zip(chain, GRID, strict=False):
        make(trace, f"bind({format_path(path)}, {mark})")


def _width(kernel: Kernel, path: Path) -> int:
    """How many neighbours one access of 16 bytes moves, where all accesses of the scope at `path` begin with it."""
    depth = kernel.depth_of(path)
    found = [a for s in sites_in(kernel, path) for a in s.statement.accesses if depends(a, depth)]
    if not found:
        return 1
    width = 16 // max(kernel.buffer(a.buffer).dtype.itemsize for a in found)
    for access in found:
        buffer = kernel.buffer(access.buffer)
        dim = buffer.dims[-1]
        aligned = len(buffer.dims) == 1 or (dim.extent.is_constant and dim.extent.offset % width == 0)
        at_end = access.indices[-1] == Affine.iterator(depth)
        if buffer.order or buffer.pad or not aligned or not at_end or step_of(kernel, access, depth) != 1:
            return 1
    return width


# -- a row a block -----------------------------------------------------------------------------------------
def _constant_rows(trace: Trace, path: Path, machine: Machine) -> None:
    """Rows of constant length, in the registers of a block."""
    chain, scope = _last(trace, path)
    _known(len(chain) == 1 and len(path) == 1 and not _leaf(scope) and _is_row(trace.kernel, path))
    extents = {n.extent.constant for n in scope.body if isinstance(n, Scope)}
    (extent,) = extents if len(extents) == 1 else (None,)
    short = extent is not None and extent <= WARP_ROW
    if short and tried(trace, partial(_warp_rows, path=path, lanes=machine.warp)):
        return
    for threads in (1024, 512, 256, 128, machine.warp):
        fits = extent is not None and (threads <= extent // 8 or threads == machine.warp)
        if fits and tried(trace, partial(block_rows, rows=format_path(path), threads=threads)):
            return
    _known(False)


def _warp_rows(trace: Trace, path: Path, lanes: int) -> None:
    """A row a warp, whose lanes put together what they have without shared memory: several rows a block."""
    place = format_path(path)
    block_rows(trace, place, lanes)
    make(trace, f"unmark({place}, gx)")
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    for n, node in enumerate(scope.body):
        if isinstance(node, Scope):
            make(trace, f"unmark({place}.{n}, bx)")
            make(trace, f"bind({place}.{n}, lane)")
    make(trace, f"split({place}, {THREADS // lanes})")
    make(trace, f"bind({place}.0, bx)")
    make(trace, f"bind({place}, gx)")


def _is_row(kernel: Kernel, path: Path) -> bool:
    """Whether a scope goes far through memory where those inside go on to the next element."""
    depth = kernel.depth_of(path)
    for site in sites_in(kernel, path):
        for access in site.statement.accesses:
            if depends(access, depth) and step_of(kernel, access, depth, 4) is None:
                inner = range(depth + 1, len(site.scopes))
                if any(step_of(kernel, access, d) == 1 for d in inner):
                    return True
    return False


def _open_rows(trace: Trace, path: Path) -> None:
    """Rows of open length, in the registers of a block where they are short enough."""
    chain, scope = _last(trace, path)
    _known(len(chain) == 1 and not _leaf(scope) and _is_row(trace.kernel, path))
    rows_by_length(trace, path, _rows)


def _rows(trace: Trace, path: Path) -> None:
    """An iteration of the chain a block, what is inside on its threads."""
    chain, scope = _last(trace, path)
    _known(not _leaf(scope) and _is_row(trace.kernel, chain[-1]))
    row = chain[-1]
    for i in reversed(range(len(scope.body))):
        if not isinstance(trace.kernel.at((*row, i)), Statement):
            _strided(trace, (*row, i))
    _grid(trace, chain)


def _strided(trace: Trace, path: Path) -> None:
    """A nest inside a block on its threads, which go along the innermost scope of it that they can."""
    inside = [path]
    node = trace.kernel.at(path)
    _known(isinstance(node, Scope))
    while isinstance(node, Scope) and len(node.body) == 1 and isinstance(node.body[0], Scope):
        inside.append((*inside[-1], 0))
        node = node.body[0]
    for at in reversed(inside):
        if tried(trace, partial(_spread, path=path, at=at)):
            return
    _known(False)


def _spread(trace: Trace, path: Path, at: Path) -> None:
    """The scope at `at` of the nest at `path` on threads, if which element they put together is one of all."""
    along(trace, at, len(at) - len(path))
    depth = trace.kernel.depth_of(path)
    sums = [s for s in sites_in(trace.kernel, path) if s.statement.accumulation]
    together = [s for s in sums if not depends(s.statement.target, depth)]
    _known(not any(depends(s.statement.target, d) for s in together for d in range(depth + 1, len(s.scopes))))


def _columns(trace: Trace, path: Path) -> None:
    """Sums along columns: a few neighbours a block, the rows of each shared out over its threads."""
    chain, scope = _last(trace, path)
    _known(len(chain) == 1 and sum(not isinstance(n, Statement) for n in scope.body) == 1)
    column = chain[0]
    n = next(i for i, node in enumerate(scope.body) if not isinstance(node, Statement))
    loop = scope.body[n]
    depth = trace.kernel.depth_of(column)
    _known(isinstance(loop, Scope) and len(loop.body) == 1 and isinstance(loop.body[0], Statement))
    sums = [s.statement for s in sites_in(trace.kernel, column) if s.statement.accumulation]
    _known(len(sums) == 1 and depends(sums[0].target, depth) and not depends(sums[0].target, depth + 1))
    _known(all(step_of(trace.kernel, a, depth) is not None for a in sums[0].reads))
    for buffer in trace.kernel.buffers:
        if buffer.role == "tmp" and buffer.storage == "reg" and buffer.name in {a.buffer for a in sums[0].accesses}:
            make(trace, f"place({buffer.name}, heap)")
            for d in [d for d, dim in enumerate(buffer.dims) if dim.collapsed]:
                make(trace, f"materialize_dims({buffer.name}, {d})")
    place = format_path(column)
    make(trace, f"split({place}, {COLUMNS[1]})")
    after = len(scope.body) - n - 1
    if n:
        make(trace, f"split_scopes({place}.0, {n})")
    inner = (*column, 1 if n else 0)
    if after:
        make(trace, f"split_scopes({format_path(inner)}, 1)")
    along(trace, (*inner, 0), 1, COLUMNS[0], "by")
    make(trace, f"bind({format_path((*inner, 0))}, bx)")
    for i in range(bool(n) + bool(after) + 1):
        if (*column, i) != inner:
            make(trace, f"bind({place}.{i}, bx)")
    _grid(trace, chain)


def _turned(trace: Trace, path: Path) -> None:
    chain, scope = _last(trace, path)
    _known(len(chain) >= 2 and len(scope.body) == 1 and isinstance(scope.body[0], Statement))
    turn_squares(trace, chain)
    _grid(trace, chain)


WAYS = (_flat, _neighbours, _turned, _tiled, _open_rows, _rows, _columns, _threads)
"""The forms of nests, in the order in which they are tried."""
