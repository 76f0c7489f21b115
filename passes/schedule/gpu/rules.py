"""The schedule of `default_schedule` for a GPU, by rule: each nest that can be a grid becomes one.

A nest begins with scopes whose iterations are independent. Where the elements of a row are the work of an
iteration, a block has it, and its threads the elements. Else a thread has an iteration, or a few neighbours of one
that an access moves together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.strides import depends, is_leaf, sites_in, step_of
from dojoir.passes.schedule.gpu.rows.channels import channels_apart
from dojoir.passes.schedule.gpu.rows.long_scans import long_rows, long_vector
from dojoir.passes.schedule.gpu.rows.open_rows import rows_by_length
from dojoir.passes.schedule.gpu.rows.rows import own_scalars_of
from dojoir.passes.schedule.gpu.rows.scans import scan_rows
from dojoir.passes.schedule.gpu.rows.totals import add_up
from dojoir.passes.schedule.gpu.sharing.flat import flattened
from dojoir.passes.schedule.gpu.sharing.private import keep_private
from dojoir.passes.schedule.gpu.sharing.settled import settle
from dojoir.passes.schedule.gpu.sharing.threads import THREADS, along, full_extent, grid
from dojoir.passes.schedule.gpu.tiles.convolutions import tile_convolution
from dojoir.passes.schedule.gpu.tiles.open_products import product_by_size
from dojoir.passes.schedule.gpu.tiles.squares import turn_squares
from dojoir.passes.schedule.gpu.tiles.triangles import growing_rows
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, in_two, move, nested, spot, stand_alone
from dojoir.passes.storage.layout import MaterializeDims, PlaceBuffer

TILE = (8, 32)
"""Rows and columns of threads where a block has a part of a plane."""

COLUMNS = (16, 32)
"""Rows and columns of threads that add up columns."""

ROWS = 8
"""How many rows a thread goes down where it reads the neighbours of each."""

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
        if tried(trace, partial(_apart, path=path, machine=machine)):
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
    kept = keep_private(trace, path)
    _known(any(tried(trace, partial(_settled, way=way, path=path, kept=kept)) for way in WAYS))


def elements_in_threads(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives each thread one independent iteration of the outer scopes, or a few neighbours. Scopes whose iterations
    depend on each other run inside of the thread. Raises DojoError where no scope is independent."""
    _steps_inside(trace, path)
    if not _chain(trace, path):
        raise ArgumentError("no independent iterations", "bad-arguments")
    kept = keep_private(trace, path)
    _known(any(tried(trace, partial(_settled, way=way, path=path, kept=kept)) for way in (_flat, _threads)))


def _steps_inside(trace: Trace, path: Path) -> None:
    """Sinks the scopes of a perfect nest whose iterations wait for each other inside of those whose do not: a
    thread takes all steps."""
    for _ in nested(spot(trace, path)):
        chain = _chain(trace, path)
        if chain and len(chain[-1].body) != 1:
            return
        steps = chain[-1].child(0) if chain else spot(trace, path)
        levels = len(nested(steps)) - 1 if isinstance(steps.node, Scope) else 0
        if not levels or not tried(trace, move(SinkScope, steps, levels)):
            return


def _settled(trace: Trace, way: Callable[[Trace, Path], None], path: Path, kept: Sequence[str]) -> None:
    """One of the WAYS, and then for each temporary that was kept in registers the place that its threads need."""
    way(trace, path)
    for name in kept:
        settle(trace, name)


def _channels(trace: Trace, path: Path, machine: Machine) -> None:
    """Large sums of which there are fewer than multiprocessors, as of batches by channel: each in several blocks,
    and what they give in launches of its own."""
    for nest in reversed(channels_apart(trace, path, machine)):
        if not tried(trace, partial(_images, path=nest.path)):
            _nest(trace, nest.path, machine)


def _images(trace: Trace, path: Path) -> None:
    """A block for each iteration of the first two scopes, whose threads have what is inside, 16 bytes at a time."""
    chain = _chain(trace, path)[:2]
    _known(len(chain) == 2)
    kept = keep_private(trace, path)
    inner = chain[-1].scopes()
    _known(len(inner) == 1)
    nest, width = flattened(trace, inner[0])
    elements = nest[-1]
    _known(len(nest) == 1 and _constant(elements) > THREADS and len(elements.body) == 1)
    width = max(width, _width(elements))
    if width > 1:
        act(trace, Split, elements, width)
        act(trace, Vectorize, elements.child(0))
    along(trace, elements, 0, IMAGE_THREADS)
    grid(trace, chain)
    for name in kept:
        settle(trace, name)


def _each_by_itself(trace: Trace, path: Path, machine: Machine) -> None:
    """Steps of time outside of channels that know nothing of each other: a thread takes all steps of one."""
    steps = spot(trace, path)
    _known(len(steps.body) == 1 and len(steps.scopes()) == 1 and _plain(steps.child(0)))
    act(trace, SwapScopes, steps)
    _known(bool(_chain(trace, path)))
    _nest(trace, path, machine)


def _apart(trace: Trace, path: Path, machine: Machine) -> None:
    """Distributes a scope whose last statement adds to what all iterations share: the rest may be a grid."""
    whole = spot(trace, path)
    first, last = in_two(trace, SplitScopes, whole, len(whole.scope.body) - 1)
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


def _known(found: bool) -> None:
    """Raises ArgumentError where a nest is not of the form that a rule is for."""
    if not found:
        raise ArgumentError("not of this form", "bad-arguments")


# -- a thread an iteration ---------------------------------------------------------------------------------
def _threads(trace: Trace, path: Path) -> None:
    """The innermost scope of the chain on the threads of a block, as many neighbours each as an access moves. One
    that is too short for a warp is made one with the scope around it; of one that is too short for a block, a block
    has several rows."""
    chain = _chain(trace, path)
    while len(chain) > 1 and _plain(chain[-1]) and 0 < _constant(chain[-1]) < TILE[1]:
        if not tried(trace, move(Collapse, chain[-2])):
            break
        chain.pop()
    if len(chain) > 3:
        _plane(trace, chain, TILE)
        return
    width = _width(chain[-1]) if _plain(chain[-1]) else 1
    count = _constant(chain[-1]) // width
    if len(chain) > 1 and TILE[1] <= count <= THREADS // 2 and _constant(chain[-1]) % width == 0:
        _in_rows(trace, chain, width, THREADS // count)
        return
    _in_blocks(trace, chain[-1], width)
    grid(trace, chain)


def _in_rows(trace: Trace, chain: list[Spot], width: int, rows: int) -> None:
    """The last scope of the chain on threads, with so many iterations of the one before in a block."""
    threads = chain.pop()
    if width > 1:
        act(trace, Split, threads, width)
        act(trace, Vectorize, threads.child(0))
    act(trace, Split, chain[-1], rows)
    act(trace, Bind, chain[-1].child(0), "by")
    act(trace, Bind, threads, "bx")
    grid(trace, chain)


def _flat(trace: Trace, path: Path) -> None:
    """Scopes over what lies side by side as one, on threads: blocks of neighbours in it run side by side too."""
    chain = _chain(trace, path)
    _known(len(chain) > 1 and _plain(chain[-1]))
    nest, width = flattened(trace, chain[0])
    extents = list(map(_constant, nest))
    _known(width > 1 and len(extents) <= len(GRID) and all(extent > 0 for extent in extents[:-1]))
    _in_blocks(trace, nest[-1], width)
    grid(trace, reversed(nest))


def _in_blocks(trace: Trace, scope: Spot, width: int) -> None:
    """A scope as blocks of threads, each with `width` neighbours that one access moves."""
    act(trace, Split, scope, THREADS * width)
    threads = scope.child(0)
    if width > 1:
        act(trace, Split, threads, width)
        act(trace, Vectorize, threads.child(0))
    act(trace, Bind, threads, "bx")


def _constant(scope: Spot) -> int:
    """The constant extent of a scope; 0 where it is open."""
    return scope.scope.extent.constant or 0


def _plain(scope: Spot) -> bool:
    """Whether a scope has statements alone."""
    return all(isinstance(node, Statement) for node in scope.body)


def _neighbours(trace: Trace, path: Path) -> None:
    """A few rows a thread, where it reads the neighbours of each: what one row has read serves the next."""
    chain, kernel = _chain(trace, path), trace.kernel
    _known(len(chain) == 2 and _plain(chain[-1]))
    rows, columns = chain
    outer = rows.depth
    near: dict[str, set[str]] = {}
    for site in sites_in(kernel, path):
        _known(site.statement.accumulation is None)
        for access in site.statement.reads:
            if depends(access, outer):
                near.setdefault(access.buffer, set()).add(str(access.indices[0]))
    _known(any(len(places) > 2 for places in near.values()))
    act(trace, Split, rows, ROWS)
    few = rows.child(0)
    act(trace, SwapScopes, few)
    full_extent(trace, few, ROWS)
    act(trace, Unroll, few)
    act(trace, Split, columns, THREADS)
    for scope, mark in ((columns.child(0), "bx"), (rows, "gy"), (columns, "gx")):
        act(trace, Bind, scope, mark)


def _tiled(trace: Trace, path: Path) -> None:
    """A part of a plane a block, where the rows of it are in the same columns: products of matrices."""
    chain = _chain(trace, path)
    _known(len(chain) > 1 and not is_leaf(chain[-1].node))
    inner = chain[-1].depth
    sums = [s for s in sites_in(trace.kernel, chain[-1].path) if s.statement.accumulation]
    shared = [a for s in sums for a in s.statement.reads if depends(a, inner) and not depends(a, inner - 1)]
    _known(bool(sums and shared) and all(depends(s.statement.target, inner) for s in sums))
    _plane(trace, chain, (16, 16))


def _product(trace: Trace, path: Path, machine: Machine) -> None:
    """A product of matrices, in tiles where they divide the sizes."""
    chain = _chain(trace, path)
    _known(len(chain) in {2, 3})
    product_by_size(trace, path, len(chain) == 3, machine, _tiled)


def _plane(trace: Trace, chain: list[Spot], tile: tuple[int, int]) -> None:
    """Tiles the last two scopes of the chain; one thread per element of a tile."""
    act(trace, Tile, chain[-2:], tile)
    rows = chain[-1].child(0)
    act(trace, Bind, rows, "by")
    act(trace, Bind, rows.child(0), "bx")
    grid(trace, chain)


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
    for site in sites_in(kernel, path):
        for access in site.statement.accesses:
            if depends(access, depth) and step_of(kernel, access, depth, 4) is None:
                inner = range(depth + 1, len(site.scopes))
                if any(step_of(kernel, access, d) == 1 for d in inner):
                    return True
    return False


def _open_rows(trace: Trace, path: Path) -> None:
    """Rows of open length, in the registers of a block where they are short enough."""
    chain = _chain(trace, path)
    _known(len(chain) == 1 and not is_leaf(chain[0].node) and _is_row(trace.kernel, path))
    rows_by_length(trace, path, _rows)


def _rows(trace: Trace, path: Path) -> None:
    """An iteration of the chain a block, what is inside on its threads."""
    chain = _chain(trace, path)
    row = chain[-1]
    _known(not is_leaf(row.node) and _is_row(trace.kernel, row.path))
    for nest in reversed(_nests(row)):
        _strided(trace, nest)
    grid(trace, chain)


def _nests(scope: Spot) -> list[Spot]:
    """The nodes right inside of a scope, except statements."""
    return [scope.child(n) for n, node in enumerate(scope.body) if not isinstance(node, Statement)]


def _strided(trace: Trace, nest: Spot) -> None:
    """A nest inside a block on its threads, which go along the innermost scope of it that they can. The block goes
    through steps that wait for each other, as of time, one by one, and its threads along what is in each."""
    _known(isinstance(nest.node, Scope))
    inside = nested(nest)
    steps = inside[-1]
    while inside:
        if tried(trace, partial(_spread, scope=inside[-1], levels=len(inside) - 1)):
            return
        inside.pop()
    _known(len(_nests(steps)) > 1)
    for part in reversed(_nests(steps)):
        _strided(trace, part)


def _spread(trace: Trace, scope: Spot, levels: int) -> None:
    """A scope, which `levels` others of a nest are around, on threads, if which element they put together is one of
    all."""
    nest = along(trace, scope, levels)
    sums = [s for s in sites_in(trace.kernel, nest.path) if s.statement.accumulation]
    together = [s for s in sums if not depends(s.statement.target, nest.depth)]
    inner = nest.depth + 1
    _known(not any(depends(s.statement.target, d) for s in together for d in range(inner, len(s.scopes))))


def _columns(trace: Trace, path: Path) -> None:
    """Sums along columns: a few neighbours a block, the rows of each shared out over its threads."""
    chain = _chain(trace, path)
    column, nests = chain[0], _nests(chain[0])
    _known(len(chain) == 1 and len(nests) == 1)
    (loop,) = nests
    _known(isinstance(loop.node, Scope) and len(loop.body) == 1 and _plain(loop))
    sums = [s.statement for s in sites_in(trace.kernel, column.path) if s.statement.accumulation]
    _known(len(sums) == 1)
    target, reads = sums[0].target, sums[0].reads
    _known(depends(target, column.depth) and not depends(target, loop.depth))
    _known(all(step_of(trace.kernel, a, column.depth) is not None for a in reads))
    for buffer in trace.kernel.buffers:
        if buffer.role == "tmp" and buffer.storage == "reg" and buffer.name in {a.buffer for a in sums[0].accesses}:
            act(trace, PlaceBuffer, buffer.name, "heap")
            for d in [d for d, dim in enumerate(buffer.dims) if dim.collapsed]:
                act(trace, MaterializeDims, buffer.name, d)
    act(trace, Split, column, COLUMNS[1])
    neighbours = stand_alone(trace, loop, 1)
    along(trace, loop, 1, COLUMNS[0], "by")
    act(trace, Bind, neighbours, "bx")
    for other in column.scopes():
        if not other.scope.marks:
            act(trace, Bind, other, "bx")
    grid(trace, chain)


def _turned(trace: Trace, path: Path) -> None:
    chain = _chain(trace, path)
    _known(len(chain) >= 2 and len(chain[-1].body) == 1 and _plain(chain[-1]))
    turn_squares(trace, chain[-2], chain[-1])
    grid(trace, sorted(chain, key=lambda scope: len(scope.path)))  # the last two may have been exchanged


WAYS = (_flat, _neighbours, _turned, _tiled, _open_rows, _rows, _columns, _threads)
"""The forms of nests, in the order in which they are tried."""
