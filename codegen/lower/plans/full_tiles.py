"""Full tiles and cut ones: an extent such as `min(8, N - 8*{0})` is 8 everywhere but at the edge.

Where such a scope runs in lanes or is unrolled, the lowering asks once, outside of the loops around it, whether the
tile is full, and lowers what is there for both answers. The full tile then has no masks and no branches. In the
same way it asks whether a condition inside, such as one of a padding, holds for all elements of a full tile.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from dojoir.codegen.lower.plans.plan import fixed_lanes
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Condition, Guard, Node, Path, Scope, Statement
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
    """The check before the children of the node at `path`, which has `depth` scopes around it: for scopes inside
    those, except the ones in `decided`. `plans` are the scopes that run in lanes."""
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


@dataclass(frozen=True)
class InsideTile:
    """The guard at `guard` holds for a whole tile where all `least` are 0 or more."""

    guard: Path
    least: tuple[Affine, ...]


def inside(
    path: Path,
    nodes: tuple[Node, ...],
    depth: int,
    plans: Container[Path],
    full: Container[Path],
    decided: Container[Path],
) -> InsideTile | None:
    """The first guard below the node at `path`, but in `decided`, around which all scopes whose iterators it uses
    are tiles that are `full`, and what is to be asked about it outside of them."""
    for own, guard, tiles, level in _guards(path, nodes, depth, {}, 0, plans, full):
        lowest = [_lowest(e, depth, tiles) for condition in guard.conditions for e in _excesses(condition)]
        known = tuple(affine for affine in lowest if affine is not None)
        never = any(affine.is_constant and affine.offset < 0 for affine in known)
        if level and own not in decided and len(known) == len(lowest) and not never:
            return InsideTile(own, known)
    return None


def _guards(
    path: Path,
    nodes: tuple[Node, ...],
    depth: int,
    tiles: dict[int, int],
    level: int,
    plans: Container[Path],
    full: Container[Path],
) -> Iterator[tuple[Path, Guard, dict[int, int], int]]:
    """Every guard below, with how often the tiles around it run, by depth, and how many scopes are between."""
    for i, node in enumerate(nodes):
        own = (*path, i)
        if isinstance(node, Guard):
            yield own, node, tiles, level
            yield from _guards(own, node.body, depth, tiles, level, plans, full)
        elif isinstance(node, Scope):
            constant = fixed_lanes(node) if own in plans else node.constant_bound if "u" in node.marks else None
            whole = constant is not None and (node.extent.constant is not None or own in full)
            inner = {**tiles, depth: constant} if whole and constant is not None else tiles
            yield from _guards(own, node.body, depth + 1, inner, level + 1, plans, full)


def _excesses(condition: Condition) -> list[Affine]:
    """Expressions that are 0 or more, all of them, where a condition holds; one that never is for what has none."""
    difference = condition.left - condition.right
    match condition.relation:
        case ">=":
            return [difference]
        case ">":
            return [difference - 1]
        case "<=":
            return [-difference]
        case "<":
            return [-difference - 1]
        case "==":
            return [difference, -difference]
    return [Affine.constant(-1)]


def _lowest(affine: Affine, depth: int, tiles: Mapping[int, int]) -> Affine | None:
    """The least value of an expression while tiles run, whose iterators are of `depth` and more; None where others
    of these are in it, or they are divided."""
    result = Affine.constant(affine.offset)
    for atom, coefficient in affine.terms:
        if isinstance(atom, Iter) and atom.depth in tiles:
            result = result + min(coefficient, 0) * (tiles[atom.depth] - 1)
        elif any(d >= depth for d in Affine.atom(atom).iterators):
            return None
        else:
            result = result + Affine.atom(atom) * coefficient
    return result
