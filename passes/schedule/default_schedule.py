"""`default_schedule`: a decent kernel for any input, by rule and without a search."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Kernel, Node, Path, Scope, Statement
from dojoir.passes.base.move import BufferName, Move, Word, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Parallelize, Vectorize
from dojoir.passes.loops.guards import RemoveGuard
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.cpu.rows.abreast import rows_abreast
from dojoir.passes.schedule.cpu.rows.blocks_apart import blocks_apart
from dojoir.passes.schedule.cpu.rows.next_rows import fetch_next_rows
from dojoir.passes.schedule.cpu.rows.recurrences import turn_recurrences
from dojoir.passes.schedule.cpu.rows.rows_in_lanes import rows_in_lanes
from dojoir.passes.schedule.cpu.rows.scans import block_scans
from dojoir.passes.schedule.cpu.rows.streams import stream_outputs
from dojoir.passes.schedule.cpu.rows.sums import sums_in_parts
from dojoir.passes.schedule.cpu.rows.sums_abreast import sums_abreast
from dojoir.passes.schedule.cpu.rows.waves import run_in_waves
from dojoir.passes.schedule.cpu.tiles.convolution import tile_channels
from dojoir.passes.schedule.cpu.tiles.gathered_rows import sums_of_gathered_rows
from dojoir.passes.schedule.cpu.tiles.long_sums import block_long_sums
from dojoir.passes.schedule.cpu.tiles.register_tile import tile_registers
from dojoir.passes.schedule.cpu.tiles.transposes import transpose_squares
from dojoir.passes.schedule.cpu.tiles.triangles import block_triangles
from dojoir.passes.schedule.cpu.tiles.windows import columns_alone, tile_window, turn_column, windows
from dojoir.passes.schedule.facts.convolutions import convolutions
from dojoir.passes.schedule.facts.gathers import sums_gathered
from dojoir.passes.schedule.facts.narrow import divides_long, is_interleaved, is_narrow, is_tiny
from dojoir.passes.schedule.facts.products import MOST_SUMS, products
from dojoir.passes.schedule.facts.short_rows import are_short_rows
from dojoir.passes.schedule.facts.sizes import Sizes, count_of, is_little, is_short
from dojoir.passes.schedule.facts.strides import is_leaf, scattered, sites_in, step_of, streamed, strided
from dojoir.passes.schedule.forms.accumulating import accumulate
from dojoir.passes.schedule.forms.borders import cut_borders
from dojoir.passes.schedule.forms.contractions import join_around_products, sink_sums, take_units_away
from dojoir.passes.schedule.forms.counted_from_columns import count_from_zero
from dojoir.passes.schedule.forms.parting import part_products
from dojoir.passes.schedule.forms.residues import split_residues
from dojoir.passes.schedule.forms.scalars import own_scalars
from dojoir.passes.schedule.forms.turning import sums_along_rows
from dojoir.passes.schedule.plan.planner import plan_grids
from dojoir.passes.schedule.steps.combinators import every, tried
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.storage.reuse import ReuseDims
from dojoir.sets.kernel_sets import sets_of

CHUNK = 4096
"""How many iterations of a loop over one dimension a core takes at a time."""

TRANSPOSED = 32
"""The side of the blocks in which what is read along one dimension is written along another."""

FEW = 4
"""How many iterations are too few to share out, whatever the number of cores."""

SCALAR_LIKE = 16
"""The most elements of a temporary that goes into registers."""


def default_schedule(trace: Trace, machine: Machine | str = "host", *, sizes: Sizes = MappingProxyType({})) -> None:
    """Makes a decent kernel of any input, for a CPU by these rules in this order, each where it is legal:

    1. Make accumulations of sums that are written out, `s = s + x`. Delete dead temporaries, conditions that
       always hold and scopes of one iteration, and fuse adjacent scopes, but none that would take a product its
       register tile, and none that goes down columns with one along rows.
    2. Let sweeps over rows which are made again and again, as of a stencil over time, go through the rows
       together, each as many rows behind the one before as it must be, unless the arrays are known to fit in a
       core's caches, or rows are independent and there are several cores. Bring rows whose elements wait for
       the one before and for the row before into flight together.
    3. Let sums that go down the columns of a matrix go along its rows, and count those from 0 that are counted
       from the column on, as of triangles. Bring what a product sums over inside of its rows and columns, give
       each product a nest of its own, and cut triangles into blocks of rows, and
       sums that are known to be long, for one core, into blocks that a cache holds. Give products of matrices,
       convolutions and windows a register tile, with the shared panel or the filters packed, and let sums of
       rows go through the rows as they lie in memory, and so products that are known to have one column. The
       lanes of a convolution are channels, unless these are known to be few. Before that, a nest with a
       condition on a rest becomes one for each residue, and what is clamped along a row is cut off where the
       row begins and ends.
    4. Sum rows that lie where data say in registers, some vectors of the result at a time. Bring rows side by
       side whose sums share a factor, as of a matrix times a vector, or whose running sums, or what else an
       element takes from the one before it, would wait for each addition, unless they are known to be few, and a
       vector of rows in lanes where it would wait for a division. Compute for all blocks of a row side by side
       what is computed once a block, between two passes over it. Collapse what needs no storage, put small
       temporaries into registers, give sums into one element parts, and make running sums, products, maxima,
       minima and linear recurrences into one element those of blocks, where there are cores to share them.
    5. Exchange two scopes where that makes the innermost one step through memory by one element, and tile those
       that read along one dimension and write along another, through a small square.
    6. Run innermost scopes in lanes if they step by one element, or the scope around them if that does and the
       innermost one does not, or only adds up, or if they add up along rows that are known to be shorter than a
       vector. Sums of what lies where data say are in lanes too, where these have masks; what divides integers of
       64 bits is not. What shares bytes goes in pairs. Scopes that are known to run once stay as they are.
    7. Stream the outputs that are larger than the last cache, and not read again, by what is known or asked at
       the call. And fetch the next row in a pass that takes long for each element of one that was read before.
    8. Share the outermost scope that allows it, and runs often enough, out over the cores, unless it is known
       that there is little to do.

    For a GPU, after 1, each nest of independent scopes becomes a grid. Elements of 16 bytes a thread where nothing
    else is to do, rows that lie side by side as one, a row a block where iterations go along rows, in registers
    where their length is constant, tiles for products, convolutions and rows that grow, as of causal attention.
    Then there are squares through shared memory for what is turned, sums of all and few large ones, as by channel,
    in two launches, running values of rows of any length in blocks, of long ones in three launches, else an
    iteration a thread.

    `machine` is one, or a name: this one (`host`), a processor's (`znver3`), a typical one of an instruction set
    (`avx2`), or a GPU (`cuda`, `hip`). It gives the bytes of a vector, the registers, the first cache and the
    number of cores. `sizes` are those that the kernel will mostly run at, as far as they are known. Others are
    large. The moves are the same for the same text, machine and sizes. They never fail on a well-formed kernel.
    Raises ArgumentError for an unknown name.

    >>> import dojoir
    >>> trace = dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.kernels.load("softmax"))
    >>> print(trace.kernel)
    kernel softmax(N, M)
    in  x: f32[N, M]
    out y: f32[N, M] stream 16777216
    tmp m: f32[N~] reg
    tmp e: f32[N~, M]
    tmp s: f32[N~] reg
    <BLANKLINE>
    N : p @i
    | m[{i}] = -inf
    | M : v @j
    | | m[{i}] max= x[{i}, {j}]
    | s[{i}] = 0
    | M : v, prefetch(x, 4096) @k
    | | e[{i}, {k}] = exp(x[{i}, {k}] - m[{i}])
    | | s[{i}] += e[{i}, {k}]
    | M : v @l
    | | y[{i}, {l}] = e[{i}, {l}] / s[{i}]
    <BLANKLINE>
    """
    machine = machine if isinstance(machine, Machine) else machine_named(machine)
    settle(trace)
    if machine.kind == "gpu":
        plan_grids(trace, machine, sizes)
        return
    if split_residues(trace):
        every(_guards)(trace)
    cut_borders(trace, sizes)
    run_in_waves(trace, machine, sizes)
    take_units_away(trace)
    own_scalars(trace)
    turn_recurrences(trace, sizes)
    sums_along_rows(trace)
    sink_sums(trace)
    part_products(trace)
    join_around_products(trace)
    count_from_zero(trace)
    block_triangles(trace, machine, sizes)
    for alone in reversed(list(columns_alone(trace.kernel, sizes))):
        tried(trace, partial(turn_column, product=alone, machine=machine))
    if machine.cores == 1:
        block_long_sums(trace, machine, sizes)
    for product in reversed(list(products(trace.kernel, MOST_SUMS))):
        if not is_tiny(product.site, machine):
            tried(trace, partial(tile_registers, product=product, machine=machine, sizes=sizes))
    for convolution in reversed(list(convolutions(trace.kernel))):
        if not is_tiny(convolution.site, machine):
            tried(trace, partial(tile_channels, convolution=convolution, machine=machine, sizes=sizes))
    for window in reversed(list(windows(trace.kernel, sizes))):
        tried(trace, partial(tile_window, window=window, machine=machine, sizes=sizes))
    delete_dead(trace)
    sums_of_gathered_rows(trace, machine, sizes)
    rows_in_lanes(trace, machine, sizes)
    sums_abreast(trace, machine, sizes)
    rows_abreast(trace, machine, sizes)
    blocks_apart(trace, machine, sizes)
    every(_collapsible)(trace)
    every(_scalars)(trace)
    sums_in_parts(trace)
    if machine.cores != 1:
        block_scans(trace, machine, sizes)
    for i in range(len(trace.kernel.body)):
        _order(trace, (i,), machine, sizes)
    for i in range(len(trace.kernel.body)):
        _lanes(trace, (i,), machine, sizes)
    stream_outputs(trace, machine, sizes)
    fetch_next_rows(trace, machine, sizes)
    if machine.cores != 1:
        for i in range(len(trace.kernel.body)):
            if not is_little(trace.kernel, (i,), sizes):
                _cores(trace, (i,), machine.cores, sizes)


def settle(trace: Trace) -> None:
    """Makes accumulations of sums written out; deletes dead temporaries, and conditions that always hold."""
    accumulate(trace)
    delete_dead(trace)
    every(_guards)(trace)


def _guards(kernel: Kernel) -> Iterator[Move]:
    """Those inside before those around them: the places of others stay as they are."""
    yield from reversed(list(RemoveGuard.candidates(kernel)))


def _collapsible(kernel: Kernel) -> Iterator[Move]:
    for buffer in kernel.buffers:
        if buffer.role == "tmp" and buffer.storage == "heap":
            for i, dim in enumerate(buffer.dims):
                if not dim.collapsed:
                    yield ReuseDims(BufferName(buffer.name), i)


def _scalars(kernel: Kernel) -> Iterator[Move]:
    for buffer in kernel.buffers:
        stored = [dim.extent for dim in buffer.dims if not dim.collapsed]
        elements = 1
        for extent in stored:
            elements *= extent.offset if extent.is_constant else SCALAR_LIKE + 1
        if buffer.role == "tmp" and buffer.storage == "heap" and elements <= SCALAR_LIKE:
            yield PlaceBuffer(BufferName(buffer.name), Word("reg"))


# -- order -------------------------------------------------------------------------------------------------
def _order(trace: Trace, path: Path, machine: Machine, sizes: Sizes) -> None:
    """Rule 5, below a node and at it."""
    node = trace.kernel.at(path)
    if not isinstance(node, Scope | Guard) or _is_marked(node):
        return
    for inner in _inside(node, path):
        _order(trace, inner, machine, sizes)
    if (
        isinstance(node, Scope)
        and len(node.body) == 1
        and isinstance(node.body[0], Scope)
        and is_leaf(node.body[0])
    ):
        kernel, inner = trace.kernel, (*path, 0)
        if any(site.statement.accumulation for site in sites_in(kernel, path)):
            return
        here, there = strided(kernel, path), strided(kernel, inner)
        across = here and there and streamed(kernel, path) and streamed(kernel, inner)
        outside = is_short(node.extent, sizes, FEW)
        if across and (outside or is_short(node.body[0].extent, sizes, FEW)):  # a few rows: no squares
            if not outside:
                tried(trace, SwapScopes(place_of(path)))
        elif there > here:
            tried(trace, SwapScopes(place_of(path)))
        elif across and not tried(trace, partial(transpose_squares, path=path, machine=machine)):
            tried(trace, Tile((place_of(path), place_of(inner)), (TRANSPOSED, TRANSPOSED)))


# -- lanes -------------------------------------------------------------------------------------------------
def _lanes(trace: Trace, path: Path, machine: Machine, sizes: Sizes) -> None:
    """Rule 6, at a node and below it; a scope that is known to run once has no use for lanes."""
    kernel = trace.kernel
    node = kernel.at(path)
    if not isinstance(node, Scope | Guard):
        return
    if isinstance(node, Scope) and not _is_marked(node) and not is_short(node.extent, sizes, 2):
        if is_leaf(node) and (is_narrow(kernel, path, machine) or divides_long(kernel, path)):
            return
        if is_leaf(node) and (not strided(kernel, path) or (machine.masks and sums_gathered(kernel, path))):
            _leaf_in_lanes(trace, path)
            return
        if any(is_interleaved(kernel, path, leaf) for leaf in _leaves(node, path) if leaf != path):
            return
        better = not is_leaf(node) and (
            are_short_rows(kernel, path, machine, sizes) or _is_better_around(kernel, node, path)
        )
        if better and tried(trace, lambda t: _nest_in_lanes(t, path, machine)):
            return
    for inner in _inside(node, path):
        _lanes(trace, inner, machine, sizes)


def _is_better_around(kernel: Kernel, node: Scope, path: Path) -> bool:
    """Whether a scope with others in it goes into lanes better than those. It steps by one element and they do
    not, or they only add up. Or they add up and it reads few elements apart, as the windows of a pooling do."""
    leaves = list(_leaves(node, path))
    if not strided(kernel, path):
        return any(strided(kernel, leaf) or _reduces(kernel, path, leaf) for leaf in leaves)
    return not scattered(kernel, path) and all(_reduces(kernel, path, leaf) for leaf in leaves)


def _reduces(kernel: Kernel, path: Path, leaf: Path) -> bool:
    """Whether a scope inside the one at `path` accumulates into one element, and that one into its neighbours."""
    outer, inner = kernel.depth_of(path), kernel.depth_of(leaf)
    sums = [site.statement.target for site in sites_in(kernel, leaf) if site.statement.accumulation]
    return any(step_of(kernel, a, inner) == 0 and step_of(kernel, a, outer) == 1 for a in sums)


def _leaf_in_lanes(trace: Trace, path: Path) -> None:
    if len(path) > 1:
        if not tried(trace, Vectorize(place_of(path))) and _is_packed(trace.kernel, path):
            tried(trace, lambda t: _pairs_in_lanes(t, path))
    else:
        tried(trace, lambda t: _split_in_lanes(t, path, CHUNK))


def _is_packed(kernel: Kernel, path: Path) -> bool:
    """Whether a scope of constant extent writes neighbours that share bytes."""
    node = kernel.at(path)
    assert isinstance(node, Scope)
    whole = all(bound.is_constant and bound.offset % 2 == 0 for bound in node.extent.bounds)
    return whole and any(kernel.buffer(site.statement.target.buffer).packed for site in sites_in(kernel, path))


def _pairs_in_lanes(trace: Trace, path: Path) -> None:
    """Gives each lane both halves of a byte."""
    act(trace, Split, spot(trace, path), 2)
    act(trace, Vectorize, spot(trace, path))


def _nest_in_lanes(trace: Trace, path: Path, machine: Machine) -> None:
    """Runs a scope with scopes inside it in lanes: two vectors of its widest type."""
    kernel = trace.kernel
    widest = max(
        kernel.buffer(a.buffer).dtype.itemsize for site in sites_in(kernel, path) for a in site.statement.accesses
    )
    _split_in_lanes(trace, path, 2 * machine.vector_bytes // widest)


def _split_in_lanes(trace: Trace, path: Path, size: int) -> None:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    lanes = spot(trace, path)
    short = [Condition(bound, "<=", Affine.constant(size)) for bound in scope.extent.bounds]
    if not any(sets_of(trace.kernel).holds_around(path, [condition]) for condition in short):
        act(trace, Split, lanes, size)
        lanes = lanes.child(0)
    act(trace, Vectorize, lanes)


# -- cores -------------------------------------------------------------------------------------------------
def _cores(trace: Trace, path: Path, cores: int, sizes: Sizes) -> bool:
    """Rule 8, at a node and below it. A scope without scopes inside it is too little work for a team of cores,
    unless it is all there is. One that is known to run so seldom that some cores would wait leaves the work to
    those inside, if there is enough in each of them. Returns whether a scope is shared out."""
    node = trace.kernel.at(path)
    if not isinstance(node, Scope | Guard) or {"u", "v"}.intersection(getattr(node, "marks", ())):
        return False
    large = isinstance(node, Scope) and (len(path) == 1 or not is_leaf(node))
    few = isinstance(node, Scope) and not is_leaf(node) and _is_uneven(node, cores, sizes)
    if few and _cores_inside(trace, path, cores, sizes):
        return True
    if large and tried(trace, Parallelize(place_of(path))):
        return True
    return not few and _cores_inside(trace, path, cores, sizes)


def _cores_inside(trace: Trace, path: Path, cores: int, sizes: Sizes) -> bool:
    """The same for what is inside of a node, where there is enough in it each time."""
    node = trace.kernel.at(path)
    assert isinstance(node, Scope | Guard)
    shared = False
    for inner in _inside(node, path):
        if not is_little(trace.kernel, inner, sizes):
            shared |= _cores(trace, inner, cores, sizes)
    return shared


def _is_uneven(scope: Scope, cores: int, sizes: Sizes) -> bool:
    """Whether a scope is known to run so seldom that cores would wait for each other: less often than there are
    cores, or a few times but not as often for each."""
    count = count_of(scope.extent, sizes) or FEW
    return count < max(cores, FEW) or (count < FEW * cores and count % cores != 0)


# -- the tree ----------------------------------------------------------------------------------------------
def _inside(node: Scope | Guard, path: Path) -> list[Path]:
    return [(*path, i) for i in range(len(node.body))]


def _is_marked(node: Node) -> bool:
    """Whether a scope inside a node, or itself, has a mark."""
    if isinstance(node, Statement):
        return False
    return bool(isinstance(node, Scope) and node.marks) or any(_is_marked(child) for child in node.body)


def _leaves(node: Node, path: Path) -> Iterator[Path]:
    """The innermost scopes."""
    if isinstance(node, Scope) and is_leaf(node):
        yield path
    elif not isinstance(node, Statement):
        for i, child in enumerate(node.body):
            yield from _leaves(child, (*path, i))
