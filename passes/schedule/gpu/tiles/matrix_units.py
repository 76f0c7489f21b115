"""Products on matrix units: a warp executes instructions on small tiles of them, which lie in the registers of its
threads.

A block has a tile of the result, its warps have parts of that, in registers all along the sums. Tiles of the
operands go through shared memory as they lie, their rows padded so that eight of them lie in different banks. From
there fragments go to registers, and each pair of them is multiplied by one instruction. What an instruction takes
is said in its file; here loops and dimensions are split as its text has them.

Sizes are any. Tiles that reach past the end of an array are copied under guards, with zeros beside: products of
these change no sum, and nothing is stored of the rows and columns past the end.

Products that four warps share: their operands are read from shared memory, swizzled, and not through registers.
Of copies that land later alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.grammar.instructions import find_instruction
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Const, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.instructions import UseInstr
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.product_facts import BYTES, FP8, HALVES, is_of_two
from dojoir.passes.schedule.facts.strides import depends, given, require
from dojoir.passes.schedule.forms.parting import Sum, sum_at
from dojoir.passes.schedule.gpu.sharing.threads import guards_outside, lanes_at_most, without_ones
from dojoir.passes.schedule.gpu.tiles.contractions import dim_along, grid_of, roles
from dojoir.passes.schedule.gpu.tiles.double_buffers import run_ahead
from dojoir.passes.schedule.gpu.tiles.operands import (
    COLUMNS,
    DEPTH,
    ROWS,
    Copied,
    MatrixUnit,
    TileOperand,
    WarpTiles,
    copied,
    in_words,
)
from dojoir.passes.schedule.steps.padding import computed_whole, whole_nest, zeros_beside
from dojoir.passes.schedule.steps.spots import Array, Marked, Spot, act, mark_all, nested, spot
from dojoir.passes.schedule.steps.versions import Multiple, split_versions
from dojoir.passes.storage.dead import DeleteTemporary

UNITS: Mapping[tuple[str, str], MatrixUnit] = {
    **{(one, one): MatrixUnit(f"mma_m16n8k16_{one}", "ldmatrix_{}", 16, 8, 2) for one in HALVES},
    **{
        (a, b): MatrixUnit(f"mma_m16n8k32_{a}_{b}", "ldmatrix_{}_byte", 32, 16, 4, False)
        for a in BYTES
        for b in BYTES
    },
    ("f64", "f64"): MatrixUnit("mma_m16n8k8_f64", "fragment_{}", 8, 4, 1),
}
"""The units by the types of the left and the right operand."""


LARGE, SMALL = WarpTiles(128, 128, 64, 64, 0), WarpTiles(64, 64, 32, 32, 0)
"""Tiles for results of which there are many, and of which there are few: more blocks."""


FEW = 8
"""A small tile may have so many times the rows or columns of the result: the other operand is read once all the
same."""

NEAR = 32
"""The columns of a warp, at most, where copies do not land later: more threads have more room to read ahead."""


def _of_warps(left: str, right: str, in_rows: tuple[bool, ...]) -> MatrixUnit | None:
    return UNITS.get((left, right))


def large_matrix_tiles(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Tiles on matrix units, for results of which there are many."""
    return matrix_tiles(trace, path, machine, LARGE, _of_warps)


def small_matrix_tiles(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Tiles on matrix units, for results of which there are few: more blocks."""
    return matrix_tiles(trace, path, machine, SMALL, _of_warps)


def open_tiles(trace: Trace, path: Path, machine: Machine, rest: Callable[[Trace, Path], None]) -> None:
    """Tiles on matrix units for open sizes where rows of the operands are whole words of memory and a tile divides
    the terms, which is asked at each call. Other sizes have the schedule of `rest`."""
    require(len(path) == 1, "a product of all sizes")
    found = _product_at(trace, path)
    require(len(found.summed) == 1 and is_of_two(found.site.statement.value), "a product that matrix units have")
    properties = _asked(trace, found, _operands(found, *roles(trace, found)))
    require(bool(properties), "a product of open sizes")
    others, here = split_versions(trace, path, *properties)
    uneven = spot(trace, others)
    matrix_tiles(trace, here, machine, LARGE, _of_warps)
    rest(trace, uneven.path)


def _asked(trace: Trace, found: Sum, operands: Sequence[TileOperand]) -> list[Multiple]:
    """The properties of open sizes by which rows of operands are whole words, and a tile divides the terms."""
    asked: dict[str, int] = {}
    for buffer in (trace.kernel.buffer(operand.array) for operand in operands):
        asked[str(buffer.dims[-1].extent)] = ACCESS_BYTES // buffer.dtype.itemsize
        asked[str(_bound(found.summed[0]))] = DEPTH // buffer.dtype.itemsize
    return [Multiple(formula, number) for formula, number in asked.items() if not formula.isdecimal()]


UnitOf = Callable[[str, str, tuple[bool, ...]], MatrixUnit | None]
"""The unit for a left and a right operand of some types, and whether the terms of each are rows in memory."""


def matrix_tiles(trace: Trace, path: Path, machine: Machine, tile: WarpTiles, unit_of: UnitOf) -> list[Spot]:
    """Tiles on matrix units."""
    found = _product_at(trace, path)
    require(len(found.summed) == 1 and not _bound(found.summed[0]).iterators, "a product of matrices")
    row, column = roles(trace, found)
    operands = _operands(found, row, column)
    require(len(path) > 1 or not _asked(trace, found, operands), "a product of known sizes")
    left, right = (trace.kernel.buffer(operand.array).dtype for operand in operands)
    in_rows = tuple(operand.kept > operand.summed for operand in operands)
    require(is_of_two(found.site.statement.value), "a product that matrix units have")
    unit = given(unit_of(left.name, right.name, in_rows), "a product that matrix units have")
    require(trace.kernel.fp != "strict" or not left.is_float, "a sum in any order")
    instruction = find_instruction(unit.product)
    require(instruction.needs <= machine.features and machine.warp == 32, "for this machine's units")
    for scope, size in ((row, tile.height), (column, tile.width)):
        least = size // (2 if tile.height > SMALL.height else FEW)
        require(not _bound(scope).is_constant or _bound(scope).offset > least, "a result of tiles")
    found.sink_kept(row, column)
    across = min(tile.across, 256 // left.itemsize) if unit.has_fragments else tile.across
    tile = tile._replace(depth=DEPTH // left.itemsize, across=across)
    terms = _bound(found.summed[0])
    steps = -(-terms.offset // tile.depth) if terms.is_constant else 0
    ahead = steps > tile.stages and all(in_words(trace, operand, unit) for operand in operands)
    require(ahead or unit.has_fragments, "a product whose copies land later")
    if not ahead:
        tile = tile._replace(across=min(tile.across, NEAR), stages=1)
    _tile(trace, found, row, column, operands, tile, unit)
    return []


def _product_at(trace: Trace, path: Path) -> Sum:
    """The sum that the nest at a path is, behind which other statements may stand that take its result."""
    scope, kept = spot(trace, path), list[Spot]()
    while isinstance(scope.node, Scope):
        kept.append(scope)
        if len(scope.body) != 1 or not scope.scopes():
            break
        scope = scope.child(0)
    body = kept[-1].body if kept else ()
    inner = [n for n, node in enumerate(body) if isinstance(node, Scope)]
    if len(inner) != 1 or inner[0] > 1 or len(body) == inner[0] + 1:
        return sum_at(trace, path)
    require(all(isinstance(node, Scope | Statement) for node in body), "a product and what is done with its result")
    summed = nested(kept[-1].child(inner[0]))
    require(len(summed[-1].body) == 1 and isinstance(summed[-1].body[0], Statement), "a product of matrices")
    return Sum(tuple(kept), inner[0] == 1, tuple(summed))


def _bound(scope: Spot) -> Affine:
    """The extent of a scope that has one bound."""
    bounds = scope.scope.extent.bounds
    require(len(bounds) == 1, "a product of matrices")
    return bounds[0]


def _operands(found: Sum, row: Spot, column: Spot) -> tuple[TileOperand, TileOperand]:
    """The arrays that are multiplied, the one along the rows first."""
    (summed,) = found.summed
    factors = [a for a in found.site.statement.reads if depends(a, summed.depth)]
    left = [a for a in factors if depends(a, row.depth)]
    right = [a for a in factors if depends(a, column.depth)]
    require(len(factors) == 2 and len(left) == len(right) == 1, "a product of matrices")
    among = factors.index(left[0]) if left[0].buffer == right[0].buffer else None
    return (
        TileOperand(left[0].buffer, dim_along(left[0], row.depth), dim_along(left[0], summed.depth), True, among),
        TileOperand(right[0].buffer, dim_along(right[0], column.depth), dim_along(right[0], summed.depth), False),
    )


def _tile(
    trace: Trace,
    found: Sum,
    row: Spot,
    column: Spot,
    operands: Sequence[TileOperand],
    tile: WarpTiles,
    unit: MatrixUnit,
) -> None:
    (summed,) = found.summed
    target = found.site.statement.target
    others = [s for s in found.kept if s.path not in (row.path, column.path)]
    rows, columns = (dim_along(target, s.depth) for s in (row, column))
    act(trace, Tile, (row, column), (tile.height, tile.width))
    down = column.child(0)
    own = down.stage(target.buffer, "tile", "out" if found.begins else "inout", "reg")
    written = without_ones(down.beside(1))
    if trace.kernel.buffer(target.buffer).role == "tmp" and only_here(trace, target.buffer, row):
        written.delete()
        act(trace, DeleteTemporary, target.buffer)
    if len(summed.around().body) > 1:
        summed.alone(2)
    summed.lift(2)
    apart = [nest for nest in column.scopes() if nest.path != summed.path]
    begins = [nest for nest in apart if nest.path < summed.path]
    turn, ahead = summed.split(tile.depth), tile.stages > 1
    copies = [copied(trace, summed if ahead else turn, operand, tile, unit, ahead) for operand in operands]
    for nest in apart:
        _whole(nest, tile, nest in begins)
    computed_whole(whole_nest(nested(turn), (tile.depth, tile.height, tile.width)))
    nests = [[copy.nest] for copy in copies]
    if ahead:
        parts_of = run_ahead(trace, [copy.nest.around() for copy in copies], summed, tile.stages)
        nests = [[part.child(n) for part in parts_of] for n in range(len(copies))]
        copies = [copy._replace(operand=copy.operand.split()) for copy in copies]
    marks = [mark for n, copy in enumerate(copies) for mark in copy.spread(trace, nests[n], tile.threads)]
    warps = _Warps.of(turn.child(0), tile)
    k = turn.parts(unit.terms, *unit.parts) if unit.terms < tile.depth else [turn]
    steps = k[: len(k) > 1]
    columns_of = [warps.columns]
    if not unit.has_fragments and copies[1].in_rows:
        columns_of += warps.columns.parts(tile.depth // COLUMNS)[1:]
    arranged([warps.down, *warps.across, *steps, warps.rows, *columns_of, *warps.of_tile(), *k[len(steps) :]])
    threads = []
    for nest in apart:
        of = _Warps.of(nest, tile)
        inner = [of.i0, of.j1, of.rows] if unit.has_fragments else [of.rows, of.i0, of.j1]
        arranged([of.down, *of.across, *inner, of.columns, of.i1, of.j0])
        threads.append(of)
    lay_out(trace, own, rows, (tile.down, ROWS, 8), columns, tile.parts_of_columns, _SUMS[bool(warps.across)])
    for of in threads:
        of.i0.collapse()
    used = []
    for copy in copies:
        if unit.has_fragments:
            used += fragments(trace, warps.rows, copy, unit)
        copy.swizzled(trace)
    for scope, word in (*used, (warps.i1 if unit.has_fragments else warps.rows, unit.product)):
        act(trace, UseInstr, scope, word)
    for of in threads:
        marks += pairs(of.j0)
    for of in (warps, *threads):
        marks.append((of.down, "by"))
        marks += [(scope, "bx") for scope in (of.across if unit.has_fragments or of is warps else (of.rows,))]
        own_of = (of.rows, of.columns) if unit.has_fragments else (of.columns,) if of in threads else ()
        marks += [(scope, "u") for scope in own_of]
    for of in threads:
        marks += [(of.i0, "lane"), (of.i1, "u")]
    mark_all([*marks, *((scope.around(), "u") for scope, _ in used), *((scope, "u") for scope in steps)])
    grid_of(row, column, others)


def _whole(nest: Spot, tile: WarpTiles, begins: bool) -> None:
    """Makes a nest over a tile of the result whole. What the sums begin with is 0 on the padding, or the constant
    that it is everywhere."""
    guard = whole_nest(nested(nest)[:2], (tile.height, tile.width))
    if guard is not None and begins:
        match guard.body:
            case (Statement(value=Const()),):
                computed_whole(guard)
            case _:
                zeros_beside(guard)


_Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
_SUMS: tuple[_Names, _Names] = (
    (("w", "rows", "i1", "i0"), ("columns", "j1", "j0"), ("w", "rows", "columns", "i0", "j1", "i1", "j0")),
    (
        ("w", "rows", "i1", "i0"),
        ("v", "columns", "j1", "j0"),
        ("w", "v", "rows", "columns", "i0", "j1", "i1", "j0"),
    ),
)
"""The parts of rows and of columns of a tile, and their order, where one warp across has all columns, and where
several have them."""

_LEFT: _Names = ("rows", "i1", "i0"), ("k1", "kq", "k0"), ("rows", "i0", "kq", "k1", "i1", "k0")
_RIGHT: _Names = ("columns", "n1", "n0"), ("k1", "kq", "k0"), ("n0", "kq", "columns", "n1", "k1", "k0")


def only_here(trace: Trace, buffer: str, nest: Spot) -> bool:
    """Whether a nest alone uses a buffer."""
    return all(is_inside(site.path, nest.path) for site in trace.kernel.sites if buffer in site.statement.buffers)


class _Warps(NamedTuple):
    """The scopes of a tile: those over warps (none across where one has all columns), over what a warp has, and
    over a tile of an instruction."""

    down: Spot
    across: tuple[Spot, ...]
    rows: Spot
    columns: Spot
    i1: Spot
    i0: Spot
    j1: Spot
    j0: Spot

    @staticmethod
    def of(nest: Spot, tile: WarpTiles) -> _Warps:
        """A nest `rows > columns` of a whole tile split so."""
        i, j = nest, nest.child(0)
        down, rows, i1, i0 = i.parts(tile.down, ROWS, 8)
        *across, columns, j1, j0 = j.parts(*tile.parts_of_columns)
        return _Warps(down, tuple(across), rows, columns, i1, i0, j1, j0)

    def of_tile(self) -> tuple[Spot, ...]:
        return self.i1, self.i0, self.j1, self.j0


def arranged(scopes: Sequence[Spot]) -> None:
    """Brings the scopes of a nest, each of which is all that another has, into an order, outermost first."""
    outermost = min(len(scope.path) for scope in scopes)
    for n, scope in enumerate(scopes):
        if levels := len(scope.path) - outermost - n:
            scope.lift(levels)


def lay_out(trace: Trace, buffer: str, rows: int, down: Sequence[int], columns: int, across: Sequence[int],
            named: _Names) -> None:  # fmt: skip
    """Splits two dimensions of a buffer into parts, which get names, and lays these out in an order."""
    dims: list[str | int] = list(range(len(trace.kernel.buffer(buffer).dims)))
    for dim, sizes, names in ((rows, down, named[0]), (columns, across, named[1])):
        at = dims.index(dim)
        for n, size in enumerate(sizes):
            Array(trace, buffer).split(at + n, size)
        dims[at : at + 1] = names
    Array(trace, buffer).inside(*(dims.index(name) for name in named[2]))


def pairs(lanes: Spot) -> list[Marked]:
    """Two neighbours of a thread, at a time where they are on one side of each guard. Returns the marks."""
    if lanes_at_most(lanes, 2) == 2:
        return [(scope, "v") for scope in guards_outside(lanes)]
    return [(lanes, "u")]


def fragments(trace: Trace, node: Spot, copy: Copied, unit: MatrixUnit) -> list[tuple[Spot, str]]:
    """Stages what a warp needs of an operand's copy in fragments. Returns the scopes that are instructions."""
    operand, dtype = copy.operand, trace.kernel.buffer(copy.name).dtype.name
    name = fresh_name(trace.kernel, f"{operand.array}_part")
    own = node.stage(copy.name, "part", "in", "reg", name=name)
    scopes = nested(without_ones(node.beside(-1)))
    kept, summed = scopes if operand.kept < operand.summed else reversed(scopes)
    across = (ROWS, 8)  # of the right operand, two tiles at a time
    i = kept.parts(*across)
    k = summed.parts(*unit.parts)
    arranged([i[0], *k, *i[1:]] if copy.in_rows else [*i, *k])
    along, terms, order = _LEFT if operand.is_left else _RIGHT
    own_terms = terms[: len(k)]
    names = along, own_terms, tuple(name for name in order if name in (*along, *own_terms))
    lay_out(trace, own, operand.kept, across, operand.summed, unit.parts, names)
    return [(k[0] if copy.in_rows else i[1], unit.loads(operand, copy.in_rows, dtype))]


GROUP = 128
"""The threads of four warps."""

LARGE_GROUP, SMALL_GROUP = WarpTiles(128, 128, 64, 128, 0, 3, GROUP), WarpTiles(64, 128, 64, 128, 0, 4, GROUP)
"""Tiles for results of which there are many, and of which there are few: more blocks."""


def large_group_tiles(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Tiles on matrix units that four warps share, for results of which there are many."""
    return matrix_tiles(trace, path, machine, LARGE_GROUP, unit_of_groups)


def small_group_tiles(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Tiles on matrix units that four warps share, for results of which there are few: more blocks."""
    return matrix_tiles(trace, path, machine, SMALL_GROUP, unit_of_groups)


def unit_of_groups(left: str, right: str, in_rows: tuple[bool, ...]) -> MatrixUnit | None:
    """The unit with which four warps multiply 64 rows by 128 columns. Terms of eight bits lie side by side."""
    if left == right and left in HALVES:
        turned = "".join(name for name, is_turned in zip("ab", in_rows, strict=True) if is_turned)
        return MatrixUnit(f"wgmma_m64n128k64_{f'trans_{turned}_' if turned else ''}{left}", "", 64, 1, 1)
    for kind, types in (("", FP8), ("byte_", BYTES)):
        if {left, right} <= {*types} and not any(in_rows):
            return MatrixUnit(f"wgmma_m64n128k128_{kind}{left}_{right}", "", 128, 1, 1, False)
    return None
