"""Residue classes: a nest for each rest that a condition on a rest lets through.

A transposed convolution of stride s, written as a sum over what falls on each result, asks `(h - p) % s == 0` of
each term. In one residue of `h` and `p` that is always so or never, and what is left is a convolution of stride 1.

Source: W. Shi et al., "Is the deconvolution layer the same as a convolutional layer?" (2016), on the sub-pixel
form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import gcd, prod

from dojoir.ir.affine import Affine, Iter, Mod
from dojoir.ir.nodes import Condition, Guard, Kernel, Node, Path, Scope, Site, Statement, holds
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.cyclic import SplitCyclic
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.guards import DropCondition, RemoveGuard
from dojoir.passes.loops.once import RemoveScope
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.forms.plain import MOST_RESIDUES, guards_inside
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.sets.ranges import without_divisions
from dojoir.support.frozen import dataclass

MOST_NESTS = 16
"""How many nests one may become."""


@dataclass(frozen=True)
class Rest:
    """A condition on a rest around a statement: the scopes that it depends on, by depth, each with the number of
    its residues between which the condition differs."""

    guard: Path
    scopes: tuple[tuple[int, int], ...]


def split_residues(trace: Trace) -> bool:
    """Gives each nest with a condition `(e) % s == 0` one nest for each residue of the scopes that `e` depends on,
    as long as they are few. Conditions that always hold then, and nodes that never run, go. Returns whether there
    was one."""
    if next(_rests(trace.kernel), None) is None:
        return False
    guards_inside(trace)  # so that one guard has the conditions on all scopes
    before = len(trace.moves)
    for _ in range(len(trace.kernel.sites)):
        rest = next(_rests(trace.kernel), None)
        if rest is None or not tried(trace, partial(_split, rest=rest)):
            break
    return len(trace.moves) > before


def _rests(kernel: Kernel) -> Iterator[Rest]:
    for site in kernel.sites:
        if any(scope.marks or scope.hints for scope in site.scopes):
            continue
        for level, node in enumerate(site.ancestors):
            if isinstance(node, Guard):
                found = _residues(node)
                few = all(1 < count <= MOST_RESIDUES for count in found.values())
                nests = prod(count for depth, count in found.items() if depends(site.statement.target, depth))
                if found and few and nests <= MOST_NESTS:
                    yield Rest(site.path[:level], tuple(sorted(found.items())))


def _residues(guard: Guard) -> dict[int, int]:
    """For the conditions of a guard that a rest is a number: the depths of the iterators in it, and in how many
    residues they differ."""
    found: dict[int, int] = {}
    for condition in guard.conditions:
        if rest := _rest_of(condition):
            for atom, coefficient in rest.numerator.terms:
                if isinstance(atom, Iter) and coefficient % rest.divisor:
                    count = rest.divisor // gcd(coefficient, rest.divisor)
                    found[atom.depth] = max(found.get(atom.depth, 1), count)
    return found


def _rest_of(condition: Condition) -> Mod | None:
    """The rest that a condition compares with a constant, where it is a sum of iterators and sizes that is
    divided."""
    if condition.relation != "==" or not condition.right.is_constant or len(condition.left.terms) != 1:
        return None
    ((atom, coefficient),) = condition.left.terms
    plain = isinstance(atom, Mod) and coefficient == 1
    return atom if plain and isinstance(atom, Mod) and not atom.numerator.divided else None


def _split(trace: Trace, rest: Rest) -> None:
    """Splits the scopes, brings the residues of the result outermost, lets the residue of what is summed over
    follow from them, and writes out those that a condition still depends on. Raises DojoError where a move is
    refused."""
    number = next(n for n, site in enumerate(trace.kernel.sites) if is_inside(site.path, rest.guard))
    split_outermost(trace, number, rest.scopes)
    while fixed := _first_fixed(trace.kernel):
        site, path, value = fixed
        residues = _residue_in(site, value)
        if residues is None:
            _fix(trace, path, value)
        else:
            write_out(trace, residues)
    while (left := _to_write_out(trace.kernel)) is not None:
        write_out(trace, left)


def split_outermost(trace: Trace, number: int, scopes: Sequence[tuple[int, int]]) -> list[Path]:
    """Splits the scopes around a statement, by depth, into so many residues each, and brings these as far out as
    they may stand. Returns where they are, the first in the text first. Raises DojoError where a split is
    refused."""
    found: list[Spot] = []
    for depth, count in reversed(scopes):
        act(trace, SplitCyclic, spot(trace, trace.kernel.sites[number].scope_paths[depth]), count)
    for outer, (depth, _) in enumerate(scopes):  # each of these has put one more scope outside of the next
        path = trace.kernel.sites[number].scope_paths[depth + outer]
        while _is_alone(trace.kernel, path) and tried(trace, SwapScopes(place_of(path[:-1]))):
            path = path[:-1]
        found.append(spot(trace, path))
    return sorted(residue.path for residue in found)


def _first_fixed(kernel: Kernel) -> tuple[Site, Path, Affine] | None:
    """The first statement for which something is fixed, with what."""
    return next(((site, *fixed) for site in kernel.sites if (fixed := _fixed(site))), None)


def _residue_in(site: Site, value: Affine) -> Path | None:
    """The innermost scope over residues that a rest or a quotient in `value` is of: only numbers for it tell which
    conditions hold."""
    depths = [depth for depth in value.divided if site.scopes[depth].extent.constant in range(2, MOST_RESIDUES + 1)]
    return site.scope_paths[max(depths)] if depths else None


def _fixed(site: Site) -> tuple[Path, Affine] | None:
    """The innermost scope around a statement that it sums over and of which a condition on a rest lets one
    iteration through, with that iteration. It has no rests but of residues: others are still to be split."""
    conditions = [c for node in site.ancestors if isinstance(node, Guard) for c in node.conditions]
    for depth in reversed(range(len(site.scopes))):
        count = site.scopes[depth].extent.constant
        for condition in conditions if not depends(site.statement.target, depth) else ():
            rest = _rest_of(condition)
            own = rest.numerator.coefficient(Iter(depth)) if rest is not None else 0
            if rest is not None and rest.divisor == count and gcd(own, count) == 1:
                others = condition.right - rest.numerator + Affine.iterator(depth) * own
                if all(d < depth for d in others.iterators):
                    value = _least(others * pow(own, -1, count), count) % count
                    value = without_divisions(value, site.scopes[:depth])
                    if all(site.scopes[d].extent.constant in range(2, MOST_RESIDUES + 1) for d in value.divided):
                        return site.scope_paths[depth], value
    return None


def _least(affine: Affine, divisor: int) -> Affine:
    """The same rest with factors below the divisor."""
    found = Affine.constant(affine.offset % divisor)
    for atom, coefficient in affine.terms:
        found = found + Affine.atom(atom) * (coefficient % divisor)
    return found


def _fix(trace: Trace, path: Path, value: Affine) -> None:
    """Leaves one iteration of a scope, where no other does anything."""
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope) and scope.extent.constant is not None
    first = value != Affine.constant(0)
    if first:
        act(trace, Cut, spot(trace, path), value)
    own = spot(trace, path).beside(int(first))
    if value != Affine.constant(scope.extent.constant - 1):
        act(trace, Cut, own, Affine.constant(1))
        own = spot(trace, path).beside(int(first))
        act(trace, DeleteNode, own.beside(1))
    if first:
        act(trace, DeleteNode, own.beside(-1))
    act(trace, RemoveScope, own)
    _settle(trace, path)


def _is_alone(kernel: Kernel, path: Path) -> bool:
    """Whether the node at a path is the only child of a scope."""
    around = kernel.at(path[:-1]) if len(path) > 1 else None
    return isinstance(around, Scope) and len(around.body) == 1 and not around.marks


def _to_write_out(kernel: Kernel) -> Path | None:
    """The outermost scope over residues that a condition on a rest depends on, the last in the text."""
    found: list[Path] = []
    for path, node in kernel.walk():
        if isinstance(node, Scope) and node.extent.constant is not None and node.extent.constant <= MOST_RESIDUES:
            depth = kernel.depth_of(path)
            guards = (n for p, n in kernel.walk() if isinstance(n, Guard) and is_inside(p, path))
            if any(depth in _residues(guard) for guard in guards):
                found.append(path)
    shallow = min(map(len, found), default=0)
    return next((path for path in reversed(found) if len(path) == shallow), None)


def write_out_extents(trace: Trace) -> None:
    """Writes the scopes over residues out that the extent of a scope inside depends on."""
    while (path := _bounding(trace.kernel)) is not None:
        write_out(trace, path)
    settle_extents(trace)


def settle_extents(trace: Trace) -> None:
    """Writes the least of several numbers that are the bounds of a scope in their place."""
    scopes = [(path, node) for path, node in trace.kernel.walk() if isinstance(node, Scope)]
    for path, scope in scopes:
        if len(scope.extent.bounds) > 1 and all(bound.is_constant for bound in scope.extent.bounds):
            act(trace, SetExtent, spot(trace, path), Affine.constant(scope.constant_bound or 0))


def _bounding(kernel: Kernel) -> Path | None:
    """The first scope over residues that the extent of a scope inside depends on."""
    for site in kernel.sites:
        for depth, scope in enumerate(site.scopes):
            bounds = [bound for inner in site.scopes[depth + 1 :] for bound in inner.extent.bounds]
            few = 1 < (scope.extent.constant or 0) <= MOST_RESIDUES
            if few and not scope.marks and any(depth in bound.iterators for bound in bounds):
                return site.scope_paths[depth]
    return None


def write_out(trace: Trace, path: Path) -> None:
    """Writes the iterations of a scope out, one after the other, without what never runs in each."""
    rest = spot(trace, path)
    count, width = rest.scope.extent.constant or 1, len(rest.body)
    for _ in range(count - 1):
        act(trace, Peel, rest)
    act(trace, RemoveScope, rest)
    first = spot(trace, path)
    for k in reversed(range(count * width)):
        _settle(trace, first.beside(k).path)


def _settle(trace: Trace, path: Path) -> None:
    """Takes away the conditions in a node that are decided, and what never runs."""
    guards = [p for p, node in trace.kernel.walk() if isinstance(node, Guard) and is_inside(p, path)]
    for at in reversed(guards):
        guard = trace.kernel.at(at)
        assert isinstance(guard, Guard)
        decided = [n for n, c in enumerate(guard.conditions) if c.left.is_constant and c.right.is_constant]
        if not all(holds(guard.conditions[n], {}, ()) for n in decided):
            while len(at) > 1 and len(_body(trace.kernel, at[:-1])) == 1:
                at = at[:-1]
            act(trace, DeleteNode, spot(trace, at))
        elif len(decided) == len(guard.conditions):
            act(trace, RemoveGuard, spot(trace, at))
        else:
            for n in reversed(decided):
                act(trace, DropCondition, spot(trace, at), n)


def _body(kernel: Kernel, path: Path) -> tuple[Node, ...]:
    node = kernel.at(path)
    return () if isinstance(node, Statement) else node.body
