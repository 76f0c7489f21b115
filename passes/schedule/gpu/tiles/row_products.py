"""Rows that multiply twice (`row_passes`) on matrix units. The scores never leave the registers.

A block has some rows, each warp 16 of them, and goes along the row in blocks of columns. A thread has its own
elements of a tile, as the instruction spreads them: what is done with an element is done by its thread, and what
is summed along a row is put together by the four lanes that share it.

Source: Dao et al., "FlashAttention" (2022), arXiv:2205.14135, for the tiles. No sum is rescaled here, so that
`fp reassoc` is enough; the price is a product more for each pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from dojoir.backends.machine import Machine
from dojoir.grammar.instructions import find_instruction
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Dim, Extent, Path
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.instructions import UseInstr
from dojoir.passes.schedule.facts.product_facts import is_of_two
from dojoir.passes.schedule.facts.strides import constant_extent, given, require, sites_in
from dojoir.passes.schedule.forms.parting import trips
from dojoir.passes.schedule.forms.temporaries import own_arrays
from dojoir.passes.schedule.gpu.sharing.threads import grid, without_ones
from dojoir.passes.schedule.gpu.tiles.contractions import dim_along
from dojoir.passes.schedule.gpu.tiles.matrix_units import UNITS, arranged, fragments, lay_out, only_here, pairs
from dojoir.passes.schedule.gpu.tiles.operands import (
    COLUMNS,
    PAD,
    ROWS,
    Copied,
    MatrixUnit,
    TileOperand,
    WarpTiles,
    copied,
)
from dojoir.passes.schedule.gpu.tiles.row_passes import (
    WIDTH,
    RowNest,
    RowProduct,
    RowTemporaries,
    columns_of,
    computed_again,
    held,
    in_parts,
    names_of,
    ordered,
    separate,
    store_narrowed,
    tiled,
)
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.padding import computed_whole, conditions_of, whole_nest, zeros_beside
from dojoir.passes.schedule.steps.spots import Array, Spot, act, mark_all, nested, spot
from dojoir.support.frozen import dataclass

MOST = 256
"""The most terms of a score, and columns of a result."""

WARPS = 4
"""The warps of a block."""


class BlockRows(NamedTuple):
    """The rows of a block, and those of a warp: what a warp reads of a column serves all of its rows."""

    height: int
    own: int

    @property
    def parts(self) -> tuple[int, ...]:
        """By what rows are split: those of a warp with several tiles, of an instruction, and of half of one."""
        return (*((self.own,) if self.own > ROWS else ()), ROWS, 8)


FEW, MANY = (BlockRows(WARPS * own, own) for own in (ROWS, 2 * ROWS))


def row_products(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Two products in a row on matrix units."""
    *others, rows = nested(spot(trace, path))
    require(len(others) < len(GRID) and len(rows.body) > 1, "rows with several products")
    store_narrowed(trace, rows)
    require(_products_on_units(trace, rows) > 1, "two products that matrix units have")
    separate(trace, rows)
    own_arrays(trace, rows.path)
    held(trace, rows)
    in_parts(trace, rows)
    ordered(trace, rows, names_of(trace, rows))
    names = computed_again(trace, rows)
    tile = _rows_of(trace, rows, others, machine)
    passes = tiled(trace, rows, names, tile.height)
    _on_units(trace, rows, passes, names, machine, tile)
    grid((rows, *reversed(others)))
    return []


def _rows_of(trace: Trace, rows: Spot, others: Sequence[Spot], machine: Machine) -> BlockRows:
    """The rows of a block: many, where there are blocks enough, all of them whole, and each row has all columns."""
    count, rest = divmod(rows.scope.constant_bound or 0, MANY.height)
    blocks = count * prod(trips(scope) for scope in others)
    inside = (scope for site in sites_in(trace.kernel, rows.path) for scope in site.scopes[rows.depth + 1 :])
    grows = any(rows.depth in bound.iterators for scope in inside for bound in scope.extent.bounds)
    return FEW if blocks < machine.multiprocessors or rest or grows else MANY


@dataclass(frozen=True)
class _Multiplied:
    """A product on units: its warps, the scopes of its terms, those over a warp's tiles and of the instruction, and
    the copies that it loads."""

    warps: Spot
    terms: Sequence[Spot]
    tiles: Sequence[Spot]
    spelled: Spot
    copies: Sequence[Copied]


@dataclass(frozen=True)
class _Shared:
    """A nest that threads run on their own elements of a tile: its scopes over warps, rows and columns."""

    warps: Spot
    rows: Sequence[Spot]
    lanes: Sequence[Spot]
    columns: Sequence[Spot]

    def mark(self) -> None:
        """Gives its scopes their roles. Raises IllegalMove where one is refused."""
        blocks, last = self.columns[:-1], self.columns[-1:]
        mark_all([(self.warps, "by"), *((rows, "u") for rows in self.rows)])
        mark_all([*((lane, "lane") for lane in self.lanes), *((columns, "u") for columns in blocks)])
        for pair in last:
            target = sites_in(pair.trace.kernel, pair.path)[0].statement.target
            stored = pair.trace.kernel.buffer(target.buffer).role != "tmp"
            mark_all(pairs(pair) if stored else [(pair, "u")])


def _on_units(
    trace: Trace, rows: Spot, passes: Sequence[Spot], names: RowTemporaries, machine: Machine, tile: BlockRows
) -> None:
    unit = _unit_of(trace, _tile_nests(rows, passes), machine)
    for buffer in _own(trace, rows):
        _in_tiles(trace, rows, buffer, tile)
    nests = _tile_nests(rows, passes)
    lefts = _lefts(trace, rows, nests, names, unit, tile)
    wholes = [one for nest in nests for one in _whole(trace, nest, names, lefts, unit, tile)]
    threads = 32 * WARPS
    filled = [*lefts.values(), *(one.copies[-1] for one in wholes if one.copies)]
    for copy in filled:
        copy.padded(trace)
    marks = [mark for copy in filled for mark in copy.spread(trace, [copy.nest], threads)]
    multiplied = [_multiplied(trace, one, unit, tile) for one in wholes if one.summed is not None]
    owned = [_shared(trace, one, tile) for one in wholes if one.summed is None]
    for buffer in [name for name in _own(trace, rows) if trace.kernel.buffer(name).storage == "heap"]:
        _in_registers(trace, buffer, names, tile)
    used = [(one.spelled, unit.product) for one in multiplied]
    for one in multiplied:
        used += [use for copy in one.copies for use in fragments(trace, one.tiles[0], copy, unit)]
    for scope, word in used:
        act(trace, UseInstr, scope, word)
    for one in multiplied:
        marks += [(one.warps, "by"), *((scope, "u") for scope in (*one.tiles, one.terms[0]))]
    mark_all([*marks, *((scope.around(), "u") for scope, _ in used[len(multiplied) :])])
    for own in owned:
        own.mark()


def _own(trace: Trace, rows: Spot) -> list[str]:
    """The temporaries that rows use."""
    used = {name for site in sites_in(trace.kernel, rows.path) for name in site.statement.buffers}
    return [buffer.name for buffer in trace.kernel.buffers if buffer.role == "tmp" and buffer.name in used]


def _tile_nests(rows: Spot, passes: Sequence[Spot]) -> list[RowNest]:
    """The nests of a block, those of its passes too, in the order of the text."""
    loops, found = [loop.path for loop in passes], list[RowNest]()
    for n in range(len(rows.body)):
        child = rows.child(n)
        inside = [child.child(m) for m in range(len(child.body))] if child.path in loops else [child]
        found += [RowNest(node, node.depth) for node in inside]
    return found


def _products_on_units(trace: Trace, rows: Spot) -> int:
    """How many statements add up products of types that matrix units have."""
    found = 0
    for statement in (site.statement for site in sites_in(trace.kernel, rows.path)):
        if statement.op == "+=" and is_of_two(statement.value):
            types = [trace.kernel.buffer(read.buffer).dtype.name for read in statement.term_reads]
            found += (types[0], types[-1]) in UNITS
    return found


def _unit_of(trace: Trace, nests: Sequence[RowNest], machine: Machine) -> MatrixUnit:
    """The unit that all products are on."""
    found = set()
    for product in filter(None, (nest.product for nest in nests)):
        left, right = (trace.kernel.buffer(a.buffer).dtype for a in (product.left, product.right))
        found.add(UNITS.get((left.name, right.name)))
        require(trace.kernel.fp != "strict" or not left.is_float, "a sum in any order")
    unit = given(found.pop() if len(found) == 1 else None, "products that matrix units have")
    instruction = find_instruction(unit.product)
    require(unit.pair == 2 and instruction.needs <= machine.features and instruction.group == machine.warp,
          "for this machine's units")  # fmt: skip
    return unit


def _in_tiles(trace: Trace, rows: Spot, name: str, tile: BlockRows) -> None:
    """Gives a temporary of the rows storage for what a block has of it at a time."""
    sites = [site for site in trace.kernel.sites if name in site.statement.buffers]
    require(only_here(trace, name, rows), "temporaries of the rows alone")
    site = sites[0]
    access = next(a for a in site.statement.accesses if a.buffer == name)
    own = rows.depth
    for d in reversed(range(len(access.indices))):
        index, dim = access.indices[d], trace.kernel.buffer(name).dims[d]
        require(isinstance(index, Affine), "temporaries at plain places")
        if isinstance(index, Affine) and _is_stored(dim):
            if own in index.iterators:
                Array(trace, name).split(d, tile.height).reuse(d)
            elif index.coefficient(Iter(own + 1)) == WIDTH:  # it counts blocks of columns
                Array(trace, name).split(d, WIDTH).reuse(d)
            elif all(depth < own for depth in index.iterators):
                Array(trace, name).reuse(d)


def _lefts(
    trace: Trace, rows: Spot, nests: Sequence[RowNest], names: RowTemporaries, unit: MatrixUnit, tile: BlockRows
) -> dict[str, Copied]:
    """Copies of what rows multiply, which all passes have."""
    found: dict[str, Copied] = {}
    outer: dict[str, list[tuple[RowNest, RowProduct]]] = {}
    for nest in nests:
        if (product := nest.product) is not None and product.left.buffer not in names.factors:
            outer.setdefault(product.left.buffer, []).append((nest, product))
    for array, uses in outer.items():
        nest, product = uses[0]
        kept, terms = (dim_along(product.left, depth) for depth in (nest.depth, product.summed))
        operand, depth = TileOperand(array, kept, terms, True), _extent(nest, product.summed)
        first, last = (nest.node.path[len(rows.path)] for nest in (uses[0][0], uses[-1][0]))
        around = rows.child(first).wrap(last - first + 1)
        copy = copied(trace, around, operand, WarpTiles(tile.height, WIDTH, tile.own, WIDTH, depth), unit)
        found[copy.name] = copy
        around.remove()
    return found


def _extent(nest: RowNest, depth: int) -> int:
    extent = constant_extent(nest.site.scopes[depth].extent, "rows of tiles")
    require((extent % ROWS == 0 or extent == COLUMNS) and extent <= MOST, "rows of tiles")
    return extent


@dataclass(frozen=True)
class _Whole:
    """A nest over a whole tile: its scopes over rows, over columns and, of a product on units, the sum; what it
    takes from shared memory, and the scope over terms that each thread adds up."""

    row: Spot
    column: Spot | None = None
    summed: Spot | None = None
    copies: tuple[Copied, ...] = ()
    terms: Spot | None = None


def _whole(
    trace: Trace, nest: RowNest, names: RowTemporaries, lefts: dict[str, Copied], unit: MatrixUnit, rows: BlockRows
) -> list[_Whole]:
    """Makes a nest one over whole tiles, in shared memory what a product takes from there. Returns it, and what
    comes before it."""
    row, *others = nested(nest.node)
    product, statement = nest.product, nest.statement
    require(len(others) == len(nest.loops) and len(others) < 3, "nests with no guards")
    if product is None:
        is_along = columns_of(nest, names) is not None
        sizes = [rows.height, *(WIDTH if is_along else _extent(nest, depth) for depth in nest.loops)]
        guard = whole_nest([row, *others], sizes)
        if guard is not None and trace.kernel.buffer(statement.target.buffer).role == "tmp":
            ends = any(trace.kernel.buffer(read.buffer).role != "tmp" for read in statement.term_reads)
            in_rows = all(one.left.iterators <= {row.depth} for one in conditions_of(guard))
            if statement.op != "=":
                _ = tried(trace, lambda _: computed_whole(guard)) if in_rows else False
            elif ends or (statement.target.buffer in names.factors and not in_rows):
                zeros_beside(guard)
            else:
                computed_whole(guard)
        return [_Whole(row, others[0] if others else None)]
    kept, summed = sorted(others, key=lambda scope: scope.depth != product.kept)
    is_outer = product.left.buffer in lefts
    depth = _extent(nest, product.summed) if is_outer else WIDTH
    width = WIDTH if is_outer else _extent(nest, product.kept)
    along, terms = (dim_along(product.right, d) for d in (product.kept, product.summed))
    right = TileOperand(product.right.buffer, along, terms, False)
    tile = WarpTiles(rows.height, width, rows.own, width, depth)
    grows = any(row.depth in bound.iterators for bound in summed.scope.extent.bounds)
    if grows and trace.kernel.fp != "fast":
        return _each_by_itself(trace, nest, product, copied(trace, nest.node, right, tile, unit), rows)
    guard = whole_nest((row, kept, summed), (rows.height, width, depth))
    summed.lift(len(summed.path) - len(row.path))
    copy = copied(trace, summed, right, tile, unit)
    computed_whole(guard)
    left = (lefts[product.left.buffer],) if is_outer else ()
    return [_Whole(row, kept, summed, (*left, copy))]


def _each_by_itself(
    trace: Trace, nest: RowNest, product: RowProduct, right: Copied, rows: BlockRows
) -> list[_Whole]:
    """A product whose sums end at the row: of what is past the end, zeros times what is there may be no number.
    Each thread adds up its results by itself, of scores that lie in shared memory."""
    row, summed, kept = nested(nest.node)
    own = row.stage(product.left.buffer, "tile", "in")
    Array(trace, own).place("shared").pad(len(trace.kernel.buffer(own).dims) - 1, PAD)
    before = nested(without_ones(row.beside(-1)))
    computed_whole(whole_nest(before, (rows.height, WIDTH)))
    whole_nest((row, kept), (rows.height, _extent(nest, kept.depth)))
    return [_Whole(before[0], before[1]), _Whole(row, kept, None, (right,), summed)]


def _multiplied(trace: Trace, one: _Whole, unit: MatrixUnit, tile: BlockRows) -> _Multiplied:
    """A product on units."""
    assert one.column is not None and one.summed is not None
    warps, *rows, i1, i0 = one.row.parts(*tile.parts)
    columns, j1, j0 = one.column.parts(COLUMNS, 2)
    terms = one.summed.parts(unit.terms, *unit.parts)
    arranged([warps, terms[0], *rows, columns, i1, i0, j1, j0, *terms[1:]])
    return _Multiplied(warps, terms, (*rows, columns), i1, one.copies)


def _shared(trace: Trace, one: _Whole, tile: BlockRows) -> _Shared:
    """A nest of each element of a tile, or of each row, run by the thread that has it."""
    warps, *rows, i1, i0 = one.row.parts(*tile.parts)
    if one.column is None:
        arranged([warps, *rows, i1, i0])
        return _Shared(warps, (*rows, i1), (i0,), ())
    if one.column.scope.extent == Extent((Affine.constant(COLUMNS),)):  # parts of sums
        j1, j0 = one.column.parts(2)
        arranged([warps, *rows, i1, i0, j1, j0])
        return _Shared(warps, (*rows, i1), (i0, j1), (j0,))
    columns, j1, j0 = one.column.parts(COLUMNS, 2)
    arranged([warps, *rows, i1, i0, j1, *([one.terms] if one.terms is not None else []), columns, j0])
    return _Shared(warps, (*rows, i1), (i0, j1), (columns, j0))


_Laid = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

_RESULT: _Laid = ("w", "r", "i1", "i0"), ("c", "j1", "j0"), ("w", "r", "c", "i0", "j1", "i1", "j0")
_FACTOR: _Laid = ("w", "r", "i1", "i0"), ("k", "k1", "kq", "k0"), ("w", "r", "k", "i0", "kq", "k1", "i1", "k0")
"""The parts of rows and of columns of a tile, and their order, of what products give and of what they take."""


def _in_registers(trace: Trace, name: str, names: RowTemporaries, tile: BlockRows) -> None:
    """Lays a temporary of a tile out as the instructions have it, and keeps it in registers."""
    dims = [d for d, dim in enumerate(trace.kernel.buffer(name).dims) if _is_stored(dim)]
    if len(dims) == 2:
        is_factor = name in names.factors
        is_part = trace.kernel.buffer(name).dims[dims[1]].extent == Affine.constant(COLUMNS)
        across = (ROWS, 8, 2) if is_factor else (COLUMNS, 2)[is_part:]
        rows, columns, order = _FACTOR if is_factor else _RESULT
        named = [part for part in rows if part != "r" or tile.own > ROWS]
        columns = columns[is_part:]
        laid = [part for part in order if part in (*named, *columns)]
        lay_out(trace, name, dims[0], tile.parts, dims[1], across, (tuple(named), columns, tuple(laid)))
    else:
        require(len(dims) == 1, "temporaries of rows and columns")
        for n, size in enumerate(tile.parts):
            Array(trace, name).split(dims[0] + n, size)
    Array(trace, name).place("reg")


def _is_stored(dim: Dim) -> bool:
    return not dim.collapsed and dim.extent != Affine.constant(1)
