"""Rules of algebra held against a tree: what the parts of a rule stand for in it.

A rule is two kernels. In either,

- an `in` buffer stands for any expression: `x: f32[M]`, always read at iterators of the rule as in `x[{0}]`, for
  one in which that iterator may occur; a scalar for one that is the same in all iterations of the rule;
- an `out` buffer stands for elements of an array;
- a `tmp` of both sides is scratch: elements of a temporary that nothing outside uses;
- a `tmp` of the right side alone is a new temporary: a scalar, or one with an element for each iteration of
  scopes of the rule, whose extents then are the same in all iterations around it;
- a size stands for an extent. It may depend on the iterators of those scopes that are around it wherever it is
  used, and on none if a statement uses it as a number;
- f32 stands for the float type in which the arrays of the rule compute; in a rule under `fp reassoc` for the
  integer type that they all have as well.

The header of both sides says what the rule may do to floating point: `fp fast` that it is algebra, `fp reassoc`
that each result is put together of the same elements, in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.dtypes import DType
from dojoir.ir.expressions import Leaf, map_leaves, parts
from dojoir.ir.nodes import (
    Access,
    Const,
    Expr,
    Extent,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Path,
    Replace,
    Scope,
    Statement,
    affine_parts,
    index_value,
    substitute_access,
    substitute_expr,
)
from dojoir.ir.places import siblings
from dojoir.rules.operators import SUM, Operator
from dojoir.support.frozen import dataclass

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Rule:
    """`left` may become `right`, and the other way round: they mean the same over the real numbers."""

    name: str
    left: Kernel
    right: Kernel
    operator: Operator = SUM
    """The operator of its accumulation."""

    @property
    def fp(self) -> str:
        """The floating-point mode that the rule needs: a kernel must allow as much."""
        return self.left.fp

    def fits(self, fp: str, dtype: DType | None = None) -> bool:
        """Whether the rule may be used in a kernel of a mode; or, where its arrays are all of type `dtype`, there.
        What does not round, as integers, maxima and minima do not, is the same in any order."""
        exact = dtype is not None and (dtype.is_integer or (self.operator.is_repeatable and dtype.bits >= 32))
        return fp in {self.fp, "fast"} or (self.fp == "reassoc" and exact)

    @cached_property
    def adds(self) -> bool:
        """Whether the left side accumulates: a rule under `fp reassoc` is then held, at each use, to accumulate the
        same elements. One that does not puts maps together, as `s = a * s + x` does: it is true as algebra is."""
        return any(site.statement.accumulation is not None for site in self.left.sites)

    @cached_property
    def is_step(self) -> bool:
        """Whether it is of one statement that goes on from what an element had, and brings it into another form."""
        return any(buffer.role == "inout" for buffer in self.left.arguments)

    @cached_property
    def terms(self) -> frozenset[str]:
        """The inputs that are accumulated as they are and used for nothing else: what one stands for may be under
        a condition, `x if c`."""
        used = [site.statement for side in (self.left, self.right) for site in side.sites]
        whole = {s.value.buffer for s in used if s.accumulation and isinstance(s.value, Access)}
        return frozenset(whole - {a.buffer for s in used if not s.accumulation for a in s.reads})

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names that stand for an expression."""
        return tuple(b.name for b in self.left.arguments if b.role == "in")

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The names that stand for elements that both sides compute."""
        return tuple(b.name for b in self.left.arguments if b.role != "in")

    @cached_property
    def scratch(self) -> tuple[str, ...]:
        """The temporaries of both sides."""
        return tuple(b.name for b in self.left.buffers if b.role == "tmp")

    @cached_property
    def fresh(self) -> tuple[str, ...]:
        """The temporaries of the right side alone, in declared order."""
        return tuple(b.name for b in self.right.buffers if b.role == "tmp" and b.name not in self.scratch)

    def new_element(self, name: str, buffer: str, depth: int) -> Access:
        """The meaning of a new temporary of the rule below `depth` scopes: elements of a new buffer."""
        return Access(buffer, tuple(Affine.iterator(depth + d) for d in range(len(self.right.buffer(name).dims))))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The sizes that statements use as numbers."""
        used = (a for side in (self.left, self.right) for s in side.sites for a in _index_values(s.statement.value))
        return frozenset(name for affine in used for name in affine.sizes)

    @cached_property
    def reach(self) -> dict[str, int]:
        """For each size, how many scopes are the same around all its uses: it may depend on their iterators."""
        around: dict[str, list[tuple[Extent, ...]]] = {}
        for side in (self.left, self.right):
            for site in side.sites:
                extents = tuple(scope.extent for scope in site.scopes)
                for depth, extent in enumerate(extents):
                    around.setdefault(str(extent.bounds[0]), []).append(extents[:depth])
        return {name: 0 if name in self.numbers else _agreement(uses) for name, uses in around.items()}


@dataclass(frozen=True)
class RuleMatch:
    """The bindings of a rule's names at a place below `depth` scopes. An expression or access is written for the
    iterators {depth}, {depth + 1}, … as the indices of its buffer in the rule, an extent for them as the iterators
    of the scopes around it."""

    depth: int
    sizes: tuple[tuple[str, Extent], ...]
    inputs: tuple[tuple[str, Expr], ...]
    elements: tuple[tuple[str, Access], ...]

    def nodes(self, side: Kernel, labels: Mapping[str, str] | None = None) -> tuple[Node, ...]:
        """The nodes that one side of the rule stands for. Raises KeyError for a part without meaning here."""
        return _Instance(self, labels or {}).nodes(side.body)

    @cached_property
    def size(self) -> dict[str, Extent]:
        return dict(self.sizes)

    @cached_property
    def expression(self) -> dict[str, Expr]:
        return dict(self.inputs)

    @cached_property
    def element(self) -> dict[str, Access]:
        return dict(self.elements)


@dataclass(frozen=True)
class RuleUse:
    """A rule used at a place: its left side begins at the node at `path` and becomes its right side."""

    rule: str
    path: Path
    match: RuleMatch


class _Instance:
    """One side of a rule with everything put in for its parts."""

    def __init__(self, match: RuleMatch, labels: Mapping[str, str]) -> None:
        self.match, self.labels = match, labels

    def nodes(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(map(self._node, nodes))

    def _node(self, node: Node) -> Node:
        match node:
            case Statement(target, op, value):
                return Statement(self._replaced_access(target), op, self._expr(value))
            case Scope(extent, body, label=label):
                size = self.match.size[str(extent.bounds[0])]
                return Scope(size, self.nodes(body), label=self.labels.get(label or ""))
            case Guard():
                raise KeyError("a rule has no guards")

    def _replaced_access(self, access: Access) -> Access:
        return substitute_access(self.match.element[access.buffer], self._at(access))

    def _at(self, access: Access) -> Replace:
        """The iterators that stand for the indices of a buffer of the rule, replaced by those of this access."""
        depth = self.match.depth
        return _renaming({depth + p: depth + d for p, d in enumerate(positions(access))})

    def _expr(self, expr: Expr) -> Expr:
        return map_leaves(expr, self._leaf, normal=True)

    def _leaf(self, leaf: Leaf) -> Expr:
        match leaf:
            case Const():
                return leaf
            case Index(affine):
                return index_value(affine.substitute(self._number))
            case Access(buffer):
                if buffer in self.match.expression:
                    return substitute_expr(self.match.expression[buffer], self._at(leaf))
                return self._replaced_access(leaf)

    def _number(self, atom: SizeVar | Iter) -> Affine:
        if isinstance(atom, Iter):
            return Affine.iterator(self.match.depth + atom.depth)
        (bound,) = self.match.size[atom.name].bounds
        return bound


def find(rule: Rule, side: Kernel, kernel: Kernel, path: Path) -> tuple[RuleMatch, dict[str, str]] | None:
    """The bindings of one side of a rule, beginning with the node at `path`, and the labels of its scopes
    there."""
    region = siblings(kernel, path)[path[-1] : path[-1] + len(side.body)]
    if len(region) < len(side.body):
        return None
    finder = _Finder(rule, kernel.depth_of(path))
    if not finder.nodes(side.body, region, 0):
        return None
    found = finder.found()
    try:
        same = found.nodes(side) == region
    except (KeyError, ValueError):
        return None
    return (found, finder.labels) if same else None


class _Finder:
    """Puts together what the parts of a rule stand for, walking one side of it along a tree."""

    def __init__(self, rule: Rule, depth: int) -> None:
        self.rule, self.depth = rule, depth
        self.sizes: dict[str, Extent] = {}
        self.inputs: dict[str, Expr] = {}
        self.elements: dict[str, Access] = {}
        self.labels: dict[str, str] = {}

    def found(self) -> RuleMatch:
        def parts(found: dict[str, _Part]) -> tuple[tuple[str, _Part], ...]:
            return tuple((name, found[name]) for name in sorted(found))

        return RuleMatch(self.depth, parts(self.sizes), parts(self.inputs), parts(self.elements))

    def nodes(self, pattern: tuple[Node, ...], nodes: tuple[Node, ...], depth: int) -> bool:
        return len(pattern) == len(nodes) and all(
            self._node(p, n, depth) for p, n in zip(pattern, nodes, strict=True)
        )

    def _node(self, pattern: Node, node: Node, depth: int) -> bool:
        match pattern, node:
            case Statement(target, op, value), Statement(its_target, its_op, its_value):
                return op == its_op and self._is_instance(target, its_target) and self._expr(value, its_value)
            case Scope(extent, body, label=label), Scope(its_extent, its_body, label=its_label):
                if label and its_label:
                    self.labels.setdefault(label, its_label)
                return self._size(str(extent.bounds[0]), its_extent) and self.nodes(body, its_body, depth + 1)
        return False

    def _size(self, name: str, extent: Extent) -> bool:
        limit = self.depth + self.rule.reach[name]
        if any(d >= limit for bound in extent.bounds for d in bound.iterators):
            return False
        return self.sizes.setdefault(name, extent) == extent

    def _is_instance(self, pattern: Access, access: Access) -> bool:
        back = self._back(pattern)
        if any(isinstance(i, Access) or not self._may_use(back, i.iterators) for i in access.indices):
            return False
        element = substitute_access(access, _renaming(back))
        return self.elements.setdefault(pattern.buffer, element) == element

    def _back(self, pattern: Access) -> dict[int, int]:
        """The iterators at the indices of a pattern to those that stand for its dimensions."""
        return {self.depth + d: self.depth + p for p, d in enumerate(positions(pattern))}

    def _may_use(self, back: Mapping[int, int], iterators: frozenset[int]) -> bool:
        return all(d < self.depth or d in back for d in iterators)

    def _expr(self, pattern: Expr, expr: Expr) -> bool:
        match pattern, expr:
            case Access(buffer), _ if buffer in self.rule.inputs:
                back = self._back(pattern)
                if isinstance(expr, Op) and expr.name == "when" and buffer not in self.rule.terms:
                    return False
                if not self._may_use(back, frozenset(d for a in affine_parts(expr) for d in a.iterators)):
                    return False
                value = substitute_expr(expr, _renaming(back))
                return self.inputs.setdefault(buffer, value) == value
            case Access(), Access():
                return self._is_instance(pattern, expr)
            case Op("neg", (arg,)), Const(value) if value < 0:
                return self._expr(arg, Const(-value))
            case Op(name, args), Op(other, others):
                return name == other and len(args) == len(others) and all(map(self._expr, args, others))
            case Index(affine), Index() | Const():
                return self._number(affine, expr)
            case Const(), Const():
                return pattern == expr
        return False

    def _number(self, pattern: Affine, expr: Index | Const) -> bool:
        """A size by itself may be found first as a number; any other is held against the text in the end."""
        if len(pattern.terms) == 1 and pattern == Affine.atom(pattern.terms[0][0]):
            atom = pattern.terms[0][0]
            value = expr.affine if isinstance(expr, Index) else expr.value
            if isinstance(atom, SizeVar) and not isinstance(value, float):
                bound = Affine.constant(value) if isinstance(value, int) else value
                return self._size(atom.name, Extent((bound,)))
        return True


# -- expressions ---------------------------------------------------------------------------------------------
def positions(access: Access) -> tuple[int, ...]:
    """The depths of the iterators that are the indices of an access in a rule."""
    depths = []
    for index in access.indices:
        assert isinstance(index, Affine)
        ((atom, coefficient),) = index.terms
        assert isinstance(atom, Iter) and coefficient == 1 and index.offset == 0
        depths.append(atom.depth)
    return tuple(depths)


def _index_values(expr: Expr) -> Iterator[Affine]:
    return (part.affine for part in parts(expr) if isinstance(part, Index))


def _renaming(depths: Mapping[int, int]) -> Replace:
    def new(atom: SizeVar | Iter) -> Affine:
        return Affine.iterator(depths.get(atom.depth, atom.depth)) if isinstance(atom, Iter) else Affine.atom(atom)

    return new


def _agreement(sequences: list[tuple[Extent, ...]]) -> int:
    """The length of the longest beginning that all have."""
    shared = 0
    for extents in zip(*sequences, strict=False):
        if len(set(extents)) > 1:
            break
        shared += 1
    return shared


__all__ = ["Rule", "RuleMatch", "RuleUse", "find", "positions"]
