"""Trees with all their accesses, or all their affine expressions, rewritten."""

from __future__ import annotations

from collections.abc import Callable

from dojoir.affine import Affine
from dojoir.ir import (
    Access,
    Cast,
    Condition,
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
    with_body,
)

Rename = Callable[[Access], Access]


def map_accesses(node: Node, new: Rename) -> Node:
    """The node with `new` applied to every access in it, to those in its indices first."""
    match node:
        case Statement(target, op, value, loc):
            return Statement(_access(target, new), op, _expr(value, new), loc)
        case Scope() | Guard():
            return with_body(node, tuple(map_accesses(child, new) for child in node.body))


def _expr(expr: Expr, new: Rename) -> Expr:
    match expr:
        case Const() | Index():
            return expr
        case Access():
            return _access(expr, new)
        case Op(name, args, loc):
            return Op(name, tuple(_expr(arg, new) for arg in args), loc)
        case Cast(dtype, arg, loc):
            return Cast(dtype, _expr(arg, new), loc)


def _access(access: Access, new: Rename) -> Access:
    indices = tuple(_access(i, new) if isinstance(i, Access) else i for i in access.indices)
    return new(Access(access.buffer, indices, access.loc))


def map_indices(node: Node, new: Callable[[Affine], Affine], constants: bool = False) -> Node:
    """The node with `new` applied to every index, bound and side of a condition, and to affine values; to whole
    numbers too if `constants` are meant."""

    def access(a: Access) -> Access:
        return Access(a.buffer, tuple(access(i) if isinstance(i, Access) else new(i) for i in a.indices))

    def expr(e: Expr) -> Expr:
        match e:
            case Const(int() as value) if constants:
                return index_value(new(Affine.constant(value)))
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
            inner = tuple(map_indices(child, new, constants) for child in body)
            return Scope(Extent(bounds), inner, node.marks, node.label, node.loc, hints=node.hints)
        case Guard(conditions, body):
            sides = tuple(Condition(new(c.left), c.relation, new(c.right), c.loc) for c in conditions)
            return Guard(sides, tuple(map_indices(child, new, constants) for child in body))
