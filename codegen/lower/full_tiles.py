"""Full tiles and cut ones: an extent such as `min(8, N - 8*{0})` is 8 everywhere but at the edge.

Where such a scope runs in lanes or is unrolled, the lowering asks once, outside of the loops around it, whether the
tile is full, and lowers what is there for both answers: the full tile then has no masks and no branches.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from dojoir.codegen.lower.plan import fixed_lanes
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Node, Path, Scope, Statement
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Edge:
    """The scopes at `paths` run `full` times where all `bounds` are at least that, and less often elsewhere."""

    full: int
    bounds: tuple[Affine, ...]
    paths: frozenset[Path]


def edge(
    path: Path, nodes: tuple[Node, ...], depth: int, plans: Container[Path], decided: Container[Path]
) -> Edge | None:
    """What is to be asked first about the children of the node at `path`, which `depth` scopes are around: of those
    inside the scopes there, but not in `decided`. `plans` are the scopes that run in lanes."""
    found: dict[tuple[int, tuple[Affine, ...]], set[Path]] = {}
    worth: list[tuple[int, tuple[Affine, ...]]] = []
    for own, scope, level in _scopes(path, nodes, 0):
        constant = fixed_lanes(scope) if own in plans else scope.constant_bound if "u" in scope.marks else None
        bounds = tuple(bound for bound in scope.extent.bounds if not bound.is_constant)
        known = all(d < depth for bound in bounds for d in bound.iterators)
        if constant is not None and bounds and known and own not in decided:
            key = (constant, bounds)
            found.setdefault(key, set()).add(own)
            if level:
                worth.append(key)
    return Edge(*worth[0], frozenset(found[worth[0]])) if worth else None


def _scopes(path: Path, nodes: tuple[Node, ...], level: int) -> Iterator[tuple[Path, Scope, int]]:
    """Every scope below, with how many scopes are between."""
    for i, node in enumerate(nodes):
        own = (*path, i)
        if isinstance(node, Scope):
            yield own, node, level
        if not isinstance(node, Statement):
            yield from _scopes(own, node.body, level + isinstance(node, Scope))
