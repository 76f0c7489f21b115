"""Sums of products of bytes, which machines take four at a time: the statements that are such."""

from __future__ import annotations

from collections.abc import Callable

from dojoir.ir.nodes import Access, Buffer, Cast, Op, Statement

QUAD = 4
"""How many products are summed at once."""


def multiplies_bytes(statement: Statement, buffer: Callable[[str], Buffer]) -> bool:
    """Whether a statement adds up products of two elements of i8 or u8 as numbers of 32 bits. `buffer` gives the
    declaration of each array by its name."""
    match statement.value:
        case Op("mul", (Cast(wide, Access() as left), Cast(other, Access() as right))):
            bytes_ = all(buffer(a.buffer).dtype.name in ("i8", "u8") for a in (left, right))
            whole = buffer(statement.target.buffer).dtype
            return statement.op == "+=" and bytes_ and wide == other == whole and whole.name in ("i32", "u32")
    return False
