"""Contractions by their accesses: what `default_schedule` does before it looks for products, so that a product is
found however it is written.

Sums go inside of what they sum up for; scopes are fused only where each product still is a nest that a register
tile fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Kernel, Node, Path, Scope, Site
from dojoir.passes.base.move import Move, place_of
from dojoir.passes.engine.engine import is_legal
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.schedule.facts.convolutions import convolutions
from dojoir.passes.schedule.facts.products import MOST_SUMS, products
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.steps.combinators import first, make, moves_named, repeat, tried

WINDOW = 16
"""The elements along a window, at most."""


def take_units_away(trace: Trace) -> None:
    """Removes the scopes of extent 1 that have no mark: a row or a column that stands alone."""
    repeat(first(moves_named("remove_scope")))(trace)


# -- sums inside of what they sum up for ------------------------------------------------------------------------
def sink_sums(trace: Trace) -> None:
    """Brings the scopes that are summed over inside of those of the result, where they stand around them in a
    perfect nest. So it is for contractions, windows, and sums along rows of memory whose results go down a
    column."""
    for n in range(len(trace.kernel.sites)):
        for _ in trace.kernel.sites[n].scopes:
            site = trace.kernel.sites[n]
            levels = None if _marked(site) else _levels_to_sink(trace.kernel, site)
            if levels is None or not tried(trace, SinkScope(place_of(levels[0]), levels[1])):
                break


def _levels_to_sink(kernel: Kernel, site: Site) -> tuple[Path, int] | None:
    """The path of the innermost scope that a statement sums over around some of its result, and how many levels it
    is inside of the last of these, all of them scopes with one child."""
    target = site.statement.target
    kept = [d for d in range(len(site.scopes)) if depends(target, d)]
    outside = [d for d in range(max(kept, default=0)) if d not in kept]
    if not outside or site.statement.accumulation is None:
        return None
    if not (is_contraction(site) or _belongs_inside(kernel, site, outside[-1], kept[-1])):
        return None
    path = site.scope_paths[outside[-1]]
    inner = site.scopes[outside[-1] :]
    perfect = site.scope_paths[-1] == path + (0,) * (len(inner) - 1)
    alone = all(len(scope.body) == 1 for scope in inner) and all(step == 0 for step in site.path[len(path) :])
    return (path, kept[-1] - outside[-1]) if perfect and alone else None


def is_window(scope: Scope, most: int = WINDOW) -> bool:
    """Whether a scope goes over few elements, a number that is no size."""
    return any(bound.is_constant and bound.offset <= most for bound in scope.extent.bounds)


def _belongs_inside(kernel: Kernel, site: Site, summed: int, last: int) -> bool:
    """Whether a sum that is no contraction goes better inside: over a window of few elements, or along rows of what
    the result goes down the columns of."""
    if is_window(site.scopes[summed]):
        return True
    reads = site.statement.reads
    steps = [(step_of(kernel, read, summed), step_of(kernel, read, last)) for read in reads if depends(read, last)]
    return any(along == 1 and down is None for along, down in steps) and not any(down == 1 for _, down in steps)


def _marked(site: Site) -> bool:
    return any(scope.marks for scope in site.scopes)


# -- fusing what leaves the products alone ----------------------------------------------------------------------
def join_around_products(trace: Trace) -> None:
    """Fuses adjacent scopes wherever it is legal, and what stands in them with them, the first in the text first.
    In a kernel of contractions two are fused only if as many of these can have a register tile as before. A product
    that shares its rows with other work would lose its blocks, and that costs more than a pass over its result.
    What goes down columns stays apart from what goes along rows: one of the two would stride."""
    if not any(is_contraction(site) for site in trace.kernel.sites):
        repeat(first(_joins))(trace)
        return
    repeat(partial(_join_one, kept_apart=set()))(trace)


def _joins(kernel: Kernel) -> Iterator[Move]:
    for move in JoinScopes.candidates(kernel):
        assert isinstance(move, JoinScopes)
        if not _cross(kernel, move):
            yield move


def _cross(kernel: Kernel, move: JoinScopes) -> bool:
    """Whether one of two scopes goes down columns, an iteration a column, and the other one along rows."""
    pair = kernel.path(move.first), kernel.path(move.second)
    down, along = (tuple(_has_leaves(kernel, path, steps) for path in pair) for steps in ((1, None), (None, 1)))
    return (down[0] and along[1] and not along[0]) or (down[1] and along[0] and not along[1])


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


def _join_one(trace: Trace, kept_apart: set[tuple[Node, Node]]) -> None:
    """Fuses the first two scopes that can be. Those of which one would lose its tile go to `kept_apart`: as long as
    they are what they are, they are not tried again."""
    for move in JoinScopes.candidates(trace.kernel):
        assert isinstance(move, JoinScopes)
        both = trace.kernel.at(move.first), trace.kernel.at(move.second)
        if both in kept_apart or _cross(trace.kernel, move) or not is_legal(trace.kernel, move):
            continue
        if tried(trace, partial(_join, move=move)):
            return
        kept_apart.add(both)


def _join(trace: Trace, move: JoinScopes) -> None:
    """Fuses two scopes, and in them all that can be. Raises IllegalMove where the first is refused, ArgumentError
    where a product would lose its tile."""
    before = _tiled(trace.kernel)
    make(trace, move)
    repeat(partial(_join_inside, path=trace.kernel.path(move.first)))(trace)
    if _tiled(trace.kernel) < before:
        raise ArgumentError(f"{move} takes a product its tile", "bad-arguments")


def _join_inside(trace: Trace, path: Path) -> None:
    for move in JoinScopes.candidates(trace.kernel):
        assert isinstance(move, JoinScopes)
        below = trace.kernel.path(move.first)
        if len(below) > len(path) and below[: len(path)] == path and tried(trace, move):
            return


def _tiled(kernel: Kernel) -> int:
    """How many nests a register tile fits: two products in one share it, and one of them has none."""
    found = {product.columns for product in products(kernel, MOST_SUMS)}
    return len(found | {convolution.columns for convolution in convolutions(kernel)})
