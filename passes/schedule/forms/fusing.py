"""Nests are fused where that leaves the products alone: what stands around or between them becomes one pass over
memory, and each product still is a nest that a register tile fits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Kernel, Node, Path
from dojoir.passes.base.move import Move
from dojoir.passes.engine.engine import is_legal
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.schedule.facts.product_facts import MOST_SUMS, convolutions, products
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.steps.combinators import first, make, repeat, tried


def join_around_products(trace: Trace, alone: Collection[str] = ()) -> None:
    """Fuses adjacent scopes wherever it is legal, and what stands in them with them, the first in the text first.
    In a kernel of contractions two are fused only if as many of these can have a register tile as before. A product
    that shares its rows with other work would lose its blocks, and that costs more than a pass over its result.
    What goes down columns stays apart from what goes along rows: one of the two would stride. Nothing is fused with
    a nest that writes an array of `alone`."""
    if not any(is_contraction(site) for site in trace.kernel.sites):
        repeat(first(_joins))(trace)
        return
    repeat(partial(_join_one, kept_apart=set(), alone=alone))(trace)


def join_beside_products(trace: Trace) -> None:
    """The same in a kernel of contractions for scopes that have none, as the rows of a softmax between two."""
    if any(map(is_contraction, trace.kernel.sites)):
        repeat(first(_joins_beside))(trace)


def _joins_beside(kernel: Kernel) -> Iterator[Move]:
    products = {site.path[0] for site in kernel.sites if is_contraction(site)}
    for one in _joins(kernel):
        if products.isdisjoint((kernel.path(one.first)[0], kernel.path(one.second)[0])):
            yield one


def _candidates(kernel: Kernel) -> Iterator[JoinScopes]:
    yield from (one for one in JoinScopes.candidates(kernel) if isinstance(one, JoinScopes))


def _joins(kernel: Kernel) -> Iterator[JoinScopes]:
    yield from (one for one in _candidates(kernel) if not _stay_apart(kernel, one))


def _stay_apart(kernel: Kernel, move: JoinScopes) -> bool:
    """Whether two scopes are better not fused: one goes down columns, an iteration a column, and the other along
    rows; or one only adds up a value for each iteration, which would leave the nests of the other to one thread."""
    pair = kernel.path(move.first), kernel.path(move.second)
    (is_flat, flat), (is_deep, deep) = sorted((_is_deep(kernel, path), path) for path in pair)
    if is_deep > is_flat and _is_one_sum(kernel, flat) > _is_one_sum(kernel, deep):
        return True
    down, along = (tuple(_has_leaves(kernel, path, steps) for path in pair) for steps in ((1, None), (None, 1)))
    return (down[0] and along[1] and not along[0]) or (down[1] and along[0] and not along[1])


def _is_deep(kernel: Kernel, path: Path) -> bool:
    """Whether there are scopes inside of a scope."""
    return any(len(site.scopes) > kernel.depth_of(path) + 1 for site in sites_in(kernel, path))


def _is_one_sum(kernel: Kernel, path: Path) -> bool:
    """Whether the iterations of a scope add to an element that they share."""
    sums = (site.statement for site in sites_in(kernel, path) if site.statement.accumulation is not None)
    return any(not depends(one.target, kernel.depth_of(path)) for one in sums)


def _has_leaves(kernel: Kernel, path: Path, steps: tuple[int | None, int | None]) -> bool:
    """Whether a sum inside of a scope reads an element that moves by such steps as the iterator of the scope rises,
    and as that of the sum does."""
    depth = kernel.depth_of(path)
    for site in sites_in(kernel, path):
        inner = len(site.scopes) - 1
        if site.statement.accumulation is None or inner == depth or depends(site.statement.target, inner):
            continue
        if any((step_of(kernel, a, depth), step_of(kernel, a, inner)) == steps for a in site.statement.reads):
            return True
    return False


def _join_one(trace: Trace, kept_apart: set[tuple[Node, Node]], alone: Collection[str]) -> None:
    """Fuses the first two scopes that can be. Those of which one would lose its tile go to `kept_apart`: as long as
    they are what they are, they are not tried again."""
    for one in _candidates(trace.kernel):
        paths = trace.kernel.path(one.first), trace.kernel.path(one.second)
        sites = (site for path in paths for site in sites_in(trace.kernel, path[:1]))
        if any(site.statement.target.buffer in alone for site in sites):
            continue
        both = trace.kernel.at(one.first), trace.kernel.at(one.second)
        if both in kept_apart or _stay_apart(trace.kernel, one) or not is_legal(trace.kernel, one):
            continue
        if tried(trace, partial(_join, one=one)):
            return
        kept_apart.add(both)


def _join(trace: Trace, one: JoinScopes) -> None:
    """Fuses two scopes, and in them all that can be. Raises IllegalMove where the first is refused, ArgumentError
    where a product would lose its tile."""
    before = _tiled(trace.kernel)
    make(trace, one)
    repeat(partial(_join_inside, path=trace.kernel.path(one.first)))(trace)
    if _tiled(trace.kernel) < before:
        raise ArgumentError(f"{one} takes a product its tile", "bad-arguments")


def _join_inside(trace: Trace, path: Path) -> None:
    for one in _candidates(trace.kernel):
        below = trace.kernel.path(one.first)
        if len(below) > len(path) and below[: len(path)] == path and tried(trace, one):
            return


def _tiled(kernel: Kernel) -> int:
    """How many nests a register tile fits: two products in one share it, and one of them has none."""
    found = {product.columns for product in products(kernel, MOST_SUMS)}
    return len(found | {convolution.columns for convolution in convolutions(kernel)})
