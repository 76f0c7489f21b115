"""Proves that the two sides of a rule, where it is used, give each result as the sum of the same elements.

A rule under `fp reassoc` may change the order in which elements are added, and nothing else; or multiplied, or in
which their maximum or minimum is taken: "sum" stands for what its operator makes. Its sides are held against each
other as they stand at the place of the use, for all sizes and all iterations around it. What is added up in an
element follows from the flow (`dojoir.sets.flow`), along which sums of sums are put together. A side that is no
sum of distinct elements (it takes one twice, takes another operator, or goes in a circle) is refused. So what
holds is that both sides add up the same set, each element once. A maximum may have an element twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from itertools import combinations

import islpy as isl

from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.nodes import (
    Access,
    Condition,
    Const,
    Dim,
    Expr,
    Extent,
    Kernel,
    Node,
    Op,
    Scope,
    Size,
    Statement,
)
from dojoir.ir.places import ancestors
from dojoir.ir.rewriting.substitution import Replace, substitute_condition, substitute_extent
from dojoir.rules.operators import SUM, Operator
from dojoir.rules.rule import Rule, RuleUse
from dojoir.sets.flow import whole_flow
from dojoir.sets.kernel_sets import Read, sets_of


class NoSums(Exception):
    """A side of a rule is not made of sums alone."""


def adds_the_same(before: Kernel, rule: Rule, use: RuleUse) -> bool:
    """Whether each result of a rule is the sum of the same elements on both sides, used at a place of a kernel."""
    try:
        left, right = (_Sums(alone(before, side, use), rule.operator) for side in (rule.left, rule.right))
        return all(
            left.result(name).is_equal(right.result(name)) and left.untouched(name).is_equal(right.untouched(name))
            for name in rule.results
        )
    except NoSums:
        return False


# -- a side by itself ----------------------------------------------------------------------------------------
def alone(before: Kernel, side: Kernel, use: RuleUse) -> Kernel:
    """A side of a rule as a kernel of its own: with the extents that it has at its place, the iterators around it
    as sizes, and arrays as large as one likes."""
    taken = {size.name for size in before.sizes}
    depth = use.match.depth

    def fresh(wanted: str) -> str:
        while wanted in taken:
            wanted += "_"
        taken.add(wanted)
        return wanted

    outer = [fresh(f"at{d}") for d in range(depth)]

    def new(atom: SizeVar | Iter) -> Affine:
        match atom:
            case Iter(d):
                if d >= depth:
                    return Affine.iterator(d - depth)
                return Affine.size(outer[d]) - 1  # a size is 1 at least
            case SizeVar():
                return Affine.atom(atom)

    around = _conditions(before, use, new)
    extents = {name: substitute_extent(extent, new) for name, extent in use.match.sizes}
    rooms = {size.name: fresh(f"room_{size.name}") for size in side.sizes}
    buffers = tuple(
        replace(b, dims=tuple(Dim(Affine.size(rooms[str(dim.extent)])) for dim in b.dims)) for b in side.buffers
    )
    sizes = (*before.sizes, *(Size(name) for name in (*outer, *rooms.values())))
    return Kernel(side.name, sizes, buffers, _placed(side.body, extents), (*before.facts, *around))


def _conditions(before: Kernel, use: RuleUse, new: Replace) -> list[Condition]:
    """The conditions on the iterators around a place that hold whenever it runs."""
    found: list[Condition] = []
    depth = 0
    for node in ancestors(before, use.path):
        if isinstance(node, Scope):
            own = Affine.iterator(depth).substitute(new)
            found += [Condition(own, "<", bound.substitute(new)) for bound in node.extent.bounds]
            depth += 1
        else:
            found += [substitute_condition(condition, new) for condition in node.conditions]
    return found


def _placed(nodes: tuple[Node, ...], extents: dict[str, Extent]) -> tuple[Node, ...]:
    def one(node: Node) -> Node:
        match node:
            case Statement():
                return node
            case Scope(extent, body):
                return Scope(extents[str(extent.bounds[0])], _placed(body, extents))
        raise NoSums

    return tuple(map(one, nodes))


# -- sums ----------------------------------------------------------------------------------------------------
class _Sums:
    """The terms of the sum in each statement and each result of a kernel, as relations to elements of its
    inputs."""

    def __init__(self, kernel: Kernel, operator: Operator) -> None:
        self.kernel, self.sets, self.operator = kernel, sets_of(kernel), operator
        self.flow = whole_flow(self.sets)
        self.inputs = {buffer.name for buffer in kernel.buffers if buffer.role == "in"}
        self.known: dict[int, isl.UnionMap | None] = {}

    def result(self, name: str) -> isl.UnionMap:
        """The elements that add up to what each element of an output holds in the end."""
        return self._gathered(self._of(f"out_{name}", self.flow.sources))

    def untouched(self, name: str) -> isl.UnionMap:
        """The elements of an output that keep the value that they had at the start."""
        return self._of(f"out_{name}", self.flow.initial.reverse())

    def _of(self, reader: str, sources: isl.UnionMap) -> isl.UnionMap:
        """The part of a map that ends at one reader."""
        pieces: list[isl.Map] = []
        sources.foreach_map(pieces.append)
        ending = (piece for piece in pieces if piece.get_tuple_name(isl.dim_type.out) == reader)
        return _union(self.sets.map(), map(isl.UnionMap.from_map, ending))

    def _gathered(self, sources: isl.UnionMap) -> isl.UnionMap:
        """The writes whose sum a read gets, from writes to the read: no element may come by two of them."""
        pieces: list[isl.Map] = []
        sources.foreach_map(pieces.append)
        found = self.sets.map()
        for piece in pieces:
            number = int((piece.get_tuple_name(isl.dim_type.in_) or "s")[1:])
            ways = isl.UnionMap.from_map(piece).range_product(self._summed_by(number))  # write -> [read -> element]
            found = found.union(ways)
        if not self.operator.is_repeatable and not found.is_injective():
            raise NoSums
        return found.range().unwrap()

    def _summed_by(self, number: int) -> isl.UnionMap:
        """The elements that a statement assigns the sum of, or adds to its target."""
        if number in self.known:
            known = self.known[number]
            if known is None:  # it is being asked: a circle
                raise NoSums
            return known
        self.known[number] = None
        statement = self.kernel.sites[number].statement
        if statement.op not in {"=", self.operator.accumulates}:
            raise NoSums
        terms = iter(self.sets.reads[number])
        parts = [self._read(next(terms), minus) for minus in self._terms(statement.value)]
        if not self.operator.is_repeatable and any(not a.is_disjoint(b) for a, b in combinations(parts, 2)):
            raise NoSums
        found = self.known[number] = _union(self.sets.map(), parts)
        return found

    def _read(self, read: Read, minus: bool) -> isl.UnionMap:
        """The terms of the sum that a read of a statement gets, by instances of the statement. An element that is
        taken away has another name: it is another term than the element."""
        if read.access.buffer in self.inputs:
            text = self.sets.read_by_statement(read)
            return self.sets.map(text.replace(" -> b_", " -> minus_", 1) if minus else text)
        if minus or not self._of(read.name, self.flow.initial.reverse()).is_empty():
            raise NoSums
        pieces: list[isl.Map] = []
        self._gathered(self._of(read.name, self.flow.sources)).foreach_map(pieces.append)
        named = (piece.set_tuple_name(isl.dim_type.in_, f"s{read.site}") for piece in pieces)
        return _union(self.sets.map(), map(isl.UnionMap.from_map, named))

    def _terms(self, value: Expr, minus: bool = False) -> list[bool]:
        """For each element that an expression adds, whether it is taken away: IEEE's x - y is x + -y. What the
        operator leaves alone is none."""
        match value:
            case Const(number) if number == self.operator.neutral:
                return []
            case Access():
                return [minus]
            case Op(self.operator.combines, args):
                return [term for arg in args for term in self._terms(arg, minus)]
            case Op("neg" | "sub", (*first, last)) if self.operator == SUM:
                return [term for arg in first for term in self._terms(arg, minus)] + self._terms(last, not minus)
        raise NoSums


def _union(nothing: isl.UnionMap, parts: Iterable[isl.UnionMap]) -> isl.UnionMap:
    return reduce(isl.UnionMap.union, parts, nothing)
