"""Rows that multiply twice, as those of an attention: scores of a row, what is done with them along the row, and a
product of that with a second array. Here they become passes along blocks of columns.

What the row must have as a whole before a statement runs, as the maximum of a softmax, takes a pass of its own; a
pass that needs scores of one before it computes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import (
    Access,
    Cast,
    Const,
    Expr,
    Extent,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.product_facts import HALVES, is_of_two
from dojoir.passes.schedule.facts.strides import depends, require, sites_in
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.gpu.sharing.threads import without_ones
from dojoir.passes.schedule.gpu.tiles.operands import COLUMNS
from dojoir.passes.schedule.steps.spots import Array, Spot, act, add_dim, spot
from dojoir.passes.values.hoisting import Hoist
from dojoir.passes.values.recomputing import Recompute
from dojoir.passes.values.reductions import SplitReduction
from dojoir.support.frozen import dataclass

WIDTH = 64
"""How many columns of a row a block has at a time."""


MOST_TIMES = 8
"""How many temporaries are computed again at most."""


class RowProduct(NamedTuple):
    """A product of a row: the places of the two loops, and the factors, of which the left goes along the rows."""

    kept: int
    summed: int
    left: Access
    right: Access


@dataclass(frozen=True)
class RowNest:
    """A nest of one statement inside of the rows at `depth`, and its loops besides these."""

    node: Spot
    depth: int

    @property
    def site(self) -> Site:
        sites = sites_in(self.node.trace.kernel, self.node.path)
        require(len(sites) == 1, "nests of one statement")
        return sites[0]

    @property
    def statement(self) -> Statement:
        return self.site.statement

    @property
    def loops(self) -> list[int]:
        """The depths of its loops but the rows."""
        return [d for d in range(self.node.depth, len(self.site.scopes)) if d != self.depth]

    @property
    def product(self) -> RowProduct | None:
        """The product that it adds up, if it is one."""
        statement, loops = self.statement, self.loops
        factors = sorted(statement.term_reads, key=lambda read: not depends(read, self.depth))
        if not is_of_two(statement.value) or len(factors) != 2:  # one array twice, or an index from data
            return None
        left, right = factors
        kept = [d for d in loops if depends(statement.target, d)]
        if statement.op != "+=" or len(loops) != 2 or len(kept) != 1:
            return None
        (summed,) = (d for d in loops if d not in kept)
        alike = not depends(right, self.depth) and not depends(left, kept[0]) and depends(right, kept[0])
        if not (alike and depends(left, self.depth) and depends(left, summed) and depends(right, summed)):
            return None
        return RowProduct(kept[0], summed, left, right)

    @property
    def is_first(self) -> bool:
        """Whether it assigns what something begins with."""
        return self.statement.op == "=" and isinstance(self.statement.value, Const)


class RowTemporaries(NamedTuple):
    """The temporaries of rows: those that have columns that a product sums over, and those of these that a product
    gives or takes as its left factor."""

    scores: frozenset[str]
    results: frozenset[str]
    factors: frozenset[str]


def store_narrowed(trace: Trace, rows: Spot) -> None:
    """Stores the factors of products that are rounded to what matrix units multiply where they are used, as in
    `f32(bf16(p[r])) * f32(v[r, e])`, before the scopes that repeat them."""
    while True:
        sites = [site for site in sites_in(trace.kernel, rows.path) if is_contraction(site)]
        found = next(((site, factor, at) for site in sites for factor, at in _narrowed(site)), None)
        if found is None:
            return
        site, factor, scope = found
        number, own = list(parts(site.statement.value)).index(factor), fresh_name(trace.kernel, "factor")
        act(trace, Hoist, spot(trace, scope), spot(trace, site.path), number, own)


def _narrowed(site: Site) -> Iterator[tuple[Expr, Path]]:
    """The factors of a product that are computed and rounded, each with the outermost scope that repeats it."""
    match site.statement.value:
        case Op("mul", (left, right)):
            factors = [one.arg for one in (left, right) if isinstance(one, Cast)]
        case _:
            return
    for factor in factors:
        if isinstance(factor, Cast) and factor.dtype.name in HALVES:
            read = [part for part in parts(factor) if isinstance(part, Access)]
            again = [d for d in range(len(site.scopes)) if not any(depends(one, d) for one in read)]
            if again:
                yield factor, site.scope_paths[again[0]]


def separate(trace: Trace, around: Spot) -> None:
    """Gives each statement in a scope loops of its own."""
    while True:
        forks = [
            path
            for path, node in trace.kernel.walk()
            if len(path) > len(around.path) and is_inside(path, around.path) and isinstance(node, Scope)
            and len(node.body) > 1
        ]  # fmt: skip
        if not forks:
            return
        spot(trace, forks[0]).part(1)


def _nests(rows: Spot) -> list[RowNest]:
    return [RowNest(rows.child(n), rows.depth) for n in range(len(rows.body))]


def names_of(trace: Trace, rows: Spot) -> RowTemporaries:
    nests = _nests(rows)
    made = {nest.statement.target.buffer for nest in nests}
    products = [nest for nest in nests if nest.product is not None]
    inner = [p for nest in products if (p := nest.product) and p.left.buffer in made]
    factors = frozenset(p.left.buffer for p in inner)
    outer = frozenset(n.statement.target.buffer for n in products if (p := n.product) and p.left.buffer not in made)
    require(bool(factors) and bool(outer), "a product of what is made of another one")
    scores = set(factors | outer)
    for _ in nests:
        for nest in nests:
            key = [d for d in nest.loops for a in nest.statement.accesses if a.buffer in scores and depends(a, d)]
            target = nest.statement.target
            if any(_goes_along(target, d) for d in key) and nest.product is None:
                scores.add(target.buffer)
    results = frozenset(
        n.statement.target.buffer for n in products if (p := n.product) and p.left.buffer in factors
    )
    require(
        all(trace.kernel.buffer(name).role == "tmp" for name in (*scores, *results)), "scores of a kernel's own"
    )
    return RowTemporaries(frozenset(scores), results, factors)


def _goes_along(access: Access, depth: int) -> bool:
    """Whether an access is to another element in each iteration of a scope."""
    return any(isinstance(index, Affine) and index.coefficient(Iter(depth)) for index in access.indices)


def in_parts(trace: Trace, rows: Spot) -> None:
    """Sums up along scores in parts, one for each of COLUMNS columns side by side. A thread has some by itself, and
    those that share a row put theirs together once, behind the last block."""
    if trace.kernel.fp == "strict":
        return
    names, number = names_of(trace, rows), 0
    while number < len(rows.body):
        nest = RowNest(rows.child(number), rows.depth)
        number += 1
        statement, loops = nest.statement, nest.loops
        if statement.accumulation is None or len(loops) != 1 or columns_of(nest, names) != loops[0]:
            continue
        most = nest.node.scope.constant_bound
        if not depends(statement.target, loops[0]) and (most is None or most > COLUMNS):
            part = fresh_name(trace.kernel, f"{statement.target.buffer}_part")
            act(trace, SplitReduction, nest.node, statement.target.buffer, part, Affine.constant(COLUMNS))
            add_dim(trace, part, rows.depth, rows.scope.extent)
            number += 2


def held(trace: Trace, rows: Spot) -> None:
    """Gives sums of products that are accumulated in an argument a temporary, which is stored behind them."""
    names = {nest.statement.target.buffer for nest in _nests(rows) if nest.product is not None}
    for name in [name for name in names if trace.kernel.buffer(name).role != "tmp"]:
        own = [n for n, nest in enumerate(_nests(rows)) if name in nest.statement.buffers]
        require(own == [*range(own[0], own[-1] + 1)], "sums that stand together")
        around = rows.child(own[0]).wrap(len(own))
        copy = around.stage(name, "", "out", name=fresh_name(trace.kernel, name))
        without_ones(around.beside(1))
        around.remove()
        add_dim(trace, copy, rows.depth, rows.scope.extent)


def columns_of(nest: RowNest, names: RowTemporaries) -> int | None:
    """The depth of the loop of a nest that goes along scores, if one does."""
    accesses = [a for a in nest.statement.accesses if a.buffer in names.scores]
    found = [d for d in nest.loops for a in accesses if depends(a, d)]
    return found[0] if found else None


def ordered(trace: Trace, rows: Spot, names: RowTemporaries) -> None:
    """Brings what sums begin with to the front, and loops along scores outside of those inside of them."""
    for nest in _nests(rows):
        along = columns_of(nest, names)
        if len(nest.loops) == 2 and along == nest.loops[1]:
            nest.node.swap()
    first = 0
    for n, nest in enumerate(_nests(rows)):
        if nest.is_first and nest.statement.target.buffer not in names.scores:
            for at in range(n, first, -1):
                rows.child(at - 1).swap_next()
            first += 1
    for n in reversed(range(len(rows.body))):  # what puts parts together stands where its result is used
        nest = RowNest(rows.child(n), rows.depth)
        target = nest.statement.target.buffer
        if nest.statement.accumulation is None or nest.product is not None or columns_of(nest, names) is not None:
            continue
        while n + 1 < len(rows.body) and target not in RowNest(rows.child(n + 1), rows.depth).statement.buffers:
            rows.child(n).swap_next()
            n += 1


def _passes(rows: Spot, names: RowTemporaries) -> list[list[RowNest]]:
    """The nests of rows in groups: those that one pass along the scores has, or one that is none. A pass begins
    behind a statement that sums up, or writes, along the scores what the pass reads as a whole."""
    groups: list[list[RowNest]] = []
    read: set[str] = set()
    for nest in reversed(_nests(rows)):
        along, target = columns_of(nest, names) is not None, nest.statement.target.buffer
        goes_on = along and groups and columns_of(groups[0][0], names) is not None
        if not goes_on or (target in read and target not in names.scores):
            groups.insert(0, [])
            read = set()
        groups[0].insert(0, nest)
        read |= {access.buffer for access in nest.statement.term_reads}
    return groups


def computed_again(trace: Trace, rows: Spot) -> RowTemporaries:
    """Computes in each pass what it needs of scores that an earlier pass has. Returns the names after that."""
    times = 0
    while True:
        names = names_of(trace, rows)
        missing = None
        for group in _passes(rows, names):
            own = {nest.statement.target.buffer for nest in group}
            for nest in group if columns_of(group[0], names) is not None else ():
                missing = missing or next(
                    ((nest, r.buffer) for r in nest.statement.term_reads if r.buffer in names.scores - own), None
                )
        if missing is None:
            return names
        require(times < MOST_TIMES, "few passes")
        times += 1
        nest, score = missing
        copy = fresh_name(trace.kernel, score)
        act(trace, Recompute, nest.node, score, copy)
        without_ones(nest.node.beside(-1))
        for d, dim in reversed([*enumerate(trace.kernel.buffer(copy).dims)]):
            if dim.extent == Affine.constant(1):
                Array(trace, copy).reuse(d).drop(d)
        separate(trace, rows)
        add_dim(trace, copy, rows.depth, rows.scope.extent)


def tiled(trace: Trace, rows: Spot, names: RowTemporaries, height: int) -> list[Spot]:
    """Gives blocks of `height` rows, and of columns, loops of their own, one for each pass. Returns these loops."""
    groups = _passes(rows, names)
    passes = [columns_of(group[0], names) is not None for group in groups]
    inner = [
        any(n.product is not None and n.product.left.buffer in names.factors for n in group) for group in groups
    ]
    for group in groups:
        for nest in group[1:]:
            group[0].node.join(nest.node)
    rows.split(height)
    rest, loops = rows.child(0), list[Spot]()
    for number, is_pass in enumerate(passes):
        own = rest
        if number + 1 < len(groups):
            own, rest = rest.part(1)
        if not is_pass:
            continue
        loop = own.child(0)
        columns = loop.scope.extent.constant or 0
        loop.split(WIDTH)
        first = substitute_iterators({own.depth: Affine.constant(0)})
        bounds = tuple(bound.substitute(first) for bound in loop.scope.extent.bounds)
        grows = bounds != loop.scope.extent.bounds
        if grows:
            loop.bound(Extent(bounds))
        own.swap()
        if (grows and inner[number]) or (
            columns > 2 * WIDTH and columns % WIDTH
        ):  # the last block alone has guards
            loop, last = loop.cut(rows.iterator if grows else Affine.constant(columns // WIDTH))
            separate(trace, last)
            last.remove()
            loop.child(0, 0).bound(Affine.constant(WIDTH))
        separate(trace, loop)
        loops.append(loop)
    return loops
