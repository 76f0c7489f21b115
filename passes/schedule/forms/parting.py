"""Nests that several products share are parted: each product becomes a nest of its own, which a tile fits.

A text says in one nest what has the same rows and columns, as the three projections of an attention do. The tile of
one product fills the registers, so that the others would run without one.

Normal forms of nests, in which structures find what they are for: what a nest keeps and what it sums. A product is
found by its accesses, however it is written. Sums go inside of what they sum up for; scopes are fused only where
each product still is a nest that a register tile fits.
"""

from __future__ import annotations

from functools import partial
from math import prod

from dojoir.ir.nodes import Access, Const, Expr, Guard, Kernel, Node, Op, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.schedule.facts.strides import depends, kept_by, require, scope_at, sites_in, step_of
from dojoir.passes.schedule.steps.combinators import first, moves_named, repeat, tried
from dojoir.passes.schedule.steps.spots import Spot, move, nested, scopes_inside, spot
from dojoir.passes.values.rule import UseRule
from dojoir.support.frozen import dataclass


def part_products(trace: Trace, tiled: bool = False) -> None:
    """Distributes each scope that a contraction sums over together with something else, and then each along which
    the results of several contractions go, the innermost first, and the scopes that have it as their only child.
    Each of these has one contraction then, what comes before it that gives its result first values, and what comes
    after it. So that it can be `tiled`, a contraction is parted as well from what its rows do else, and one that
    sums up what another gives from this. A scope for which a move is refused stays as it was."""
    _part_terms(trace)
    for way, parted in ((_summed, _part_sums), (_shared_scope, _part)):
        left: set[Node] = set()
        while (path := way(trace.kernel, left, tiled)) is not None:
            left.add(trace.kernel.at(path))
            tried(trace, partial(parted, path=path))


def _part_terms(trace: Trace) -> None:
    """Has each of several products that a statement adds up at once be added by a statement of its own; but for
    those of a triangle, of which a block reads the same rows. A sum for which the move is refused stays."""
    left: set[Statement] = set()
    while True:
        sums = [s for s in trace.kernel.sites if s.statement not in left and is_contraction(s) and _has_terms(s)]
        if not sums:
            return
        left.add(sums[0].statement)
        rule = "part_terms" if _is_added(sums[0].statement.value) else "part_difference"
        _ = tried(trace, move(UseRule, spot(trace, sums[0].path), rule, ()))


def _has_terms(site: Site) -> bool:
    """Whether all that a statement adds up at once are products, and no scope around it depends on another."""
    bounds = (bound for scope in site.scopes for bound in scope.extent.bounds)
    match site.statement.value:
        case Op("add" | "sub", args):
            return all(map(_is_product, args)) and not any(bound.iterators for bound in bounds)
    return False


def _is_added(value: Expr) -> bool:
    return isinstance(value, Op) and value.name == "add"


def _is_product(term: Expr) -> bool:
    match term:
        case Op("add" | "sub", args):
            return all(map(_is_product, args))
        case Op("neg", (arg,)):
            return _is_product(arg)
        case Op("mul", args):
            return not any(isinstance(arg, Const) for arg in args)
    return False


def _summed(kernel: Kernel, left: set[Node], tiled: bool) -> Path | None:
    """The first scope that a contraction sums over, and in which other statements run or other contractions give
    what it sums up, of those that are not `left`."""
    for site in filter(is_contraction, kernel.sites):
        for depth, path in enumerate(site.scope_paths):
            scope = site.scopes[depth]
            if scope in left or len(scope.body) < 2 or depends(site.statement.target, depth):
                continue
            alone = depth + 1 == len(site.scopes) and all(isinstance(n, Statement) for n in scope.body)
            if (alone and isinstance(site.ancestors[-1], Scope)) or (tiled and _is_given(kernel, site, path)):
                return path
    return None


def _is_given(kernel: Kernel, site: Site, path: Path) -> bool:
    """Whether a contraction reads what another one in the scope at a path gives."""
    read = {access.buffer for access in site.statement.reads} - {site.statement.target.buffer}
    return any(
        is_contraction(other) and other.statement.target.buffer in read
        for other in kernel.sites
        if is_inside(other.path, path)
    )


def _part_sums(trace: Trace, path: Path) -> None:
    """Gives each statement of a scope a scope of its own, or each contraction that sums over it what leads up to it
    in another. Raises IllegalMove where a move of it is refused."""
    body, depth = scope_at(trace.kernel, path).body, trace.kernel.depth_of(path)
    starts = set(range(1, len(body)))
    if not all(isinstance(node, Statement) for node in body):
        inside = [s for s in trace.kernel.sites if is_inside(s.path, path) and is_contraction(s)]
        sums = {site.path[len(path)] for site in inside if not depends(site.statement.target, depth)}
        starts &= sums | {number + 1 for number in sums}
    for number in sorted(starts, reverse=True):
        spot(trace, path).part(number)


def _shared_scope(kernel: Kernel, left: set[Node], tiled: bool) -> Path | None:
    """The innermost scope with several contractions inside, or where they are to be `tiled` with one whose rows go
    along it and something else, the last in the text, of those that are not `left`."""
    found = [path for path in shared_scopes(kernel, tiled) if kernel.at(path) not in left]
    return max(found, key=lambda path: (len(path), path), default=None)


def shared_scopes(kernel: Kernel, tiled: bool = True) -> list[Path]:
    """The scopes that are to be parted."""
    return [path for path, node in kernel.walk() if isinstance(node, Scope) and _is_shared(kernel, path, tiled)]


def _is_shared(kernel: Kernel, path: Path, tiled: bool) -> bool:
    body, parts = scope_at(kernel, path).body, _parts(kernel, path)
    others = any(not isinstance(node, Statement) for n, node in enumerate(body) if n not in parts)
    return len(parts) > 1 or (tiled and len(parts) == 1 and others and _has_rows(kernel, path))


def _has_rows(kernel: Kernel, path: Path) -> bool:
    """Whether a scope goes along the rows of each contraction that is in one of its children alone."""
    depth = kernel.depth_of(path)
    inside = [site for site in kernel.sites if is_inside(site.path, path) and is_contraction(site)]
    kept = [kept_by(site) for site in inside]
    return all(depths[-2] == depth for depths in kept)


def _parts(kernel: Kernel, path: Path) -> dict[int, set[str]]:
    """The children of a scope in which contractions are, whose results go along it, with the names of these."""
    depth = kernel.depth_of(path)
    found: dict[int, set[str]] = {}
    for site in kernel.sites:
        if is_inside(site.path, path) and is_contraction(site) and depends(site.statement.target, depth):
            found.setdefault(site.path[len(path)], set()).add(site.statement.target.buffer)
    return found


def _part(trace: Trace, path: Path) -> None:
    """Raises IllegalMove where a move of it is refused."""
    parts = _parts(trace.kernel, path)
    for number in sorted(parts)[1:]:
        begun = set().union(*(names for n, names in parts.items() if n < number))
        _bring_first_values(trace, path, number, parts[number] - begun)
    parts = _parts(trace.kernel, path)
    starts = [_begin(trace.kernel, path, number, parts[number]) for number in sorted(parts)]
    cuts = starts[1:] if len(parts) > 1 else [starts[0], min(parts) + 1]
    for start in sorted({*cuts} & {*range(1, len(scope_at(trace.kernel, path).body))}, reverse=True):
        spot(trace, path).part(start)
        for length in range(len(path) - 1, 0, -1):
            around = trace.kernel.at(path[:length])
            if not isinstance(around, Scope) or len(around.body) != 2:
                break
            spot(trace, path[:length]).part(1)


def _bring_first_values(trace: Trace, path: Path, number: int, names: set[str]) -> None:
    """Exchanges the statements before a child that give values to the buffers of `names` with what stands between,
    so that they are right before it. Raises IllegalMove where one is refused."""
    for n in reversed(range(number)):
        node = scope_at(trace.kernel, path).body[n]
        if isinstance(node, Statement) and node.target.buffer in names:
            start = _begin(trace.kernel, path, number, names)
            for k in range(n, start - 1):
                spot(trace, (*path, k)).swap_next()


def _begin(kernel: Kernel, path: Path, number: int, names: set[str]) -> int:
    """The number of the first of the statements right before a child that give values to the buffers of `names`,
    or its own."""
    body = scope_at(kernel, path).body
    while number and isinstance(node := body[number - 1], Statement) and node.target.buffer in names:
        number -= 1
    return number


def is_contraction(site: Site) -> bool:
    """Whether a statement adds up what is made of two elements or more, none of which goes along all that the
    result goes along: then an element that is read serves several that are written. What goes along nothing of the
    result, as the weight of a term, is no such element."""
    target, *reads = site.statement.accesses
    kept = {d for d in range(len(site.scopes)) if depends(target, d)}
    summed = set(range(len(site.scopes))) - kept
    if site.statement.accumulation != "+=" or len(kept) < 2 or not summed:
        return False
    read = {access for access in reads if access.buffer != target.buffer}
    used = [{d for d in range(len(site.scopes)) if depends(access, d)} for access in read]
    factors = [depths for depths in used if depths & summed and depths & kept]
    return len(factors) > 1 and all(kept - depths for depths in factors)


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

    def sink_kept(self, *scopes: Spot) -> None:
        """Brings some of the kept scopes inside of all others, the last one innermost."""
        for scope in scopes:
            if levels := max(len(one.path) for one in self.kept) - len(scope.path):
                scope.sink(levels)


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
        require(len(body) in (1, 2), "a sum by itself")
        scope = scope.child(len(body) - 1)
        if len(body) == 2:
            break
    require(isinstance(scope.node, Scope), "a sum")
    summed = nested(scope)
    sites = sites_in(trace.kernel, scope.path)
    require(len(sites) == 1 and sites[0].statement.accumulation is not None, "one sum")
    inside = summed[-1].body
    while len(inside) == 1 and isinstance(inside[0], Guard):
        inside = inside[0].body
    require(len(inside) == 1 and isinstance(inside[0], Statement), "a perfect nest")
    target = sites[0].statement.target
    require(not any(depends(target, s.depth) for s in summed), "in order")
    begins = bool(kept) and len(kept[-1].body) == 2
    if begins:
        first = kept[-1].body[0]
        require(isinstance(first, Statement) and first.target == target and first.accumulation is None, "begun")
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
        scopes[outside[-1]].sink(last - outside[-1])


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


def part_shared(trace: Trace) -> None:
    """Distributes each nest in which a contraction stands beside other scopes, as those that begin its results."""
    for n in reversed(range(len(trace.kernel.body))):
        shared = any(len(scope.scopes()) > 1 for scope in scopes_inside(spot(trace, (n,))))
        if shared and any(map(is_contraction, sites_in(trace.kernel, (n,)))):
            distribute(trace, (n,))


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
            levels = None if any(scope.marks for scope in site.scopes) else _levels_to_sink(trace.kernel, site)
            if levels is None or not tried(trace, SinkScope(place_of(levels[0]), levels[1])):
                break


def _levels_to_sink(kernel: Kernel, site: Site) -> tuple[Path, int] | None:
    """The path of the innermost scope that a statement sums over around some of its result, and how many levels it
    is inside of the last of these, all of them scopes with one child."""
    kept = kept_by(site)
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
