"""Products of matrices in nests of their own, where a gradient has them among other statements.

The statements of a nest run backwards together. Where some of them sum as a product does, each is put into scopes
of its own if the iterations of the scopes around allow it: what two of them share is an element of the iteration,
or a sum to which both add. As nests of products they are scheduled as such.
"""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Access, Expr, Op
from dojoir.ir.nodes import Guard, Node, Scope, Site, Statement, with_body


def distributed(node: Node) -> list[Node]:
    """A node as several in order, where it holds a product of matrices beside other statements and all of its
    scopes are rectangular; else itself."""
    if isinstance(node, Statement):
        return [node]
    sites = list(node.inner)
    products = frozenset(site.statement for site in sites if _is_product(site))
    if len(sites) < 2 or not products:
        return [node]
    scopes = [scope for site in sites for scope in site.scopes]
    if any(bound.iterators for scope in scopes for bound in scope.extent.bounds):
        return [node]
    return _parts(node, 0, products)


def _is_product(site: Site) -> bool:
    """Whether a statement sums products of elements of which each has an iterator that the other has not."""
    statement = site.statement
    if statement.op != "+=" or len(site.scopes) < 3:
        return False
    target = _iterators(statement.target)
    factors = [factor for factor in _factors(statement.value) if isinstance(factor, Access)]
    for n, one in enumerate(factors):
        for other in factors[n + 1 :]:
            left, right = _iterators(one), _iterators(other)
            if left - right and right - left and (left & right) - target:
                return True
    return False


def _factors(value: Expr) -> list[Expr]:
    match value:
        case Op("mul", (left, right)):
            return [*_factors(left), *_factors(right)]
        case Op("neg", (of,)):
            return _factors(of)
        case _:
            return [value]


def _iterators(access: Access) -> set[int]:
    return {depth for index in access.indices if isinstance(index, Affine) for depth in index.iterators}


def _parts(node: Node, depth: int, products: frozenset[Statement]) -> list[Node]:
    """The node, whose scope has the iterator `depth`, as several: what is no product stays together."""
    match node:
        case Statement():
            return [node]
        case Guard():
            return [with_body(node, (part,)) for child in node.body for part in _parts(child, depth, products)]
        case Scope():
            body = [part for child in node.body for part in _parts(child, depth + 1, products)]
    groups: list[list[Node]] = [[]]
    for n, part in enumerate(body):
        beside = products.intersection(_statements([*groups[-1], part]))
        if groups[-1] and beside and _are_free(body[:n], body[n:], depth):
            groups.append([])
        groups[-1].append(part)
    return [with_body(node, tuple(group)) for group in groups]


def _are_free(before: Sequence[Node], after: Sequence[Node], depth: int) -> bool:
    """Whether all iterations of the first nodes may run before those of the others."""
    first, second = _statements(before), _statements(after)
    written = {s.target.buffer for s in (*first, *second)}
    shared = set().union(*(s.buffers for s in first)) & set().union(*(s.buffers for s in second)) & written
    return all(_is_apart(buffer, [*first, *second], depth) for buffer in shared)


def _is_apart(buffer: str, statements: Sequence[Statement], depth: int) -> bool:
    users = [s for s in statements if buffer in s.buffers]
    if all(s.op == "+=" and s.target.buffer == buffer and buffer not in s.buffers_read for s in users):
        return True
    accesses = [a for s in users for a in s.accesses if a.buffer == buffer]
    own = Affine.iterator(depth)
    return any(all(a.indices[d] == own for a in accesses) for d in range(len(accesses[0].indices)))


def _statements(nodes: Sequence[Node]) -> list[Statement]:
    found: list[Statement] = []
    for node in nodes:
        found += [node] if isinstance(node, Statement) else [site.statement for site in node.inner]
    return found
