"""Dot products of four bytes, for which processors have an instruction (VNNI, SDOT, dp4a): loops of four iterations
become a `Dot`.

A scope of four iterations that adds the product of two neighbours in memory to one place, in lanes whose elements
are four apart or the same everywhere, is one `Dot`. So is one of a thread of a GPU, where its bytes are in arrays
of the block, from a multiple of four on. The sum is of integers that wrap around, so its order is free.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import constant_value, integer, spread, substituted
from dojoir.codegen.lir.linear import as_sum, divisor
from dojoir.codegen.lir.program import Assign, Binary, Comment, Convert, Dot, Load, Splat, Stmt, Store, Type, Value
from dojoir.codegen.lir.walk import parts, with_loops
from dojoir.ir.dtypes import DTYPES
from dojoir.support.frozen import dataclass
from dojoir.types.quads import QUAD

I32 = DTYPES["i32"]


def with_dots(body: tuple[Stmt, ...], lanes: int, aligned: Collection[str] = ()) -> tuple[Stmt, ...]:
    """The block with such scopes in one, where their lanes are a multiple of `lanes`. Of one lane, where the bytes
    are in arrays that are `aligned`: they begin at a multiple of four bytes."""
    return with_loops(body, lambda loop: _summed(loop, lanes, aligned))


def _summed(loop: lir.For, lanes: int, aligned: Collection[str]) -> tuple[Stmt, ...]:
    """The replacement of a loop, or nothing."""
    whole = (constant_value(loop.start), constant_value(loop.stop), loop.step) == (0, QUAD, 1) and loop.kind in (
        "seq",
        "unroll",
    )
    inner = [stmt for stmt in loop.body if not isinstance(stmt, Comment)]
    if not whole or len(inner) != 1 or not isinstance(inner[0], Assign | Store):
        return ()
    stmt = inner[0]
    kind = stmt.value.type
    if kind.dtype not in (I32, DTYPES["u32"]) or (kind.lanes == 1 and not aligned) or kind.lanes % lanes:
        return ()
    if isinstance(stmt, Store) and (stmt.stride is not None or stmt.mask is not None or stmt.streaming):
        return ()
    sum_ = _accumulated(stmt)
    if sum_ is None or any(part == loop.var for part in parts(sum_.place)):
        return ()
    found = [_quads(factor, loop.var, aligned) for factor in sum_.factors]
    one, other = found
    if one is None or other is None:
        return ()
    if isinstance(other.value, Splat) and not isinstance(one.value, Splat):
        one, other = other, one
    if one.signed and not other.signed:
        one, other = other, one
    if any(each.mask not in (None, sum_.mask) for each in (one, other)):
        return ()
    total: Value = Dot(one.value, other.value, sum_.place, (one.signed, other.signed))
    if sum_.mask is not None:
        total = lir.Select(sum_.mask, total, sum_.place)
    note = (Comment(loop.comment),) if loop.comment else ()
    return (*note, replace(stmt, value=total))


@dataclass(frozen=True)
class _Sum:
    """`place` grows by the product of two factors, where `mask` says so."""

    place: Value
    factors: tuple[Value, Value]
    mask: Value | None = None


def _accumulated(stmt: Assign | Store) -> _Sum | None:
    own = stmt.var if isinstance(stmt, Assign) else Load(stmt.value.type, stmt.buffer, stmt.offset)
    value, mask = stmt.value, None
    match value:
        case lir.Select(condition, yes, no) if no == own:
            value, mask = yes, condition
    match value:
        case Binary(_, "add", left, Binary(_, "mul", one, other)) if left == own:
            return _Sum(own, (one, other), mask)
        case Binary(_, "add", Binary(_, "mul", one, other), right) if right == own:
            return _Sum(own, (one, other), mask)
    return None


@dataclass(frozen=True)
class _Bytes:
    """Four bytes a lane, whether they are i8, and where they are read (None: everywhere)."""

    value: Value
    signed: bool
    mask: Value | None = None


def _quads(factor: Value, var: lir.Var, aligned: Collection[str]) -> _Bytes | None:
    """The elements that a factor is in four iterations of `var`, where they are bytes that lie side by side."""
    lanes = factor.type.lanes
    mask: Value | None = None
    match factor:
        case Convert(_, Load(Type(dtype), buffer, offset, stride, mask)) if lanes > 1 and _is(stride, QUAD):
            kind = Type(I32, lanes)
        case Splat(_, Convert(_, Load(Type(dtype), buffer, offset, None, None))):
            kind = Type(I32)
        case Convert(_, Splat(_, Load(Type(dtype), buffer, offset, None, None))):
            kind = Type(I32)
        case Convert(_, Load(Type(dtype), buffer, offset, None, None)) if lanes == 1 and buffer in aligned:
            if divisor(substituted(offset, {var.name: integer(0)}), {}) % QUAD:
                return None
            kind = Type(I32)
        case _:
            return None
    if dtype.name not in ("i8", "u8") or offset.type != lir.INDEX:
        return None
    terms, _ = as_sum(offset)
    others = (atom for atom in terms if atom != var)
    if terms.get(var) != 1 or any(part == var for atom in others for part in parts(atom)):
        return None
    if mask is not None and any(part == var for part in parts(mask)):
        return None
    quads = lir.Quads(kind, buffer, substituted(offset, {var.name: integer(0)}), mask)
    return _Bytes(spread(quads, lanes), dtype.kind == "i", mask)


def _is(stride: Value | None, number: int) -> bool:
    return stride is not None and constant_value(stride) == number
