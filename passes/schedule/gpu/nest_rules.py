"""The schedule of `default_schedule` for a GPU, by rule: each nest that can be a grid becomes one.

A nest begins with scopes whose iterations are independent. Where the elements of a row are the work of an
iteration, a block has it, and its threads the elements. Else a thread has an iteration, or a few neighbours of one
that an access moves together.

Transposed accesses on a GPU: arrays read along one dimension and written along another go through square tiles
in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Kernel, Path, Scope, Statement
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.strides import depends, given, is_leaf, is_plain, require, sites_in, step_of
from dojoir.passes.schedule.gpu.rows.reductions import add_up, channels_apart
from dojoir.passes.schedule.gpu.rows.rows import own_scalars_of, rows_by_length
from dojoir.passes.schedule.gpu.rows.scans import long_rows, long_vector, scan_rows
from dojoir.passes.schedule.gpu.sharing.threads import (
    THREADS,
    a_thread_each,
    along,
    every_so_many_rows,
    flattened,
    full_extent,
    grid,
    in_columns,
    in_vectors,
    keep_private,
    settle,
)
from dojoir.passes.schedule.gpu.tiles.convolutions import tile_convolution
from dojoir.passes.schedule.gpu.tiles.product_tiles import product_by_size
from dojoir.passes.schedule.gpu.tiles.triangles import growing_rows
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, act, mark_all, move, nested, spot
from dojoir.sets.ranges import is_nonnegative

TILE = (8, 32)
"""Rows and columns of threads where a block has a part of a plane."""


ROWS = 8
"""How many rows a thread goes down where it reads the neighbours of each."""

FEW_THREADS = (32, 64, 128)
"""How many threads share what is known to be little."""

IMAGE_THREADS = 1024
"""How many threads go through an image of which a block has all."""


def schedule_grids(trace: Trace, machine: Machine) -> None:
    """Makes a grid of every nest that can be one; what is around is host code. Never fails on a well-formed
    kernel."""
    for i in reversed(range(len(trace.kernel.body))):
        _host(trace, (i,), machine)


def schedule_grid(trace: Trace, path: Path, machine: Machine) -> None:
    """The same for the node at a path alone."""
    _host(trace, path, machine)


def _host(trace: Trace, path: Path, machine: Machine) -> None:
    node = trace.kernel.at(path)
    if isinstance(node, Statement) or (isinstance(node, Scope) and node.marks):
        return
    once = isinstance(node, Scope) and node.extent.constant == 1 and not is_leaf(node)  # as a step of time is
    if isinstance(node, Scope) and not once and tried(trace, partial(_nest, path=path, machine=machine)):
        return
    for i in reversed(range(len(node.body))):
        _host(trace, (*path, i), machine)


def _nest(trace: Trace, path: Path, machine: Machine) -> None:
    """A grid of the scope at `path`. Raises DojoError where a move is refused."""
    if not _chain(trace, path):
        if tried(trace, partial(long_vector, path=path)):
            return
        if tried(trace, partial(_distribute_sum, path=path, machine=machine)):
            return
        if not tried(trace, partial(add_up, path=path)):
            _each_by_itself(trace, path, machine)
        return
    if tried(trace, partial(_product, path=path, machine=machine)):
        return
    if any(tried(trace, partial(way, path=path)) for way in (scan_rows, long_rows, tile_convolution)):
        return
    if any(tried(trace, partial(way, path=path, machine=machine)) for way in (_channels, growing_rows)):
        return
    _by_ways(trace, path, WAYS)


def elements_in_threads(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives each thread one independent iteration of the outer scopes, or a few neighbours. Scopes whose iterations
    depend on each other run inside of the thread. Raises DojoError where no scope is independent."""
    _steps_inside(trace, path)
    require(bool(_chain(trace, path)), "a nest of independent iterations")
    _by_ways(trace, path, (_flat, _threads))


def _steps_inside(trace: Trace, path: Path) -> None:
    """Sinks the scopes of a perfect nest whose iterations wait for each other inside of those whose do not: a
    thread takes all steps. What only some steps do, as all but the first, is asked inside."""
    last = nested(spot(trace, path))[-1]
    while last.body and isinstance(last.body[0], Guard) and [type(node) for node in last.body[0].body] == [Scope]:
        last.child(0, 0).lift(1)
        last = nested(last)[-1]
    for _ in nested(spot(trace, path)):
        chain = _chain(trace, path)
        if chain and len(chain[-1].body) != 1:
            return
        steps = chain[-1].child(0) if chain else spot(trace, path)
        levels = len(nested(steps)) - 1 if isinstance(steps.node, Scope) else 0
        if not levels or not tried(trace, move(SinkScope, steps, levels)):
            return


def _by_ways(trace: Trace, path: Path, ways: Iterable[Callable[[Trace, Path], None]]) -> None:
    """The first of some ways that a nest is of, with its temporaries in registers before, and each of these where
    its threads find it after. Raises ArgumentError where it is of none."""
    kept = keep_private(trace, path)

    def settled(trace: Trace, way: Callable[[Trace, Path], None]) -> None:
        way(trace, path)
        for name in kept:
            settle(trace, name)

    require(any(tried(trace, partial(settled, way=way)) for way in ways), "of this form")


def _channels(trace: Trace, path: Path, machine: Machine) -> None:
    """Large sums of which there are fewer than multiprocessors, as of batches by channel: each in several blocks,
    and what they give in launches of its own."""
    for nest in reversed(channels_apart(trace, path, machine)):
        if not tried(trace, partial(_images, path=nest.path)):
            _nest(trace, nest.path, machine)


def _images(trace: Trace, path: Path) -> None:
    """A block for each iteration of the first two scopes, whose threads have what is inside, 16 bytes at a time."""
    chain = _chain(trace, path)[:2]
    require(len(chain) == 2, "of this form")
    kept = keep_private(trace, path)
    inner = chain[-1].scopes()
    require(len(inner) == 1, "of this form")
    nest, width = flattened(trace, inner[0])
    elements = nest[-1]
    require(len(nest) == 1 and elements.count > THREADS and len(elements.body) == 1, "of this form")
    width = max(width, _width(elements))
    in_vectors(elements, width)
    along(elements, 0, IMAGE_THREADS)
    grid(chain)
    for name in kept:
        settle(trace, name)


def _each_by_itself(trace: Trace, path: Path, machine: Machine) -> None:
    """Steps of time outside of channels that know nothing of each other: a thread takes all steps of one."""
    steps = spot(trace, path)
    require(len(steps.body) == 1 and len(steps.scopes()) == 1 and is_plain(steps.child(0).node), "of this form")
    steps.swap()
    require(bool(_chain(trace, path)), "of this form")
    _nest(trace, path, machine)


def _distribute_sum(trace: Trace, path: Path, machine: Machine) -> None:
    """Distributes a scope whose last statement adds to what all iterations share: the rest may be a grid."""
    whole = spot(trace, path)
    first, last = whole.part(len(whole.scope.body) - 1)
    _host(trace, last.path, machine)
    _nest(trace, first.path, machine)


# -- what there is -----------------------------------------------------------------------------------------
def _chain(trace: Trace, path: Path) -> list[Spot]:
    """The scopes from `path` on, each the only child of the one before, that iterations of a grid can be, and whose
    extents the host knows."""
    found: list[Spot] = []
    scope = spot(trace, path)
    start = scope.depth
    while isinstance(node := scope.node, Scope):
        inside = any(depth >= start for bound in node.extent.bounds for depth in bound.iterators)
        if inside or _gathers(scope) or not tried(trace, move(Bind, scope, "gx")):
            break
        trace.undo()
        found.append(scope)
        if len(node.body) != 1:
            break
        scope = scope.child(0)
    return found


def _gathers(scope: Spot) -> bool:
    """Whether iterations of a scope accumulate into one element. A temporary that only its iterations use is each
    one's own."""
    own, sites = {*own_scalars_of(scope.trace.kernel, scope.path)}, sites_in(scope.trace.kernel, scope.path)
    sums = [site.statement.target for site in sites if site.statement.accumulation is not None]
    return any(target.buffer not in own and not depends(target, scope.depth) for target in sums)


# -- a thread an iteration ---------------------------------------------------------------------------------
def _threads(trace: Trace, path: Path) -> None:
    """The innermost scope of the chain on the threads of a block, as many neighbours each as an access moves. One
    that is too short for a warp is made one with the scope around it; of one that is too short for a block, a block
    has several rows."""
    chain = _chain(trace, path)
    require(bool(chain), "a nest of independent iterations")
    while len(chain) > 1 and is_plain(chain[-1].node) and 0 < chain[-1].count < TILE[1]:
        if not tried(trace, move(Collapse, chain[-2])):
            break
        chain.pop()
    if len(chain) > 3:
        _plane(trace, chain, TILE)
        return
    width = _width(chain[-1]) if is_plain(chain[-1].node) else 1
    count = chain[-1].count // width
    if len(chain) > 1 and TILE[1] <= count <= THREADS // 2 and chain[-1].count % width == 0:
        _in_rows(chain, width, THREADS // count)
        return
    a_thread_each(chain[-1], width=width)
    grid(chain)


def _in_rows(chain: list[Spot], width: int, rows: int) -> None:
    """The last scope of the chain on threads, with so many iterations of the one before in a block."""
    *others, threads = chain
    in_vectors(threads, width)
    mark_all(((others[-1].split(rows), "by"), (threads, "bx")))
    grid(others)


def _flat(trace: Trace, path: Path) -> None:
    """Scopes over what lies side by side as one, on threads: blocks of neighbours in it run side by side too."""
    chain = _chain(trace, path)
    require(len(chain) > 1 and is_plain(chain[-1].node), "of this form")
    nest, width = flattened(trace, chain[0])
    extents = [scope.count for scope in nest]
    require(width > 1 and len(extents) <= len(GRID) and all(extent > 0 for extent in extents[:-1]), "of this form")
    a_thread_each(nest[-1], width=width)
    grid(reversed(nest))


def _neighbours(trace: Trace, path: Path) -> None:
    """A few rows a thread, where it reads the neighbours of each: what one row has read serves the next."""
    chain, kernel = _chain(trace, path), trace.kernel
    require(len(chain) == 2 and is_plain(chain[-1].node), "of this form")
    rows, columns = chain
    outer = rows.depth
    near: dict[str, set[str]] = {}
    for site in sites_in(kernel, path):
        require(site.statement.accumulation is None, "of this form")
        for access in site.statement.reads:
            if depends(access, outer):
                near.setdefault(access.buffer, set()).add(str(access.indices[0]))
    require(any(len(places) > 2 for places in near.values()), "of this form")
    few = rows.split(ROWS)
    few.swap()
    full_extent(few, ROWS)
    few.mark("u")
    columns.split(THREADS)
    mark_all(((columns.child(0), "bx"), (rows, "gy"), (columns, "gx")))


def _tiled(trace: Trace, path: Path) -> None:
    """A part of a plane a block, where the rows of it are in the same columns: products of matrices."""
    chain = _chain(trace, path)
    require(len(chain) > 1 and not is_leaf(chain[-1].node), "of this form")
    inner = chain[-1].depth
    sums = [s for s in sites_in(trace.kernel, chain[-1].path) if s.statement.accumulation]
    shared = [a for s in sums for a in s.statement.reads if depends(a, inner) and not depends(a, inner - 1)]
    require(bool(sums and shared) and all(depends(s.statement.target, inner) for s in sums), "of this form")
    _plane(trace, chain, (16, 16))


def _product(trace: Trace, path: Path, machine: Machine) -> None:
    """A product of matrices, in tiles where they divide the sizes."""
    chain = _chain(trace, path)
    require(len(chain) in {2, 3}, "of this form")
    product_by_size(trace, path, len(chain) == 3, machine, _tiled)


def _plane(trace: Trace, chain: list[Spot], tile: tuple[int, int]) -> None:
    """Tiles the last two scopes of the chain; one thread per element of a tile."""
    act(trace, Tile, chain[-2:], tile)
    mark_all(((chain[-1].child(0), "by"), (chain[-1].child(0, 0), "bx")))
    grid(chain)


def _width(scope: Spot) -> int:
    """How many neighbours one access of 16 bytes moves, where all accesses of a scope begin with it."""
    kernel, depth = scope.trace.kernel, scope.depth
    found = [a for s in sites_in(kernel, scope.path) for a in s.statement.accesses if depends(a, depth)]
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
def _is_row(kernel: Kernel, path: Path) -> bool:
    """Whether a scope goes far through memory where those inside go on to the next element."""
    depth = kernel.depth_of(path)
    return any(
        depends(access, depth)
        and step_of(kernel, access, depth, 4) is None
        and any(step_of(kernel, access, d) == 1 for d in range(depth + 1, len(site.scopes)))
        for site in sites_in(kernel, path)
        for access in site.statement.accesses
    )


def _open_rows(trace: Trace, path: Path) -> None:
    """Rows of open length, in the registers of a block where they are short enough."""
    chain = _chain(trace, path)
    require(len(chain) == 1 and not is_leaf(chain[0].node) and _is_row(trace.kernel, path), "of this form")
    rows_by_length(trace, path, _rows)


def _rows(trace: Trace, path: Path) -> None:
    """An iteration of the chain a block, what is inside on its threads."""
    chain = _chain(trace, path)
    row = chain[-1]
    require(not is_leaf(row.node) and _is_row(trace.kernel, row.path), "of this form")
    for nest in reversed(_nests(row)):
        _strided(trace, nest)
    grid(chain)


def _nests(scope: Spot) -> list[Spot]:
    """The nodes right inside of a scope, except statements."""
    return [scope.child(n) for n, node in enumerate(scope.body) if not isinstance(node, Statement)]


def _strided(trace: Trace, nest: Spot) -> None:
    """A nest inside a block on its threads, which go along the innermost scope of it that they can. The block goes
    through steps that wait for each other, as of time, one by one, and its threads along what is in each."""
    require(isinstance(nest.node, Scope), "of this form")
    inside = nested(nest)
    steps = inside[-1]
    while inside:
        if tried(trace, partial(_spread, scope=inside[-1], levels=len(inside) - 1)):
            return
        inside.pop()
    require(len(steps.body) > 1 and bool(_nests(steps)), "of this form")
    for part in reversed(_nests(steps)):
        _strided(trace, part)


def _spread(trace: Trace, scope: Spot, levels: int) -> None:
    """A scope, which `levels` others of a nest are around, on threads, if which element they put together is one of
    all."""
    nest = along(scope, levels, _enough(scope))
    sums = [s for s in sites_in(trace.kernel, nest.path) if s.statement.accumulation]
    together = [s for s in sums if not depends(s.statement.target, nest.depth)]
    inner = nest.depth + 1
    require(
        not any(depends(s.statement.target, d) for s in together for d in range(inner, len(s.scopes))),
        "of this form",
    )


def _enough(scope: Spot) -> int:
    """The threads for a scope inside of a block: a few warps, where it is known never to run more often."""
    around = sites_in(scope.trace.kernel, scope.path)[0].scopes[: scope.depth]
    bounds = scope.scope.extent.bounds
    found = (n for n in FEW_THREADS if any(is_nonnegative(n - bound, around) for bound in bounds))
    return next(found, THREADS)


def _columns(trace: Trace, path: Path) -> None:
    """Sums along columns: a few neighbours a block, the rows of each shared out over its threads."""
    chain = _chain(trace, path)
    column, nests = chain[0], _nests(chain[0])
    require(len(chain) == 1 and len(nests) == 1, "of this form")
    (loop,) = nests
    require(isinstance(loop.node, Scope) and len(loop.body) == 1 and is_plain(loop.node), "of this form")
    sums = [s.statement for s in sites_in(trace.kernel, column.path) if s.statement.accumulation]
    require(len(sums) == 1, "of this form")
    target, reads = sums[0].target, sums[0].reads
    require(depends(target, column.depth) and not depends(target, loop.depth), "of this form")
    require(all(step_of(trace.kernel, a, column.depth) is not None for a in reads), "of this form")
    used = {access.buffer for access in sums[0].accesses}
    for buffer in trace.kernel.buffers:
        if buffer.role == "tmp" and buffer.storage == "reg" and buffer.name in used:
            Array(trace, buffer.name).in_memory()
    in_columns(column, loop, loop, 1)
    grid(chain)


def _transposes(trace: Trace, path: Path) -> None:
    chain = _chain(trace, path)
    require(len(chain) >= 2 and len(chain[-1].body) == 1 and is_plain(chain[-1].node), "of this form")
    threads_by_squares(trace, chain[-2], chain[-1])
    grid(sorted(chain, key=lambda scope: len(scope.path)))  # the last two may have been exchanged


WAYS = (_flat, _neighbours, _transposes, _tiled, _open_rows, _rows, _columns, _threads)
"""The forms of nests, in the order in which they are tried."""


SIDE, AT_ONCE = 64, 8
"""The side of a square that is turned in shared memory, and how many rows of it the threads of a block are."""


def threads_by_squares(trace: Trace, rows: Spot, columns: Spot) -> None:
    """Gives two scopes, the second all that is in the first and around one statement, to threads by squares. Raises
    DojoError where the statement turns nothing, or a move is refused."""
    name = _read_transposed(trace.kernel, rows, columns)
    if name is None and (name := _read_transposed(trace.kernel, columns, rows)) is not None:
        rows.swap()
        rows, columns = columns, rows
    name = given(name, "read along one dimension and written along another")
    act(trace, Tile, (rows, columns), (SIDE, SIDE))
    down = columns.child(0)
    across = down.child(0)
    square = down.stage(name, "tile", "in")
    copied = _square(down.beside(-1))
    Array(trace, square).place("shared").pad(len(trace.kernel.buffer(name).dims) - 1, 1)
    down.swap()
    _few_rows(*copied)
    _few_rows(across, down)


def _read_transposed(kernel: Kernel, rows: Spot, columns: Spot) -> str | None:
    """The array that the statement in two scopes reads along the columns and writes along the rows, if it does."""
    (site,) = sites_in(kernel, max(rows.path, columns.path))
    target, *reads = site.statement.accesses
    read = {
        a.buffer for a in reads if step_of(kernel, a, columns.depth) == 1 and step_of(kernel, a, rows.depth) is None
    }
    turned = step_of(kernel, target, rows.depth) == 1 and step_of(kernel, target, columns.depth) is None
    return read.pop() if turned and len(read) == 1 else None


def _square(copied: Spot) -> tuple[Spot, Spot]:
    """Removes the scopes of extent 1 of a copied square, one for each dimension but its two. Returns what is left:
    the scopes over its rows and columns. Raises DojoError where it is no square."""
    nest = nested(copied)
    once = [scope for scope in nest if scope.scope.extent.constant == 1][: len(nest) - 2]
    for scope in once:
        scope.remove()
    left = [scope for scope in nest if scope not in once]
    require(len(left) == 2, "a square that is read")
    return left[0], left[1]


def _few_rows(rows: Spot, columns: Spot) -> None:
    """Shares a square out over `AT_ONCE` rows of threads, each with every so many-th row: all that a thread reads
    is under way at once."""
    bounds = [bound for bound in rows.scope.extent.bounds if not bound.is_constant]
    threads = rows.split(AT_ONCE)
    if bounds:
        row = rows.iterator * AT_ONCE + threads.iterator
        columns.guard([Condition(row, "<", bound) for bound in bounds])
        threads.bound(Affine.constant(AT_ONCE))
        rows.bound(Affine.constant(SIDE // AT_ONCE))
    every_so_many_rows(rows, threads, columns)
    rows.mark("u")
