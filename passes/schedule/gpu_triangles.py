"""Rows that grow on a GPU, as those of causal attention: products whose columns, or whose sum, end at the row.

A block has some rows. What all of them have of a product is one of matrices, in tiles; what is left is a triangle,
an element a thread. What is done with a row between two products, as a softmax, a warp does.

Source: Dao et al., "FlashAttention" (2022), arXiv:2205.14135, for the blocks of rows; scores stay in memory here,
so that no sum is rescaled and `fp reassoc` is enough.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Node, Path, Scope, Statement, format_path
from dojoir.ir.text import format_condition
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make, tried
from dojoir.passes.schedule.gpu_copies import shared_copy
from dojoir.passes.schedule.gpu_products import tile_blocks
from dojoir.passes.schedule.register_tile import products
from dojoir.passes.schedule.strides import depends, sites_in
from dojoir.proof.core.marks import GRID

ROWS = 64
"""How many rows a block has, and how many columns a tile."""

DEPTH, DOWN, ACROSS = 16, 4, 4
"""How deep a tile is, and how many rows and columns of it a thread has."""

THREADS = 256
"""How many threads a block has for what is no tile."""

WIDTH = 4
"""How many neighbours of a row a lane has at a time."""

Kind = Literal["columns", "sum", "rest"]
"""What ends at the row in a child of the rows: the columns of a product, what it sums over, or it is no product."""


def growing_rows(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives blocks of the rows inside the scope at `path`, or of it, to those of a GPU. Raises DojoError where the
    rows have no two products, or none that grows by one element a row, their sizes are not multiples of a tile, or
    a move is refused."""
    rows = path
    while isinstance(_only(trace, rows), Scope) and len(rows) - len(path) < len(GRID) - 1:
        rows = (*rows, 0)
    if (_block(trace, rows).extent.constant or 1) % ROWS:  # of open ones nothing is known
        raise ArgumentError(f"{ROWS} rows do not divide those of {format_path(rows)}", "bad-arguments")
    kinds = _kinds(trace, rows)
    if sum(kind != "rest" for kind in kinds) < 2:
        raise ArgumentError("no two products end at the row", "bad-arguments")
    for n in reversed(range(len(kinds))):
        if kinds[n] == "columns" and len(_block(trace, (*rows, n)).body) > 2:
            make(trace, f"split_scopes({format_path((*rows, n))}, 2)")
            kinds.insert(n + 1, "rest")
    make(trace, f"split({format_path(rows)}, {ROWS})")
    pieces = _distributed(trace, rows, kinds)
    for n in reversed(range(len(pieces))):
        at = (*rows, n)
        match pieces[n]:
            case "columns":
                _columns(trace, at)
            case "sum":
                _sum(trace, at)
            case "rest":
                _in_warps(trace, at, machine.warp)
    for level in range(len(path), len(rows) + 1):
        make(trace, f"bind({format_path(rows[:level])}, {GRID[len(rows) - level]})")


def _kinds(trace: Trace, rows: Path) -> list[Kind]:
    depth = trace.kernel.depth_of(rows)
    end = Affine.iterator(depth) + 1
    kinds: list[Kind] = []
    for node in _block(trace, rows).body:
        kind: Kind = "rest"
        if isinstance(node, Scope):
            inner = [n for n, child in enumerate(node.body) if isinstance(child, Scope)]
            loop = node.body[inner[0]] if len(inner) == 1 else None
            if isinstance(loop, Scope) and inner == [1] and _adds(loop.body):
                if _ends(node, end) and loop.extent.constant is not None:
                    kind = "columns"
                elif _ends(loop, end) and (node.extent.constant or 1) % ROWS == 0:
                    kind = "sum"
        kinds.append(kind)
    return kinds


def _ends(scope: Scope, end: Affine) -> bool:
    return scope.extent.bounds == (end,)


def _adds(body: tuple[Node, ...]) -> bool:
    """Whether a loop adds up products alone."""
    return len(body) == 1 and isinstance(body[0], Statement) and body[0].op == "+=" and len(body[0].reads) > 1


def _distributed(trace: Trace, rows: Path, kinds: list[Kind]) -> list[Kind]:
    """Gives each product rows of its own in the block, and what is between two. What comes before a product that
    does not need it comes after it, to what is there. Returns what each of these rows is."""
    starts = [n for n in range(len(kinds)) if not n or kinds[n] != "rest" or kinds[n - 1] != "rest"]
    for n in reversed(starts[1:]):
        make(trace, f"split_scopes({format_path((*rows, 0))}, {n})")
    pieces = [kinds[n] for n in starts]
    for n in range(len(pieces) - 2):
        between = pieces[n] == "rest" != pieces[n + 1] and pieces[n + 2] == "rest"
        if between and tried(trace, partial(_later, rows=rows, n=n)):
            pieces[n : n + 3] = [pieces[n + 1], "rest"]
            break
    return pieces


def _later(trace: Trace, rows: Path, n: int) -> None:
    make(trace, f"swap_siblings({format_path((*rows, n))})")
    make(trace, f"join_scopes({format_path((*rows, n + 1))}, {format_path((*rows, n + 2))})")


def _columns(trace: Trace, at: Path) -> None:
    """A product whose columns end at the row: those that all rows of the block have in tiles, the others with a
    thread for each."""
    block, n = at[:-1], at[-1]
    start = f"{ROWS}*{{{trace.kernel.depth_of(block)}}}"
    make(trace, f"cut({format_path((*at, 0))}, {start})")
    make(trace, f"split_scopes({format_path(at)}, 1)")
    rest = (*block, n + 1)
    sums = [site for site in sites_in(trace.kernel, rest) if site.statement.accumulation is not None]
    column = trace.kernel.depth_of(rest) + 1
    panel = next(a.buffer for a in sums[0].statement.reads if depends(a, column))
    copy = fresh_name(trace.kernel, f"{panel}_tile")
    shared_copy(trace, format_path(rest), panel, copy, THREADS)
    make(trace, f"pad_dims({copy}, {len(trace.kernel.buffer(copy).dims) - 1}, 1)")
    triangle = (*block, n + 2)
    own = trace.kernel.depth_of(triangle)
    within = format_condition(Condition(Affine.iterator(own + 1), "<", Affine.iterator(own) + 1))
    columns = (*triangle, 0)
    make(trace, f'add_guard({format_path((*columns, 0))}, {len(_block(trace, columns).body)}, "{within}")')
    make(trace, f"set_extent({format_path(columns)}, {ROWS})")
    _element_a_thread(trace, triangle)
    _tiled(trace, at)


def _sum(trace: Trace, at: Path) -> None:
    """A product whose sum ends at the row: what all rows of the block sum over in tiles, and then the rest."""
    block, n = at[:-1], at[-1]
    start = f"{ROWS}*{{{trace.kernel.depth_of(block)}}}"
    make(trace, f"cut({format_path((*at, 0, 1))}, {start})")
    make(trace, f"split_scopes({format_path((*at, 0))}, 2)")
    make(trace, f"split_scopes({format_path(at)}, 1)")
    _element_a_thread(trace, (*block, n + 1))
    _tiled(trace, at)


def _tiled(trace: Trace, at: Path) -> None:
    product = next((p for p in products(trace.kernel) if p.rows == at), None)
    if product is None:
        raise ArgumentError(f"there is no product at {format_path(at)}", "bad-arguments")
    (extent,) = product.site.scopes[-1].extent.bounds
    terms = [extent.offset, *(coefficient for _, coefficient in extent.terms)]
    depth = DEPTH if all(term % DEPTH == 0 for term in terms) else DEPTH // 2
    tile_blocks(trace, format_path(at), ROWS, ROWS, depth, DOWN, ACROSS)


def _element_a_thread(trace: Trace, at: Path) -> None:
    """Rows and columns on threads, neighbours along the columns; a thread has every so many-th row."""
    place = format_path(at)
    make(trace, f"split({place}, {THREADS // ROWS})")
    make(trace, f"swap_scopes({place})")
    make(trace, f"swap_scopes({place}.0)")
    make(trace, f"bind({place}, by)")
    make(trace, f"bind({place}.0, bx)")


def _in_warps(trace: Trace, at: Path, lanes: int) -> None:
    """A row a warp, whose lanes go along it; several rows of the block at a time."""
    place = format_path(at)
    make(trace, f"split({place}, {THREADS // lanes})")
    inside = sites_in(trace.kernel, at)
    for buffer in trace.kernel.buffers:
        uses = [s for s in trace.kernel.sites if any(a.buffer == buffer.name for a in s.statement.accesses)]
        if buffer.role == "tmp" and buffer.dims and uses and all(site in inside for site in uses):
            _ = tried(trace, partial(_own, name=buffer.name))
    row, block = (*at, 0), trace.kernel.depth_of(at) - 1
    step = WIDTH * lanes
    for n in reversed(range(len(_block(trace, row).body))):
        if isinstance(trace.kernel.at((*row, n)), Scope):
            child = (*row, n)
            if tried(trace, f"cut({format_path(child)}, {step}*({ROWS}*{{{block}}} // {step}))"):
                _along(trace, (*row, n + 1), lanes)
                _wide(trace, child, lanes)
            else:
                _along(trace, child, lanes)
    make(trace, f"bind({format_path(row)}, bx)")


def _wide(trace: Trace, path: Path, lanes: int) -> None:
    """A scope along what all rows of a block have on the lanes of a warp, some neighbours each at a time."""
    place = format_path(path)
    make(trace, f"split({place}, {WIDTH * lanes})")
    if _block(trace, (*path, 0)).extent.constant != WIDTH * lanes:
        make(trace, f"set_extent({place}.0, {WIDTH * lanes})")
    make(trace, f"split({place}.0, {WIDTH})")
    make(trace, f"swap_scopes({place})")
    make(trace, f"vectorize({place}.0.0)")
    make(trace, f"bind({place}, lane)")


def _own(trace: Trace, name: str) -> None:
    """Keeps a temporary of one element a row in a register."""
    for d in range(len(trace.kernel.buffer(name).dims)):
        make(trace, f"reuse_dims({name}, {d})")
    make(trace, f"place({name}, reg)")


def _along(trace: Trace, path: Path, lanes: int) -> None:
    """A scope along a row on the lanes of a warp: each has every so many-th element."""
    place, depth = format_path(path), trace.kernel.depth_of(path)
    count = len(_block(trace, path).body)
    make(trace, f"split({place}, {lanes})")
    ends = [b for b in _block(trace, (*path, 0)).extent.bounds if not b.is_constant]
    if ends:
        own = Affine.iterator(depth + 1)
        within = " and ".join(format_condition(Condition(own, "<", end)) for end in ends)
        make(trace, f'add_guard({place}.0.0, {count}, "{within}")')
        make(trace, f"set_extent({place}.0, {lanes})")
    make(trace, f"swap_scopes({place})")
    make(trace, f"bind({place}, lane)")


def _only(trace: Trace, path: Path) -> Node | None:
    body = _block(trace, path).body
    return body[0] if len(body) == 1 else None


def _block(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    if not isinstance(scope, Scope):
        raise ArgumentError(f"{format_path(path)} is no scope", "bad-arguments")
    return scope
