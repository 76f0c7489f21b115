"""The error bound of a sum whose order is free: that of the same terms summed in parts.

A sum of n terms that is carried by one accumulator may be off by `n u sum |term|`, in parts of `sqrt(n)` terms
each by `2 sqrt(n) u sum |term|`, and carried in a wider type by less (N. J. Higham, "The accuracy of floating
point summation", 1993, section 4). The language promises such sums, so no more is allowed. Lanes, which are long
parts, are as near as that where roundings are as often up as down: about `sqrt(n) u` times the sum (N. J. Higham
and T. Mary, "A new approach to probabilistic rounding error analysis", 2019).

A term that is too small to be rounded away is no reason for an error: an addition is off by no more than the term.
So one of `u sum |term|` or more counts as a term, a smaller one by its share of that.

A sum that is written out, `s = s + x` or `y[j + 1] = y[j] + x[j]`, has a free order as well: rules make
accumulations and scans in blocks of it. As the text has it, one accumulator carries it, and so it may be off by as
much as that, and by the rounding of magnitudes, not of what the sum happens to be on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Const, Expr, Index, Kernel, Statement
from dojoir.runtime.verification.propagation import INFINITE, ONE, ZERO, magnitude, op
from dojoir.types.typed import Apply, Load, Typed, TypedStatement
from dojoir.types.typed_parts import typed_parts


def written_out(kernel: Kernel, typed: TypedStatement) -> tuple[Access, TypedStatement] | None:
    """A sum that is written out, as the element that it goes on from and the accumulation of its term; None for
    any other statement, and where the order is not free."""
    match typed:
        case TypedStatement(target, dtype, None, Apply(summed, "add", (left, right))) if (
            kernel.fp != "strict" and dtype.is_float and summed == dtype
        ):
            for before, term in ((left, right), (right, left)):
                if isinstance(before, Load) and before.access.buffer == target.buffer:
                    found = any(isinstance(index, Access) for index in before.access.indices)  # by what is read
                    if not found and target.buffer not in _buffers(term):
                        return before.access, replace(typed, op="add", value=term)
    return None


def _buffers(value: Typed) -> set[str]:
    """The buffers that a value is made of."""
    return {one.buffer for part in typed_parts(value) if isinstance(part, Load) for one in part.access.accesses()}


def is_in_parts(kernel: Kernel, buffer: str) -> bool:
    """Whether sums in a buffer are made in parts: the order is free, and no other operator comes in between. Terms
    that are all the same are rounded the same way each time, which only short parts would mend."""
    if kernel.fp == "strict":
        return False
    own = [site.statement for site in kernel.sites if site.statement.target.buffer == buffer]
    added = [statement for statement in own if statement.accumulation is not None]
    return all(s.accumulation == "+=" for s in added) and all(_varies(kernel, s) for s in added)


def finite(value: Expr) -> Expr:
    """What a term adds to the sum of magnitudes, which is that of the finite ones: in another order parts of
    them may overflow before an infinity comes."""
    return op("select", op("lt", magnitude(value), INFINITE), magnitude(value), ZERO)


def weight(value: Expr, lost: Expr) -> Expr:
    """How much of a term the accumulation of `value` is, where `lost` is what one rounding of the sum is off."""
    size = magnitude(value)
    return op("select", op("lt", size, lost), op("div", size, lost), ONE)


def in_parts_off(lost: Expr, count: Access, order: Access) -> Expr:
    """How much further off `count` terms bring a sum in parts than `order` says, where `lost` is what one rounding
    of the whole is off. That is `2 sqrt(count) lost`, or `count` times, of few. It is of the whole, not of the sum
    as it grows in the text: a term that is small beside one which comes later may be added after it."""
    roots = op("mul", Const(2.0), op("sqrt", op("max", ONE, count)))
    whole = op("mul", op("min", count, roots), lost)
    return op("select", op("lt", whole, INFINITE), op("max", ZERO, op("sub", whole, order)), INFINITE)


def _varies(kernel: Kernel, statement: Statement) -> bool:
    """Whether the terms of a sum may be different."""
    own = _iterators(statement.target)
    for part in parts(statement.value):
        match part:
            case Index(affine) if not affine.iterators <= own:
                return True
            case Access() if kernel.buffer(part.buffer).role != "in" or not _iterators(part) <= own:
                return True
    return False


def _iterators(access: Access) -> set[int]:
    return {d for index in _indices(access) for d in index.iterators}


def _indices(access: Access) -> Iterator[Affine]:
    for index in access.indices:
        if isinstance(index, Access):
            yield from _indices(index)
        else:
            yield index
