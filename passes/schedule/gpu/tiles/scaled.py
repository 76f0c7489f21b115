"""Products whose terms are summed block by block, each sum with a factor of its own, on a GPU: as of weights in a
few bits, of which so many share a scale.

    y[m, n] = 0
    B
    | t = 0
    | 32
    | | t += x[m, 32*b + k] * q[n, 32*b + k]
    | y[m, n] += t * s[n, b]

A block has a tile of the result, as of any contraction, and a thread a few rows and columns of it, of which both
`y` and `t` are in registers. What the rows share goes through shared memory, one block of terms at a time. What is
packed is read by each thread for its columns: a word has several of its terms.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Path, Scope, Site, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.sinking import LiftScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.gpu.sharing.copies import mark_all, without_ones
from dojoir.passes.schedule.gpu.tiles.contractions import copied_tile, side_of_tile, whole_tile
from dojoir.passes.schedule.gpu.tiles.products import GROUP, BlockTile, spread_tile
from dojoir.passes.schedule.steps.dims import add_dim
from dojoir.passes.schedule.steps.spots import Spot, act, spot, stand_alone
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.storage.staging import Stage

LONGEST = 64
"""The most terms of a block that share a factor."""

WRITTEN_OUT = 8
"""How many terms are written out."""


def scaled_tiles(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles for a product whose blocks of terms have factors. Raises DojoError where the nest is not one."""
    rows = spot(trace, path)
    columns = rows.child(0)
    known(len(rows.body) == 1 and isinstance(columns.node, Scope) and len(columns.body) == 2, "rows and columns")
    blocks = columns.child(1)
    known(isinstance(columns.body[0], Statement) and isinstance(blocks.node, Scope), "a result that is begun")
    known([type(node) for node in blocks.body] == [Statement, Scope, Statement], "blocks of terms")
    terms = blocks.child(1)
    site, result = _sum_of(trace, terms), sites_in(trace.kernel, blocks.child(2).path)[0].statement.target
    name = site.statement.target.buffer
    scratch = trace.kernel.buffer(name)
    known(scratch.role == "tmp" and not scratch.dims, "sums in a scalar")
    sizes = [scope.scope.extent.constant or 0 for scope in (rows, columns, terms)]
    known(all(sizes) and sizes[2] <= LONGEST, "a product of constant sizes")
    known(result.indices[-2:] == (rows.iterator, columns.iterator), "a result of rows and columns")
    (height, down), (width, across) = side_of_tile(sizes[0], 64, 8), side_of_tile(sizes[1], 64, 4)
    shared = [a for a in site.statement.reads if depends(a, rows.depth) and not depends(a, columns.depth)]
    apart = [a for a in site.statement.reads if depends(a, columns.depth) and not depends(a, rows.depth)]
    known(bool(shared) and bool(apart), "a product of two arrays")
    arrays = [a.buffer for a in (*shared, *apart) if not trace.kernel.buffer(a.buffer).packed]
    if scratch.storage != "heap":
        act(trace, PlaceBuffer, name, "heap")
    for number, scope in enumerate((rows, columns)):
        add_dim(trace, name, scope.depth, scope.scope.extent, number)
    tile = BlockTile(height, width, 1, down, across)
    _tile(trace, (rows, columns, blocks, terms), result.buffer, name, tile, arrays)


def _sum_of(trace: Trace, terms: Spot) -> Site:
    """The one statement of a scope, which accumulates. Raises ArgumentError where there is none such."""
    known(len(terms.body) == 1 and isinstance(terms.body[0], Statement), "one sum of a block")
    (site,) = sites_in(trace.kernel, terms.path)
    known(site.statement.accumulation == "+=", "one sum of a block")
    return site


def _tile(
    trace: Trace, nest: tuple[Spot, Spot, Spot, Spot], result: str, name: str, tile: BlockTile, arrays: list[str]
) -> None:
    rows, columns, blocks, terms = nest
    act(trace, Tile, (rows, columns), (tile.height, tile.width))
    for dim, size in ((1, tile.width), (0, tile.height)):
        act(trace, SplitDim, name, dim, size)
        act(trace, ReuseDims, name, dim)
    act(trace, PlaceBuffer, name, "reg")
    inside = columns.child(0)
    own = fresh_name(trace.kernel, f"{result}_tile")
    act(trace, Stage, inside, result, own, "out")
    act(trace, PlaceBuffer, own, "reg")
    written = without_ones(trace, inside.beside(1))
    stand_alone(trace, blocks, 2)
    act(trace, LiftScope, blocks, 2)
    stand_alone(trace, terms, 2)
    act(trace, LiftScope, terms, 2)
    begun, closed = blocks.child(0), blocks.child(2)
    others = [scope for scope in columns.scopes() if scope.path != blocks.path]
    multiplied, loops = terms.child(0), 1
    if (terms.scope.extent.constant or 0) > WRITTEN_OUT:
        act(trace, Split, terms, WRITTEN_OUT)
        multiplied, loops = terms.child(0, 0), 2
    nests = [(multiplied, loops), *((scope, 0) for scope in (*others, begun, closed))]
    spread = []
    for scope, levels in nests:
        is_masked = whole_tile(trace, scope, tile)
        last = Vectorize if scope.path == written.path and not is_masked else Unroll
        spread.append(spread_tile(trace, scope, tile, levels, last))
    dims = len(trace.kernel.buffer(own).dims)
    for array, dim, size, each in (
        (own, dims - 1, tile.width, tile.across), (own, dims - 2, tile.height, tile.down),
        (name, 3, tile.width, tile.across), (name, 1, tile.height, tile.down),
    ):  # fmt: skip
        act(trace, SplitDim, array, dim, size * GROUP // each)
        act(trace, SplitDim, array, dim + 1, GROUP)
    marks = []
    for array in dict.fromkeys(arrays):
        copy = fresh_name(trace.kernel, f"{array}_tile")
        marks += copied_tile(trace, spread[0].down, array, copy, tile.threads)
    mark_all(trace, marks)
    for one in spread:
        one.mark(trace)
    act(trace, Bind, columns, "gx")
    act(trace, Bind, rows, "gy")
