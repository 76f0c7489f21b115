"""Error bounds of scatters whose index depends on rounding: any element may have received such a value, or missed
it.

Beside such a buffer stands one number, the sum of all that may be elsewhere. It is part of the bound of each
element that is read, and at the end of the bound of each that is given. That is more than need be where a later
statement divides by how many there are, but only where there is such a value at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import F64
from dojoir.ir.nodes import Access, Buffer, Cast, Expr, Extent, Node, Scope, Statement
from dojoir.runtime.verification.beside import BoundBuffers
from dojoir.runtime.verification.propagation import INFINITE, ZERO, Bound, error_sum, magnitude, op
from dojoir.types.typed import TypedStatement


def begun(strays: Mapping[str, str]) -> tuple[Statement, ...]:
    """Nothing is elsewhere at first."""
    return tuple(Statement(Access(name, ()), "=", ZERO) for name in strays.values())


def strayed(typed: TypedStatement, stray: str, place: Expr, value: Expr, bound: Bound) -> Statement:
    """The statement that counts a value, off by `bound`, which goes to a place that is off by `place`: an element
    that another value is added to is off by as much as that is, and any other may be anything."""
    number = value if typed.value.dtype.is_float else Cast(F64, value)
    off = error_sum(magnitude(number), bound) if typed.op == "add" else INFINITE
    return Statement(Access(stray, ()), "+=", op("select", op("eq", place, ZERO), ZERO, off or ZERO))


def ended(names: BoundBuffers, buffers: Iterable[Buffer]) -> tuple[Node, ...]:
    """The nests that add what may be elsewhere to the bounds of each result."""
    nests: list[Node] = []
    for buffer in buffers:
        if buffer.role != "tmp" and buffer.name in names.strays:
            indices = tuple(Affine.iterator(depth) for depth in range(len(buffer.dims)))
            error, stray = Access(names.errors[buffer.name], indices), Access(names.strays[buffer.name], ())
            node: Node = Statement(error, "+=", stray)
            for dim in reversed(buffer.dims):
                node = Scope(Extent((dim.extent,)), (node,))
            nests.append(node)
    return tuple(nests)
