"""Rows that grow on a GPU, as those of causal attention: products whose columns, or whose sum, end at the row.

A block has some rows. What all of them have of a product is one of matrices, in tiles; what is left is a triangle,
an element a thread. What is done with a row between two products, as a softmax, a warp does.

Source: Dao et al., "FlashAttention" (2022), arXiv:2205.14135, for the blocks of rows; scores stay in memory here,
so that no sum is rescaled and `fp reassoc` is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Node, Path, Scope, Statement
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.schedule.facts.product_facts import product_at
from dojoir.passes.schedule.facts.strides import depends, given, require, sites_in
from dojoir.passes.schedule.gpu.sharing.threads import every_so_many_rows, shared_among, shared_copy
from dojoir.passes.schedule.gpu.tiles.product_tiles import BlockTile, tile_blocks
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, mark_all, move, nested, spot
from dojoir.support.frozen import dataclass

ROWS = 64
"""How many rows a block has, and how many columns a tile."""

DEPTH, DOWN, ACROSS = 16, 4, 4
"""How deep a tile is, and how many rows and columns of it a thread has."""

THREADS = 256
"""How many threads a block has for what is no tile."""

WIDTH = 4
"""How many neighbours of a row a lane has at a time."""

Kind = Literal["columns", "sum", "rest"]
"""The kind of a child of the rows whose end depends on the row: the columns of a product, its sum, or no
product."""


@dataclass(frozen=True)
class TriangleScope:
    """A scope in a block, or all rows of one, and what ends at the row in it."""

    scope: Spot
    kind: Kind


def growing_rows(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives blocks of the rows inside the scope at `path`, or of it, to those of a GPU. Raises DojoError where the
    rows have no two products, or none that grows by one element a row, their sizes are not multiples of a tile, or
    a move is refused."""
    chain = nested(spot(trace, path))[: len(GRID)]
    rows = chain[-1]
    require(
        (rows.scope.extent.constant or 1) % ROWS == 0, "of whole blocks of rows"
    )  # of open ones nothing is known
    end = rows.iterator + 1
    parts = [TriangleScope(rows.child(n), _kind(node, end)) for n, node in enumerate(rows.body)]
    require(sum(part.kind != "rest" for part in parts) > 1, "two products that end at the row")
    for n, part in reversed(list(enumerate(parts))):
        if part.kind == "columns" and len(part.scope.body) > 2:
            product, rest = part.scope.part(2)
            parts[n : n + 1] = [TriangleScope(product, "columns"), TriangleScope(rest, "rest")]
    rows.split(ROWS)
    makes: Mapping[Kind, Callable[[Trace, Spot], None]] = {
        "columns": _columns,
        "sum": _sum,
        "rest": partial(_in_warps, lanes=machine.warp),
    }
    for part in reversed(_distributed(trace, parts)):
        makes[part.kind](trace, part.scope)
    mark_all(zip(chain, reversed(GRID[: len(chain)]), strict=True))


def _kind(node: Node, end: Affine) -> Kind:
    """The kind of a node right inside of the rows; `end` is the number of the row and one."""
    if isinstance(node, Scope):
        inner = [n for n, child in enumerate(node.body) if isinstance(child, Scope)]
        loop = node.body[inner[0]] if len(inner) == 1 else None
        if isinstance(loop, Scope) and inner == [1] and _adds(loop.body):
            if node.extent.bounds == (end,) and loop.extent.constant is not None:
                return "columns"
            if loop.extent.bounds == (end,) and (node.extent.constant or 1) % ROWS == 0:
                return "sum"
    return "rest"


def _ends(scope: Scope, end: Affine) -> bool:
    return scope.extent.bounds == (end,)


def _adds(body: tuple[Node, ...]) -> bool:
    """Whether a loop adds up products alone."""
    return len(body) == 1 and isinstance(body[0], Statement) and body[0].op == "+=" and len(body[0].reads) > 1


def _distributed(trace: Trace, parts: list[TriangleScope]) -> list[TriangleScope]:
    """Gives each product of a block rows of its own, and all that is between two. What comes before a product that
    does not need it comes after it, to what is there. Returns these rows."""
    starts = [n for n, part in enumerate(parts) if not n or {part.kind, parts[n - 1].kind} != {"rest"}]
    for n in reversed(starts[1:]):
        parts[n].scope.around().part(n)
    pieces = [TriangleScope(parts[n].scope.around(), parts[n].kind) for n in starts]
    for n, (before, product, after) in enumerate(zip(pieces, pieces[1:], pieces[2:], strict=False)):
        between = before.kind == "rest" != product.kind and after.kind == "rest"
        if between and tried(trace, partial(_later, rest=before.scope, after=after.scope)):
            pieces[n : n + 3] = [product, before]
            break
    return pieces


def _later(trace: Trace, rest: Spot, after: Spot) -> None:
    """Puts rows behind the product that follows them, to the rows there."""
    rest.swap_next()
    rest.join(after)


def _columns(trace: Trace, rows: Spot) -> None:
    """A product whose columns end at the row: those that all rows of the block have in tiles, the others with a
    thread for each."""
    rows.child(0).cut(rows.around().iterator * ROWS)
    tiled, triangle = rows.part(1)
    columns = triangle.child(0)
    sums = [site for site in sites_in(trace.kernel, triangle.path) if site.statement.accumulation is not None]
    panel = next(a.buffer for a in sums[0].statement.reads if depends(a, columns.depth))
    copy = shared_copy(triangle, panel, THREADS)
    Array(trace, copy).pad(len(trace.kernel.buffer(copy).dims) - 1, 1)
    columns.guard([Condition(columns.iterator, "<", triangle.iterator + 1)])
    columns.bound(Affine.constant(ROWS))
    _element_a_thread(triangle)
    _tiled(trace, tiled)


def _sum(trace: Trace, rows: Spot) -> None:
    """A product whose sum ends at the row: what all rows of the block sum over in tiles, and then the rest."""
    columns = rows.child(0)
    columns.child(1).cut(rows.around().iterator * ROWS)
    columns.part(2)
    tiled, triangle = rows.part(1)
    _element_a_thread(triangle)
    _tiled(trace, tiled)


def _tiled(trace: Trace, rows: Spot) -> None:
    product = given(product_at(trace.kernel, rows.path), "a product of rows")
    (extent,) = product.site.scopes[-1].extent.bounds
    terms = [extent.offset, *(coefficient for _, coefficient in extent.terms)]
    depth = DEPTH if all(term % DEPTH == 0 for term in terms) else DEPTH // 2
    tile_blocks(trace, rows, BlockTile(ROWS, ROWS, depth, DOWN, ACROSS))


def _element_a_thread(rows: Spot) -> None:
    """Rows and columns on threads, neighbours along the columns; a thread has every so many-th row."""
    columns = rows.child(0)
    every_so_many_rows(rows, rows.split(THREADS // ROWS), columns)


def _in_warps(trace: Trace, rows: Spot, lanes: int) -> None:
    """A row a warp, whose lanes go along it; several rows of the block at a time."""
    row, step = rows.split(THREADS // lanes), WIDTH * lanes
    inside = sites_in(trace.kernel, rows.path)
    for buffer in trace.kernel.buffers:
        uses = [s for s in trace.kernel.sites if any(a.buffer == buffer.name for a in s.statement.accesses)]
        if buffer.role == "tmp" and buffer.dims and uses and all(site in inside for site in uses):
            _ = tried(trace, partial(_in_register, name=buffer.name))
    start = rows.around().iterator * ROWS // step * step  # what all rows of the block have of it
    for scope in reversed(row.scopes()):
        path = scope.path
        if tried(trace, move(Cut, scope, start)):
            whole = spot(trace, path)
            shared_among(whole.beside(1), lanes).mark("lane")
            _wide(whole, lanes)
        else:
            shared_among(scope, lanes).mark("lane")
    row.mark("bx")


def _in_register(trace: Trace, name: str) -> None:
    """Keeps a temporary of one element a row in a register."""
    Array(trace, name).single().place("reg")


def _wide(scope: Spot, lanes: int) -> None:
    """A scope along what all rows of a block have on the lanes of a warp, some neighbours each at a time."""
    lane = scope.split(WIDTH * lanes)
    lane.constant(WIDTH * lanes)
    own = lane.split(WIDTH)
    scope.swap()
    mark_all(((own, "v"), (lane, "lane")))
