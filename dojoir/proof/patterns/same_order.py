"""Recognises loops that were rewritten without reordering anything: split, cut, peeled, shifted, collapsed, …

The theorem. If two trees run the same sequence of statement instances, each on the same elements, they mean the
same, and the one is well-formed if the other is. Marks are another question.

How it is seen. `alike` walks both trees together and keeps, for each iterator of the old tree, its value in the
iterators of the new one. A statement must be the old one with these values put in. A scope runs its body for all i
from 0 that are below each bound E, in ascending order. The new tree may count through that range in any of these
ways, each a rule of `_Match._ways`:

- as it is: by a scope of the same extent, or of one that is shown to be equal;
- in blocks of f (`split`): i = f*o + r for 0 <= r < f. Lexicographic order of (o, r) is order of i. The blocks o
  end with the one that holds E - 1, and where E is no multiple of f, r < E - f*o ends the last one;
- in two ranges (`cut`): first 0 <= i < min(E, at), then i = at + j for 0 <= j < E - at, with at >= 0;
- the first iteration by itself (`peel`): i = 0, then i = 1 + j for 0 <= j < E - 1, with E >= 1;
- later (`shift`): i = j - by for by <= j < E + by, with by >= 0, or back;
- in a window (`skew`): i = j - by for those j of a range that holds them all with by <= j < E + by, by >= 0;
- by its body alone, if it runs once (`once`): i = 0;
- a scope and its only child of constant extent c in one (`collapse`): c*i + j enumerates the pairs (i, j) in order.

Conditions between two numbers may come and go (`drop_condition`, `remove_guard`): one that holds changes nothing,
and what stands under one that does not hold never runs, so that it may be left out (`delete_node`).

Where rounding is free (no `fp strict`), a product that is added may become an `fma`, or an accumulation a fused
one, or back.

Only bounds are asked of isl, and only where the text does not show them. That a shift is not negative, that a range
is not cut beyond its end, that a peeled scope runs, that two extents are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import children
from dojoir.ir.nodes import (
    Condition,
    Expr,
    Extent,
    Guard,
    Kernel,
    Node,
    Op,
    Replace,
    Scope,
    Statement,
    holds,
    substitute,
    substitute_condition,
    substitute_extent,
    substitute_iterators,
)
from dojoir.ir.rewriting.rewrite import map_indices
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.difference import Change
from dojoir.sets.kernel_sets import KernelSets, isl_extent, iterators, sets_of
from dojoir.sets.ranges import without_divisions
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass
from dojoir.support.memo import charge
from dojoir.types.fma import fuse_alike, may_fuse

STEPS = 32
"""The steps charged for comparing one node with another."""

ZERO = Affine.constant(0)
ONE = Affine.constant(1)

NEVER = Condition(Affine.constant(1), "<=", Affine.constant(0))
"""A condition that holds for no iteration."""


def alike(
    sets: KernelSets, around: tuple[Scope | Guard, ...], old: Sequence[Node], new: Sequence[Node], first: int
) -> list[Origin] | None:
    """For each statement of `new`, which instance of which statement of `old` it runs, if the two lists of nodes,
    both inside `around`, run the same sequence of instances. None says nothing.

    `sets` are those of the kernel, asked for bounds and facts; `first` is the number of the first statement of
    `old`.
    """
    depth = sum(isinstance(node, Scope) for node in around)
    match = _Match(sets, [])
    place = _Place(around, tuple(map(Affine.iterator, range(depth))))
    return match.origins if match.nodes(tuple(old), tuple(new), first, place) else None


def _operations(expr: Expr) -> tuple[object, ...]:
    """The operations of an expression on its leaves, in order."""
    inside = tuple(map(_operations, children(expr)))
    return (expr.name if isinstance(expr, Op) else type(expr).__name__, *inside) if inside else ()


@dataclass(frozen=True)
class _Place:
    """The context of a piece of the new tree: the nodes around it, and each iterator around the piece of the old
    tree in terms of its iterators."""

    around: tuple[Scope | Guard, ...]
    values: tuple[Affine, ...]

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        return tuple(node for node in self.around if isinstance(node, Scope))

    @property
    def depth(self) -> int:
        return len(self.scopes)

    @property
    def own(self) -> Affine:
        """The iterator of a scope that stands here."""
        return Affine.iterator(self.depth)

    @cached_property
    def replace(self) -> Replace:
        return substitute_iterators(dict(enumerate(self.values)))

    def inside(self, *new: Scope | Guard, value: Affine | None = None) -> _Place:
        values = self.values if value is None else (*self.values, value)
        return _Place((*self.around, *new), values)


@dataclass
class _Match:
    sets: KernelSets
    origins: list[Origin]

    # -- lists of nodes ----------------------------------------------------------------------------------
    def nodes(self, old: tuple[Node, ...], new: tuple[Node, ...], first: int, place: _Place) -> bool:
        """Whether the nodes of `new` run what those of `old` do. The statements of `old` are numbered from
        `first`; what those of `new` stand for is added to `origins`."""
        if not old:
            return not new
        head, rest, kept = old[0], old[1:], len(self.origins)
        following = first + count_statements(head)
        for taken in self._ways(head, new, first, place) if new else ():
            if self.nodes(rest, new[taken:], following, place):
                return True
        if never_runs(head):
            del self.origins[kept:]
            return self.nodes(rest, new, following, place)
        return False

    def _ways(self, old: Node, new: tuple[Node, ...], first: int, place: _Place) -> Sequence[int]:
        """The possible numbers of nodes at the head of `new` that together stand for the node `old`: one number,
        or none."""
        charge(STEPS)
        kept = len(self.origins)
        match old:
            case Statement():
                if self._same_statement(substitute(old, place.replace), new[0], place):
                    self.origins.append(Origin(first, place.values))
                    return (1,)
            case Guard(conditions, body):
                moved = tuple(substitute_condition(c, place.replace) for c in conditions)
                head = new[0]
                open_ones = undecided(moved)
                if isinstance(head, Guard) and undecided(head.conditions) == open_ones:
                    return (1,) if self.nodes(body, head.body, first, place.inside(head)) else ()
                if not open_ones:
                    return (len(body),) if self.nodes(body, new[: len(body)], first, place) else ()
            case Scope():
                bounds = substitute_extent(old.extent, place.replace).bounds
                for rule in (self._same, self._blocks, self._ranges, self._peeled, self._shifted,
                             self._windowed, self._collapsed, self._once, self._equal):  # fmt: skip
                    taken = rule(old, bounds, new, first, place)
                    if taken:
                        return (taken,)
                    del self.origins[kept:]
        return ()

    # -- ways to run a scope: each gives the number of nodes that it takes, 0 if it is not the one ------------
    def _same(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        match new[0]:
            case Scope(extent, body) if extent.bounds == bounds:
                return int(self.nodes(old.body, body, first, place.inside(new[0], value=place.own)))
        return 0

    def _blocks(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        match new[0]:
            case Scope(outer, (Scope(inner, body) as child,)) if inner.bounds[0].is_constant:
                factor = inner.bounds[0].offset
                if factor < 1 or len(outer.bounds) != len(bounds):
                    return 0
                ends = set(inner.bounds[1:])
                for bound, blocks in zip(bounds, outer.bounds, strict=True):
                    end = bound - place.own * factor
                    if end in inner.bounds[1:]:
                        ends.discard(end)
                        if blocks != (bound + (factor - 1)) // factor:
                            return 0
                    elif blocks != bound // factor or not self._divides(bound, factor):
                        return 0
                value = place.own * factor + Affine.iterator(place.depth + 1)
                return int(not ends and self.nodes(old.body, body, first, place.inside(new[0], child, value=value)))
        return 0

    def _ranges(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        match new[:2]:
            case (Scope(low, body), Scope(high, rest)) if len(high.bounds) == len(bounds):
                at = bounds[0] - high.bounds[0]
                if high.bounds != tuple(bound - at for bound in bounds) or not self._nonnegative(at, place):
                    return 0
                inside = low.bounds == (at,) and all(self._nonnegative(bound - at, place) for bound in bounds)
                if not inside and low.bounds != (*bounds, at):
                    return 0
                halves = (body, place.own, new[0]), (rest, place.own + at, new[1])
                return 2 * all(
                    self.nodes(old.body, part, first, place.inside(scope, value=value))
                    for part, value, scope in halves
                    if isinstance(scope, Scope)
                )
        return 0

    def _peeled(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        count = len(old.body)
        rest = new[count] if len(new) > count else None
        if not isinstance(rest, Scope) or rest.extent.bounds != tuple(bound - 1 for bound in bounds):
            return 0
        runs = all(self._nonnegative(bound - 1, place) for bound in bounds)
        alone = runs and self.nodes(old.body, new[:count], first, replace(place, values=(*place.values, ZERO)))
        later = alone and self.nodes(old.body, rest.body, first, place.inside(rest, value=place.own + 1))
        return count + 1 if later else 0

    def _shifted(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        scope = new[0]
        if not isinstance(scope, Scope) or len(scope.extent.bounds) != len(bounds):
            return 0
        by = scope.extent.bounds[0] - bounds[0]
        if scope.extent.bounds != tuple(bound + by for bound in bounds):
            return 0
        inside = place.inside(scope, value=place.own - by)
        match scope.body:
            case (Guard((guard,), body) as node,) if guard == Condition(place.own, ">=", by):
                return int(self._nonnegative(by, place) and self.nodes(old.body, body, first, inside.inside(node)))
        match old.body:
            case (Guard((guard,), body),):
                before = replace(inside, values=(*place.values, place.own)).replace
                if substitute_condition(guard, before) == Condition(place.own, ">=", -by):
                    return int(self._nonnegative(-by, place) and self.nodes(body, scope.body, first, inside))
        return 0

    def _windowed(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        match new[0]:
            case Scope(extent, (Guard((begin, *ends), body) as node,)) as scope:
                by = begin.right
                window = [Condition(place.own, "<", bound + by) for bound in bounds]
                if begin != Condition(place.own, ">=", by) or ends != window:
                    return 0
                if any(place.depth in condition.right.iterators for condition in node.conditions):
                    return 0
                reached = self._nonnegative(by, place) and all(
                    any(self._nonnegative(end - bound - by, place) for bound in bounds) for end in extent.bounds
                )
                inside = place.inside(scope, node, value=place.own - by)
                return int(reached and self.nodes(old.body, body, first, inside))
        return 0

    def _collapsed(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        match old.body, new[0]:
            case (Scope() as child,), Scope(extent, body):
                inner = child.extent.constant
                if inner is None or inner < 1 or extent.bounds != tuple(bound * inner for bound in bounds):
                    return 0
                values = (*place.values, place.own // inner, place.own % inner)
                inside = _Place((*place.around, new[0]), values)
                return int(self.nodes(child.body, body, first, inside))
        return 0

    def _once(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        count = len(old.body)
        if bounds != (ONE,) or len(new) < count:
            return 0
        alone = replace(place, values=(*place.values, ZERO))
        return count if self.nodes(old.body, new[:count], first, alone) else 0

    def _equal(
        self, old: Scope, bounds: tuple[Affine, ...], new: tuple[Node, ...], first: int, place: _Place
    ) -> int:
        match new[0]:
            case Scope(extent, body) if extent.bounds != bounds:
                if self.nodes(old.body, body, first, place.inside(new[0], value=place.own)):
                    return int(self._same_range(Extent(bounds), extent, place))
        return 0

    # -- what is asked of statements and affine expressions ------------------------------------------------
    def _same_statement(self, old: Node, new: Node, place: _Place) -> bool:
        """Whether two statements are the same, but for divisions that the scopes around decide."""

        def plain(affine: Affine) -> Affine:
            return without_divisions(affine, place.scopes)

        if old == new:
            return True
        if not isinstance(old, Statement) or not isinstance(new, Statement):
            return False
        one, other = map_indices(old, plain), map_indices(new, plain)
        if one == other:  # also where what a division leaves makes other operations the same number
            return _operations(old.value) == _operations(new.value)
        return self._differ_in_rounding(one, other)

    def _differ_in_rounding(self, old: Node, new: Node) -> bool:
        """Whether two statements do the same but for products that one of them adds without rounding them first,
        and that is free here."""
        if self.sets.kernel.fp == "strict" or not isinstance(old, Statement) or not isinstance(new, Statement):
            return False
        buffers = {buffer.name: buffer for buffer in self.sets.kernel.buffers}
        if (old.target, old.commuting, old.accumulation) != (new.target, new.commuting, new.accumulation):
            return False
        if old.fused != new.fused:
            return old.term == new.term and may_fuse(old, buffers)
        return fuse_alike(old.term, new.term, buffers)

    def _divides(self, bound: Affine, factor: int) -> bool:
        rest = bound % factor
        return rest == ZERO or (not rest.iterators and self.sets.always(Condition(rest, "==", ZERO)))

    def _nonnegative(self, affine: Affine, place: _Place) -> bool:
        """Whether an expression in the iterators around a place is at least 0 whenever something there runs."""
        return self.sets.implies(place.around, Condition(affine, ">=", ZERO))

    def _same_range(self, left: Extent, right: Extent, place: _Place) -> bool:
        """Whether two extents end at the same iteration whenever a scope at a place runs, or both at none."""
        where, depth = self.sets.constraints(place.around), place.depth
        one, other = (isl_extent(extent, depth) for extent in (left, right))
        dims = iterators(depth + 1)
        return all(
            self.sets.is_empty(f"[{dims}] -> [] : {where} and {a} and not ({b})")
            for a, b in ((one, other), (other, one))
        )


def undecided(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions without those between two numbers that hold."""
    return tuple(c for c in conditions if not (c.left.is_constant and c.right.is_constant and holds(c, {}, ())))


def never_runs(node: Node) -> bool:
    """Whether the whole node is under a condition between two numbers that is false."""
    match node:
        case Guard(conditions, body):
            decided = (c for c in conditions if c.left.is_constant and c.right.is_constant)
            return any(not holds(c, {}, ()) for c in decided) or all(map(never_runs, body))
        case Scope(_, body):
            return all(map(never_runs, body))
    return False


def count_statements(node: Node) -> int:
    """The number of statements in a tree."""
    return 1 if isinstance(node, Statement) else sum(map(count_statements, node.body))


def never_ran(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether all that changed is that some nodes are gone, beside others that stay, and no statement in them
    runs, by the extents and conditions around each. What is left is the same text around them, and each statement
    there stands for itself: all instances run in the order in which they ran, and each read gets what it got. The
    kernel after is well-formed where the one before is: every access and every scope of it was there."""
    beside = change.around[-1].body if change.around else before.body
    if change.new or len(beside) == len(change.old):
        return False
    sets = sets_of(before)
    return all(sets.implies(before.sites[k].ancestors, NEVER) for k in change.were)
