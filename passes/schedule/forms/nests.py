"""Normal forms of nests, in which structures find what they are for: what a nest keeps and what it sums."""

from __future__ import annotations

from math import prod

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Access, Guard, Kernel, Path, Scope, Site, Statement
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, move, nested, spot
from dojoir.support.frozen import dataclass


def known(found: bool, what: str) -> None:
    """Raises ArgumentError where a nest is not of the form that a structure is for."""
    if not found:
        raise ArgumentError(f"not {what}", "bad-arguments")


@dataclass(frozen=True)
class Sum:
    """A nest that accumulates. Its `kept` scopes, which the result goes along, each all that the one before has;
    in the last of them what it `begins` with, if that stands there, and the `summed` scopes."""

    kept: tuple[Spot, ...]
    begins: bool
    summed: tuple[Spot, ...]

    @property
    def nest(self) -> Spot:
        return self.summed[0]

    @property
    def site(self) -> Site:
        """The accumulation, as it is now."""
        (site,) = sites_in(self.nest.trace.kernel, self.nest.path)
        return site

    @property
    def results(self) -> int:
        """How many elements it accumulates into."""
        return prod(trips(scope) for scope in self.kept)


def trips(scope: Spot) -> int:
    """How often a scope runs at most, as far as that is a constant; else a number that stands for many."""
    return scope.scope.constant_bound or 1024


def sum_at(trace: Trace, path: Path) -> Sum:
    """The sum that the nest at `path` is, with its scopes in order: moved where they are not. Raises DojoError
    where it is none."""
    _in_order(trace, path)
    kept: list[Spot] = []
    scope = spot(trace, path)
    while isinstance(scope.node, Scope) and _is_kept(trace.kernel, scope):
        kept.append(scope)
        body = scope.body
        known(len(body) in (1, 2), "a sum by itself")
        scope = scope.child(len(body) - 1)
        if len(body) == 2:
            break
    known(isinstance(scope.node, Scope), "a sum")
    summed = nested(scope)
    sites = sites_in(trace.kernel, scope.path)
    known(len(sites) == 1 and sites[0].statement.accumulation is not None, "one sum")
    inside = summed[-1].body
    while len(inside) == 1 and isinstance(inside[0], Guard):
        inside = inside[0].body
    known(len(inside) == 1 and isinstance(inside[0], Statement), "a perfect nest")
    target = sites[0].statement.target
    known(not any(depends(target, s.depth) for s in summed), "in order")
    begins = bool(kept) and len(kept[-1].body) == 2
    if begins:
        first = kept[-1].body[0]
        known(isinstance(first, Statement) and first.target == target and first.accumulation is None, "begun")
    return Sum(tuple(kept), begins, tuple(summed))


def _is_kept(kernel: Kernel, scope: Spot) -> bool:
    return all(depends(site.statement.target, scope.depth) for site in sites_in(kernel, scope.path))


def _in_order(trace: Trace, path: Path) -> None:
    """Sinks the scopes of a perfect nest that are summed over inside of those that are kept."""
    for _ in nested(spot(trace, path)):
        scopes = nested(spot(trace, path))
        kept = [_is_kept(trace.kernel, scope) for scope in scopes]
        last = max((n for n, is_kept in enumerate(kept) if is_kept), default=0)
        outside = [n for n in range(last) if not kept[n]]
        if not outside:
            return
        act(trace, SinkScope, scopes[outside[-1]], last - outside[-1])


def distribute(trace: Trace, path: Path) -> None:
    """Gives each sum inside of the node at `path` a nest of its own, with what it begins with, and each other
    statement one as well: wherever a scope can be distributed."""
    node = trace.kernel.at(path)
    if isinstance(node, Statement):
        return
    for n in reversed(range(len(node.body))):
        distribute(trace, (*path, n))
    node = trace.kernel.at(path)
    if not isinstance(node, Scope) or node.marks:
        return
    for n in reversed(range(1, len(node.body))):
        before, after = node.body[n - 1], node.body[n]
        inner = () if isinstance(after, Statement) else sites_in(trace.kernel, (*path, n))
        if isinstance(before, Statement) and any(_goes_on(site.statement, before.target) for site in inner):
            continue
        sums = [s for s in (before, after) if isinstance(s, Statement) and _adds_up(trace.kernel, s, path)]
        if isinstance(before, Statement) and isinstance(after, Statement) and not sums:
            continue
        _ = tried(trace, move(SplitScopes, spot(trace, path), n))


def _goes_on(statement: Statement, begun: Access) -> bool:
    """Whether a statement accumulates into an element that was begun, of what is made of no other of its array."""
    others = any(access.buffer == begun.buffer and access != begun for access in statement.reads)
    return statement.accumulation is not None and statement.target == begun and not others


def _adds_up(kernel: Kernel, statement: Statement, path: Path) -> bool:
    """Whether a statement right inside of a scope accumulates over it, or over one around it."""
    around = range(kernel.depth_of(path) + 1)
    return statement.accumulation is not None and not all(depends(statement.target, d) for d in around)


def widest(kernel: Kernel, site: Site) -> list[Access]:
    """The reads of a statement that go along most of its iterations: what it takes from memory."""
    reads = [a for a in site.statement.reads if a.buffer != site.statement.target.buffer]
    sizes = [sum(depends(a, d) for d in range(len(site.scopes))) for a in reads]
    return [a for a, size in zip(reads, sizes, strict=True) if size == max(sizes)]


def runs_along(kernel: Kernel, site: Site, scope: Spot) -> bool:
    """Whether what a statement takes from memory lies side by side along a scope."""
    reads = widest(kernel, site)
    return bool(reads) and all(step_of(kernel, a, scope.depth) == 1 for a in reads)
