"""Dot products of four bytes on processors that multiply only u8 by i8.

Two i8 become that by `a = (a ^ 128) - 128`, two u8 likewise, so that 128 times the sum of the bytes of `b` is to be
taken off again. In a tile all rows share `b`: that sum is kept in one place for all of them, beside the sums of
products, and taken off behind the loop. The sums wrap around, so this is exact.
"""

from __future__ import annotations

from dataclasses import replace

from dojoir.codegen.legal import LEAST
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import Assign, Binary, Comment, Const, Dot, For, Splat, Stmt, Store, Value, Var
from dojoir.codegen.lir.walk import parts, with_loops
from dojoir.codegen.lower.access.state import LoweredNames
from dojoir.support.frozen import dataclass


def with_sums_apart(body: tuple[Stmt, ...], names: LoweredNames) -> tuple[Stmt, ...]:
    """The block with the correction, the sum of the bytes of `b`, accumulated separately in each loop over such
    a tile."""
    return with_loops(body, lambda loop: _loop(loop, names))


@dataclass(frozen=True)
class _DotTile:
    """Rows that add to elements of a tile, all of them products with the same bytes."""

    rows: For
    store: Store
    dot: Dot


def _loop(loop: For, names: LoweredNames) -> tuple[Stmt, ...]:
    """The replacement of a loop, or nothing."""
    tile = _tile(loop)
    if tile is None:
        return ()
    dot, kind = tile.dot, tile.dot.type
    least = Const(dot.a.type, LEAST)
    rest = Var(kind, names.fresh("rest"))
    flipped = _flipped(dot.a)
    one, other = (flipped, dot.b) if dot.signed[1] else (dot.b, flipped)
    left, right = (least, dot.b) if dot.signed[1] else (dot.b, least)
    sums = replace(tile.store, value=Dot(one, other, dot.c, (False, True)))
    taken = replace(tile.store, value=Binary(kind, "sub", dot.c, rest))
    notes = tuple(stmt for stmt in tile.rows.body if isinstance(stmt, Comment))
    summed = (Assign(rest, Dot(left, right, rest, (False, True))), replace(tile.rows, body=(*notes, sums)))
    behind = replace(tile.rows, body=(taken,), comment="")
    return (lir.Declare(rest, Const(kind, 0)), replace(loop, body=summed), behind)


def _tile(loop: For) -> _DotTile | None:
    """The tile that a loop adds to, where its rows share a factor, and nothing else is in it."""
    match [stmt for stmt in loop.body if not isinstance(stmt, Comment)]:
        case [For(kind="unroll") as rows] if loop.kind == "seq":
            pass
        case _:
            return None
    match [stmt for stmt in rows.body if not isinstance(stmt, Comment)]:
        case [Store(buffer, offset, Dot() as dot, None, None) as store]:
            same = dot.signed[0] == dot.signed[1]
            own = dot.c == lir.Load(dot.type, buffer, offset) and not _uses(offset, loop.var)
            if same and own and not _uses(dot.b, rows.var):
                return _DotTile(rows, store, dot)
    return None


def _uses(value: Value, var: Var) -> bool:
    return any(part == var for part in parts(value))


def _flipped(value: Value) -> Value:
    """The bytes with the other sign: 128 is added or subtracted, by `xor`. A number that all lanes share is
    changed before it is broadcast."""
    if isinstance(value, Splat):
        return Splat(value.lanes, _flipped(value.arg))
    return Binary(value.type, "xor", value, Const(value.type, LEAST))
