"""Every affine expression of a tree rewritten, and divisions that the range of an iterator decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from dojoir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir import (
    Access,
    Cast,
    Const,
    Expr,
    Extent,
    Guard,
    Index,
    Node,
    Op,
    Scope,
    Statement,
    index_value,
    make_op,
)


def map_indices(node: Node, new: Callable[[Affine], Affine]) -> Node:
    """The node with `new` applied to every index, bound and side of a condition, and to affine values."""

    def access(a: Access) -> Access:
        return Access(a.buffer, tuple(access(i) if isinstance(i, Access) else new(i) for i in a.indices))

    def expr(e: Expr) -> Expr:
        match e:
            case Const():
                return e
            case Index(affine):
                return index_value(new(affine))
            case Access():
                return access(e)
            case Op(name, args):
                return make_op(name, tuple(map(expr, args)))
            case Cast(dtype, arg):
                return Cast(dtype, expr(arg))

    match node:
        case Statement(target, op, value):
            return Statement(access(target), op, expr(value))
        case Scope(extent, body):
            bounds = tuple(map(new, extent.bounds))
            return replace(node, extent=Extent(bounds), body=tuple(map_indices(child, new) for child in body))
        case Guard(conditions, body):
            sides = tuple(replace(c, left=new(c.left), right=new(c.right)) for c in conditions)
            return Guard(sides, tuple(map_indices(child, new) for child in body))


def without_divisions(affine: Affine, atom: Iter, extent: int) -> Affine:
    """The same value, where `atom` is at least 0 and less than `extent`: a division of a*x + r by a*b is one of x
    by b, where the range shows that 0 <= r < a."""
    result = Affine.constant(affine.offset)
    for term, coefficient in affine.terms:
        match term:
            case FloorDiv(numerator, divisor):
                whole, _ = _parts(without_divisions(numerator, atom, extent), divisor, atom, extent)
                value = whole // divisor
            case Mod(numerator, divisor):
                whole, rest = _parts(without_divisions(numerator, atom, extent), divisor, atom, extent)
                value = whole % divisor + rest
            case _:
                value = Affine.atom(term)
        result = result + value * coefficient
    return result


def _parts(numerator: Affine, divisor: int, atom: Iter, extent: int) -> tuple[Affine, Affine]:
    """A numerator as multiples of a common divisor with `divisor`, and a rest that is less than it."""
    coefficient = numerator.coefficient(atom)
    common = gcd(divisor, *(c for term, c in numerator.terms if term != atom))
    rest = Affine.atom(atom) * coefficient + numerator.offset % common
    if coefficient < 0 or rest.offset + coefficient * (extent - 1) >= common:
        return numerator, Affine.constant(0)
    return numerator - rest, rest
