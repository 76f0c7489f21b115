"""The tree: scopes and guards around scalar statements. Every node is frozen.

Two nodes are equal when they mean the same by their text: labels and source positions do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal, NamedTuple

from dojoir.errors import Span
from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.expressions import Access, Expr, Op, affine_parts, are, expr_accesses, may_end_a_run, parts
from dojoir.ir.hints import Hint, in_order
from dojoir.ir.paths import Path
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass, hash_once

MAY_ASSIGN = "?="
"""Stands for the operator of an assignment that may leave its target as it was: one at an index from data, or under
a condition on data. The order of such assignments always counts."""

RELATIONS = ("==", "!=", "<=", ">=", "<", ">")

DEEPEST = 64
"""How many scopes and guards may be around a node. No kernel comes near it, so functions that walk the tree may
recurse."""


@hash_once
@dataclass(frozen=True)
class Condition:
    """`left relation right`, with `relation` one of RELATIONS."""

    left: Affine
    relation: str
    right: Affine
    loc: Span | None = field(default=None, compare=False, repr=False)


@hash_once
@dataclass(frozen=True)
class Extent:
    """How often a scope runs: the smallest of `bounds`, and not at all if that is 0 or less."""

    bounds: tuple[Affine, ...]
    loc: Span | None = field(default=None, compare=False, repr=False)

    @property
    def constant(self) -> int | None:
        """The extent as a number, where it is one."""
        return self.bounds[0].offset if len(self.bounds) == 1 and self.bounds[0].is_constant else None


@hash_once
@dataclass(frozen=True)
class Accumulated:
    """Accumulations by one operator, which is associative and commutative."""

    operator: str


@hash_once
@dataclass(frozen=True)
class Apart:
    """Writes at indices from data of which it is proved that no two change one element
    (`dojoir.sets.distinct_writes`), all those into a buffer together that have an equal value. `kind` says how it
    is known: the index in the one of `dimensions` is an element of `array`, a distinct argument; or the statement
    compares an element of `array`, at its indices in `dimensions`, with a number of its own. At most one of them
    does something to an element."""

    kind: Literal["distinct", "compared"]
    array: str
    dimensions: tuple[int, ...]
    operator: str


Commuting = Accumulated | Apart
"""The reason why statements may write one element in any order: those with an equal value of this may."""


@hash_once
@dataclass(frozen=True)
class Statement:
    """`target op value`: op is `=` or an accumulation (`+=`, `*=`, `max=`, `min=`).

    A value `Op("when", (condition, value))`, in text `value if condition`, is stored or accumulated where the
    condition, which reads data, holds; elsewhere the statement does nothing, and the value is not computed.

    `x = fma(a, b, x)`, with the target itself as what the product is added to, is a *fused* accumulation: it does
    `x += a * b` and rounds once. What reads `accumulation` and `term` sees no difference.

    No text says `apart`: the checker writes it where it has proved it. An assignment has the operator MAY_ASSIGN
    there, so one that loses the fact is ordered.
    """

    target: Access
    op: str
    value: Expr
    loc: Span | None = field(default=None, compare=False, repr=False)
    apart: Apart | None = field(default=None, kw_only=True, repr=False)

    @cached_property
    def fused(self) -> bool:
        """Whether this is a fused accumulation."""
        match self.op, self.value:
            case "=", Op("fma", (_, _, own)):
                return own == self.target
        return False

    @cached_property
    def reads(self) -> tuple[Access, ...]:
        """Every access that is read, in order of evaluation: by the value, then by the indices of the target."""
        return (*expr_accesses(self.value), *self.index_reads)

    @cached_property
    def scatters(self) -> tuple[int, ...]:
        """The dimensions of the target that are indexed by data."""
        return tuple(d for d, index in enumerate(self.target.indices) if isinstance(index, Access))

    @cached_property
    def suspect(self) -> bool:
        """Whether it may end a run by its words: it divides integers, shifts, or has an index from data."""
        return any(map(may_end_a_run, (*parts(self.value), self.target)))

    @cached_property
    def index_reads(self) -> tuple[Access, ...]:
        """The reads that select the element of the target."""
        return tuple(self.target.accesses())[:-1]

    @cached_property
    def term_reads(self) -> tuple[Access, ...]:
        """Every access that `term` and the indices of the target read, in order of evaluation."""
        return tuple(expr_accesses(self.term)) if self.fused else self.reads

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """All accesses: the target, then what the value reads."""
        return (self.target, *self.reads)

    @cached_property
    def buffers_read(self) -> frozenset[str]:
        """The buffers that are read."""
        return frozenset(access.buffer for access in self.reads)

    @cached_property
    def buffers(self) -> frozenset[str]:
        """The buffers that it touches."""
        return self.buffers_read.union(access.buffer for access in self.target.accesses())

    @cached_property
    def affine_parts(self) -> tuple[Affine, ...]:
        """The affine values in it: indices, and sizes and iterators used as numbers."""
        return (*affine_parts(self.target), *affine_parts(self.value))

    @cached_property
    def atoms(self) -> tuple[SizeVar | Iter, ...]:
        """Every size and iterator that occurs in it, once each."""
        return tuple(dict.fromkeys(atom for affine in self.affine_parts for atom in affine.atoms()))

    @cached_property
    def divided(self) -> frozenset[int]:
        """The depths of the iterators that occur in a division or a remainder."""
        return frozenset().union(*(affine.divided for affine in self.affine_parts))

    @property
    def way(self) -> tuple[str, Apart | None]:
        """How it writes its value: statements of one way, with equal targets and values, are equal."""
        return self.op, self.apart

    @cached_property
    def commuting(self) -> Commuting | None:
        """The reason why its instances may change places with those of other statements in one element, where the
        order of such writes is free: statements with an equal reason may. None where it assigns."""
        if self.apart is not None:
            return self.apart
        operator = self.accumulation
        return None if operator in (None, MAY_ASSIGN) else Accumulated(operator)

    @property
    def condition(self) -> Expr | None:
        """The condition on data under which it does something, if it has one."""
        match self.value:
            case Op("when", (condition, _)):
                return condition
        return None

    @property
    def accumulation(self) -> str | None:
        """The operator that combines `term` with the target (`+=`, `*=`, `max=`, `min=`), or None for a plain
        assignment. An assignment at an index from data, or under a condition on data, is not plain: it may leave an
        element as it was, and gives MAY_ASSIGN."""
        if self.op != "=":
            return self.op
        if self.fused:
            return "+="
        return MAY_ASSIGN if self.scatters or self.condition is not None else None

    @property
    def term(self) -> Expr:
        """The value, without the target that a fused accumulation adds it to."""
        if not self.fused:
            return self.value
        assert isinstance(self.value, Op)
        return Op("mul", self.value.args[:2], self.value.loc)

    def onto(self, target: Access) -> Statement:
        """The statement with another target, which a fused accumulation adds to as well."""
        if self.fused and isinstance(self.value, Op):
            return self.made_of(target, Op("fma", (*self.value.args[:2], target)))
        return self.made_of(target, self.value)

    def made_of(self, target: Access, value: Expr, loc: Span | None = None) -> Statement:
        """The statement with another target and value, that does with them what it does."""
        return Statement(target, self.op, value, loc, apart=self.apart)


@hash_once
@dataclass(frozen=True)
class Scope:
    """A one-dimensional loop from 0 to its extent. `marks` say how a target runs it, `hints` what else it may do;
    their order says nothing."""

    extent: Extent
    body: tuple[Node, ...]
    marks: tuple[str, ...] = ()
    label: str | None = field(default=None, compare=False, repr=False)
    loc: Span | None = field(default=None, compare=False, repr=False)
    hints: tuple[Hint, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if len(self.hints) > 1:
            object.__setattr__(self, "hints", in_order(self.hints))

    @property
    def constant_bound(self) -> int | None:
        """The smallest constant among the bounds of the extent: it never runs more often."""
        constants = [bound.offset for bound in self.extent.bounds if bound.is_constant]
        return min(constants) if constants else None

    @cached_property
    def marked(self) -> bool:
        """Whether it or a scope inside has a mark or a hint."""
        return bool(self.marks or self.hints) or any_marked(self.body)

    @cached_property
    def inner(self) -> tuple[Site, ...]:
        """Every statement inside, in the order of the text, with what is around it from this scope on: its path
        begins with a child of this one."""
        return _inner(self)

    @cached_property
    def suspect(self) -> bool:
        """Whether a statement inside is."""
        return any(node.suspect for node in self.body)

    @cached_property
    def buffers(self) -> frozenset[str]:
        """The buffers that statements inside touch."""
        return frozenset().union(*(node.buffers for node in self.body))

    @cached_property
    def divided(self) -> frozenset[int]:
        """The depths of the iterators that occur in a division or a remainder, in its extent or inside."""
        return divided_in(self.body).union(*(bound.divided for bound in self.extent.bounds))


@hash_once
@dataclass(frozen=True)
class Guard:
    """Runs its children where all `conditions` hold. It has no iterator and adds no depth."""

    conditions: tuple[Condition, ...]
    body: tuple[Node, ...]
    loc: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def marked(self) -> bool:
        """Whether a scope inside has a mark or a hint."""
        return any_marked(self.body)

    @cached_property
    def inner(self) -> tuple[Site, ...]:
        """Every statement inside, in the order of the text, with what is around it from this guard on."""
        return _inner(self)

    @cached_property
    def suspect(self) -> bool:
        """Whether a statement inside is."""
        return any(node.suspect for node in self.body)

    @cached_property
    def buffers(self) -> frozenset[str]:
        """The buffers that statements inside touch."""
        return frozenset().union(*(node.buffers for node in self.body))

    @cached_property
    def divided(self) -> frozenset[int]:
        """The depths of the iterators that occur in a division or a remainder, in a condition or inside."""
        return divided_in(self.body).union(*(c.left.divided | c.right.divided for c in self.conditions))


Node = Scope | Guard | Statement


def any_marked(nodes: tuple[Node, ...]) -> bool:
    """Whether a scope anywhere in some trees has a mark or a hint."""
    return any(node.marked for node in nodes if not isinstance(node, Statement))


def divided_in(nodes: tuple[Node, ...]) -> frozenset[int]:
    """The depths of the iterators that occur in a division or a remainder anywhere in some trees."""
    return frozenset().union(*(node.divided for node in nodes))


def with_body(node: Scope | Guard, body: tuple[Node, ...]) -> Scope | Guard:
    """A node with other children; the very node where they are its own."""
    if len(body) == len(node.body) and are(body, node.body):
        return node
    if isinstance(node, Guard):
        return Guard(node.conditions, body, node.loc)
    return Scope(node.extent, body, node.marks, node.label, node.loc, hints=node.hints)


def accesses_in(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Every access that some nodes make, in the order of the text."""
    for node in nodes:
        if isinstance(node, Statement):
            yield from node.reads
            yield node.target
        else:
            yield from accesses_in(node.body)


def targets_in(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Every element that some nodes write, in the order of the text."""
    for node in nodes:
        if isinstance(node, Statement):
            yield node.target
        else:
            yield from targets_in(node.body)


def holds(condition: Condition, sizes: Mapping[str, int], iterators: tuple[int, ...]) -> bool:
    """Whether the condition holds for concrete sizes and iterators."""
    left = condition.left.evaluate(sizes, iterators)
    right = condition.right.evaluate(sizes, iterators)
    match condition.relation:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<=":
            return left <= right
        case ">=":
            return left >= right
        case "<":
            return left < right
        case _:
            return left > right


# -- statements with what is around them ---------------------------------------------------------------------
class Site(NamedTuple):
    """A statement with everything around it, outermost first. `scopes[d]` has iterator `{d}`."""

    path: Path
    statement: Statement
    scopes: tuple[Scope, ...]
    ancestors: tuple[Scope | Guard, ...]

    @property
    def scope_paths(self) -> tuple[Path, ...]:
        """The paths of `scopes`."""
        return tuple(self.path[:n] for n, node in enumerate(self.ancestors, 1) if isinstance(node, Scope))

    def shared_ancestors(self, path: Path) -> int:
        """How many of the ancestors, from outside, are around the node at `path` too."""
        count = 0
        for mine, its in zip(self.path[:-1], path[:-1], strict=False):
            if mine != its:
                break
            count += 1
        return count

    def shared_scopes(self, path: Path) -> int:
        """How many of the scopes, from outside, are around the node at `path` too."""
        return sum(isinstance(node, Scope) for node in self.ancestors[: self.shared_ancestors(path)])


def _inner(node: Scope | Guard) -> tuple[Site, ...]:
    own = (node,) if isinstance(node, Scope) else ()
    found: list[Site] = []
    for i, child in enumerate(node.body):
        if isinstance(child, Statement):
            found.append(Site((i,), child, own, (node,)))
        else:
            found += (Site((i, *s.path), s.statement, (*own, *s.scopes), (node, *s.ancestors)) for s in child.inner)
    return tuple(found)


def sites_at(number: int, node: Node) -> tuple[Site, ...]:
    """The statements of a child of a kernel, by its number: the last number is kept with the child."""
    if isinstance(node, Statement):
        return (Site((number,), node, (), ()),)
    kept: tuple[int, tuple[Site, ...]] | None = node.__dict__.get("_sites")
    if kept is None or kept[0] != number:
        kept = number, tuple(site._replace(path=(number, *site.path)) for site in node.inner)
        node.__dict__["_sites"] = kept
    return kept[1]
