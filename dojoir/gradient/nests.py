"""The statements of a gradient in nests of their own, each with the element that it sums on the outside."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Guard, Node, Scope, Statement, substitute, with_body
from dojoir.ir.rewriting.substitution import substitute_iterators


def sums_in_own_nests(node: Node) -> list[Node]:
    """A node with each statement of a nest that holds nothing but some independent sums in a nest of its own, and
    the scopes of each such nest in the order of its sum."""
    around: list[Scope | Guard] = []
    inner = node
    while not isinstance(inner, Statement) and len(inner.body) == 1:
        around.append(inner)
        inner = inner.body[0]
    if isinstance(inner, Statement):
        return [_in_order(around, inner)]
    around.append(inner)
    leaves = [child for child in inner.body if isinstance(child, Statement)]
    if len(leaves) == len(inner.body) and _are_sums(leaves):
        return [_in_order(around, leaf) for leaf in leaves]
    body = tuple(new for child in inner.body for new in _below(child))
    result: Node = with_body(inner, body)
    for outer in reversed(around[:-1]):
        result = with_body(outer, (result,))
    return [result]


def _below(node: Node) -> list[Node]:
    """The same inside of a scope: the order of scopes around stays."""
    if isinstance(node, Statement):
        return [node]
    leaves = _leaves(node)
    if leaves is not None and _are_sums(leaves):
        return [_with_leaf(node, leaf) for leaf in leaves]
    return [with_body(node, tuple(new for child in node.body for new in _below(child)))]


def _leaves(node: Node) -> list[Statement] | None:
    """The statements of a nest that has one scope or guard in another, and statements inside."""
    while not isinstance(node, Statement):
        if len(node.body) == 1:
            node = node.body[0]
            continue
        leaves = [child for child in node.body if isinstance(child, Statement)]
        return leaves if len(leaves) == len(node.body) else None
    return [node]


def _with_leaf(node: Node, leaf: Statement) -> Node:
    if isinstance(node, Statement):
        return leaf
    return with_body(node, (_with_leaf(node.body[0], leaf),)) if len(node.body) == 1 else with_body(node, (leaf,))


def _are_sums(leaves: list[Statement]) -> bool:
    """Whether each statement adds to a buffer that none of the others uses."""
    targets = [leaf.target.buffer for leaf in leaves]
    return (
        all(leaf.op == "+=" for leaf in leaves)
        and len(set(targets)) == len(targets)
        and not any(target in leaf.buffers_read for leaf in leaves for target in targets)
    )


def _in_order(around: list[Scope | Guard], leaf: Statement) -> Node:
    """The nest with the scopes of the target's indices outside, in their order: the order of a sum is free."""
    scopes = [node for node in around if isinstance(node, Scope)]
    wanted = [
        depth
        for index in leaf.target.indices
        for depth in range(len(scopes))
        if isinstance(index, Affine) and index == Affine.iterator(depth)
    ]
    rectangular = all(not bound.iterators for scope in scopes for bound in scope.extent.bounds)
    if leaf.op != "+=" or not rectangular or leaf.target.buffer in leaf.buffers_read:
        return _nest(around, leaf)
    order = [*dict.fromkeys(wanted), *(d for d in range(len(scopes)) if d not in wanted)]
    if order == sorted(order):
        return _nest(around, leaf)
    new = substitute_iterators({old: Affine.iterator(n) for n, old in enumerate(order)})
    guards = [c for node in around if isinstance(node, Guard) for c in node.conditions]
    ready: list[list[Guard]] = [[] for _ in range(len(order) + 1)]
    for condition in guards:
        depths = condition.left.iterators | condition.right.iterators
        place = max((order.index(depth) + 1 for depth in depths), default=0)
        ready[place].append(Guard((condition,), ()))
    nodes: list[Scope | Guard] = []
    for n in range(len(order) + 1):
        conditions = tuple(c for guard in ready[n] for c in guard.conditions)
        if conditions:
            nodes.append(Guard(conditions, ()))
        if n < len(order):
            nodes.append(Scope(scopes[order[n]].extent, ()))
    return substitute(_nest(nodes, leaf), new)


def _nest(around: list[Scope | Guard], leaf: Statement) -> Node:
    result: Node = leaf
    for node in reversed(around):
        result = Scope(node.extent, (result,)) if isinstance(node, Scope) else Guard(node.conditions, (result,))
    return result
