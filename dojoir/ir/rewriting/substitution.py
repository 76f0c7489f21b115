"""Sizes and iterators replaced by affine values, in expressions and in trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.expressions import Access, Const, Expr, Index, Leaf, are, index_value, map_leaves
from dojoir.ir.tree import Condition, Extent, Guard, Node, Scope, Statement
from dojoir.support.memo import Memo

Replace = Callable[[SizeVar | Iter], Affine]


def substitute_iterators(mapping: Mapping[int, Affine]) -> Replace:
    """A `Replace` that changes the iterators of some depths and leaves the rest."""

    def new(atom: SizeVar | Iter) -> Affine:
        found = mapping.get(atom.depth) if isinstance(atom, Iter) else None
        return Affine.atom(atom) if found is None else found

    return new


def fixed_sizes(sizes: Mapping[str, int]) -> Replace:
    """A `Replace` that gives some sizes their values and leaves the rest."""
    values = {name: Affine.constant(value) for name, value in sizes.items()}

    def new(atom: SizeVar | Iter) -> Affine:
        found = values.get(atom.name) if isinstance(atom, SizeVar) else None
        return Affine.atom(atom) if found is None else found

    return new


def substitute_access(access: Access, new: Replace) -> Access:
    indices = tuple(
        substitute_access(i, new) if isinstance(i, Access) else i.substitute(new) for i in access.indices
    )
    return access if are(indices, access.indices) else Access(access.buffer, indices, access.loc)


def substitute_expr(expr: Expr, new: Replace) -> Expr:
    def leaf(old: Leaf) -> Expr:
        match old:
            case Access():
                return substitute_access(old, new)
            case Index(affine):
                moved = affine.substitute(new)
                return old if moved is affine else index_value(moved)
            case Const():
                return old

    return map_leaves(expr, leaf, normal=True)


def substitute_condition(condition: Condition, new: Replace) -> Condition:
    left, right = condition.left.substitute(new), condition.right.substitute(new)
    if left is condition.left and right is condition.right:
        return condition
    return Condition(left, condition.relation, right, condition.loc)


def substitute_extent(extent: Extent, new: Replace) -> Extent:
    bounds = tuple(bound.substitute(new) for bound in extent.bounds)
    return extent if are(bounds, extent.bounds) else Extent(bounds, extent.loc)


def substitute(node: Node, new: Replace) -> Node:
    """The node with every size and iterator in it replaced; the very node where that changes nothing. Depths are
    absolute, so a caller that moves the node deeper or shallower replaces the iterators of the scopes inside it as
    well."""
    match node:
        case Statement():
            return _substituted(node, new)
        case Scope():
            extent = substitute_extent(node.extent, new)
            body = tuple(substitute(child, new) for child in node.body)
            if extent is node.extent and are(body, node.body):
                return node
            return Scope(extent, body, node.marks, node.label, node.loc, hints=node.hints)
        case Guard():
            conditions = tuple(substitute_condition(c, new) for c in node.conditions)
            body = tuple(substitute(child, new) for child in node.body)
            if are(conditions, node.conditions) and are(body, node.body):
                return node
            return Guard(conditions, body, node.loc)


def _substituted(statement: Statement, new: Replace) -> Statement:
    """The statement after the substitution of its atoms. A move and its proof ask the same: the answer is kept,
    with the statement that it was for, as an equal one may stand elsewhere in a text."""
    key = (statement, tuple([new(atom) for atom in statement.atoms]))
    found = _kept.get(key)
    if found is not None and found[0] is statement:
        return found[1]
    target, value = substitute_access(statement.target, new), substitute_expr(statement.value, new)
    same = target is statement.target and value is statement.value
    moved = statement if same else statement.made_of(target, value, statement.loc)
    return _kept.put(key, (statement, moved))[1]


_kept: Memo[tuple[Statement, tuple[Affine, ...]], tuple[Statement, Statement]] = Memo(16384, of_key=True)
