"""Trees with all their accesses, or all their affine expressions, rewritten."""

from __future__ import annotations

from collections.abc import Callable

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Leaf, map_leaves
from dojoir.ir.nodes import (
    Access,
    Condition,
    Const,
    Expr,
    Extent,
    Guard,
    Index,
    Node,
    Scope,
    Statement,
    are,
    index_value,
    with_body,
)

Rename = Callable[[Access], Access]


def map_accesses(node: Node, new: Rename) -> Node:
    """The node with `new` applied to every access in it, to those in its indices first; the very node where that
    changes none."""
    match node:
        case Statement(target, value=value, loc=loc):
            to, what = _access(target, new), _expr(value, new)
            return node if to is target and what is value else node.made_of(to, what, loc)
        case Scope() | Guard():
            return with_body(node, tuple(map_accesses(child, new) for child in node.body))


def _expr(expr: Expr, new: Rename) -> Expr:
    return map_leaves(expr, lambda leaf: _access(leaf, new) if isinstance(leaf, Access) else leaf)


def _access(access: Access, new: Rename) -> Access:
    indices = tuple(_access(i, new) if isinstance(i, Access) else i for i in access.indices)
    return new(access if are(indices, access.indices) else Access(access.buffer, indices, access.loc))


def map_indices(node: Node, new: Callable[[Affine], Affine], constants: bool = False) -> Node:
    """The node with `new` applied to every index, bound and side of a condition, and to affine values; to whole
    numbers too if `constants` are meant. Where that changes nothing, the very node."""

    def affine(old: Affine) -> Affine:
        mapped = new(old)
        return old if mapped == old else mapped

    def access(a: Access) -> Access:
        indices = tuple(access(i) if isinstance(i, Access) else affine(i) for i in a.indices)
        return a if are(indices, a.indices) else Access(a.buffer, indices)

    def leaf(old: Leaf) -> Expr:
        match old:
            case Const(int() as value) if constants:
                return index_value(new(Affine.constant(value)))
            case Const():
                return old
            case Index(value):
                mapped = affine(value)
                return old if mapped is value else index_value(mapped)
            case Access():
                return access(old)

    def expr(old: Expr) -> Expr:
        return map_leaves(old, leaf, normal=True)

    match node:
        case Statement(target, value=value):
            to, what = access(target), expr(value)
            return node if to is target and what is value else node.made_of(to, what)
        case Scope(extent, body):
            bounds = tuple(map(affine, extent.bounds))
            inner = tuple(map_indices(child, new, constants) for child in body)
            if are(bounds, extent.bounds):
                return with_body(node, inner)
            return Scope(Extent(bounds), inner, node.marks, node.label, node.loc, hints=node.hints)
        case Guard(conditions, body):
            sides = tuple(
                c if left is c.left and right is c.right else Condition(left, c.relation, right, c.loc)
                for c, left, right in ((c, affine(c.left), affine(c.right)) for c in conditions)
            )
            inner = tuple(map_indices(child, new, constants) for child in body)
            return with_body(node, inner) if are(sides, conditions) else Guard(sides, inner, node.loc)


def replace_read(expr: Expr, ordinal: int, value: Expr) -> Expr:
    """The expression with its read number `ordinal` replaced. That read must be a value, not an index."""
    position = -1

    def leaf(old: Leaf) -> Expr:
        nonlocal position
        if not isinstance(old, Access):
            return old
        position += len(list(old.accesses()))
        return value if position == ordinal else old

    return map_leaves(expr, leaf)
