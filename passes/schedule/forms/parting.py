"""Nests that several products share are parted: each product becomes a nest of its own, which a tile fits.

A text says in one nest what has the same rows and columns, as the three projections of an attention do. The tile of
one product fills the registers, so that the others would run without one.
"""

from __future__ import annotations

from functools import partial

from dojoir.ir.nodes import Const, Expr, Kernel, Node, Op, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, move, spot
from dojoir.passes.values.rule import UseRule


def part_products(trace: Trace, tiled: bool = False) -> None:
    """Distributes each scope that a contraction sums over together with something else, and then each along which
    the results of several contractions go, the innermost first, and the scopes that have it as their only child.
    Each of these has one contraction then, what comes before it that gives its result first values, and what comes
    after it. So that it can be `tiled`, a contraction is parted as well from what its rows do else, and one that
    sums up what another gives from this. A scope for which a move is refused stays as it was."""
    _part_terms(trace)
    for way, parted in ((_summed, _part_sums), (_shared, _part)):
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
    body, depth = _body(trace.kernel, path), trace.kernel.depth_of(path)
    starts = set(range(1, len(body)))
    if not all(isinstance(node, Statement) for node in body):
        inside = [s for s in trace.kernel.sites if is_inside(s.path, path) and is_contraction(s)]
        sums = {site.path[len(path)] for site in inside if not depends(site.statement.target, depth)}
        starts &= sums | {number + 1 for number in sums}
    for number in sorted(starts, reverse=True):
        act(trace, SplitScopes, spot(trace, path), number)


def _shared(kernel: Kernel, left: set[Node], tiled: bool) -> Path | None:
    """The innermost scope with several contractions inside, or where they are to be `tiled` with one whose rows go
    along it and something else, the last in the text, of those that are not `left`."""
    found = [path for path in shared_scopes(kernel, tiled) if kernel.at(path) not in left]
    return max(found, key=lambda path: (len(path), path), default=None)


def shared_scopes(kernel: Kernel, tiled: bool = True) -> list[Path]:
    """The scopes that are to be parted."""
    return [path for path, node in kernel.walk() if isinstance(node, Scope) and _is_shared(kernel, path, tiled)]


def _is_shared(kernel: Kernel, path: Path, tiled: bool) -> bool:
    body, parts = _body(kernel, path), _parts(kernel, path)
    others = any(not isinstance(node, Statement) for n, node in enumerate(body) if n not in parts)
    return len(parts) > 1 or (tiled and len(parts) == 1 and others and _has_rows(kernel, path))


def _has_rows(kernel: Kernel, path: Path) -> bool:
    """Whether a scope goes along the rows of each contraction that is in one of its children alone."""
    depth = kernel.depth_of(path)
    inside = [site for site in kernel.sites if is_inside(site.path, path) and is_contraction(site)]
    kept = [[d for d in range(len(site.scopes)) if depends(site.statement.target, d)] for site in inside]
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
    for start in sorted({*cuts} & {*range(1, len(_body(trace.kernel, path)))}, reverse=True):
        act(trace, SplitScopes, spot(trace, path), start)
        for length in range(len(path) - 1, 0, -1):
            around = trace.kernel.at(path[:length])
            if not isinstance(around, Scope) or len(around.body) != 2:
                break
            act(trace, SplitScopes, spot(trace, path[:length]), 1)


def _bring_first_values(trace: Trace, path: Path, number: int, names: set[str]) -> None:
    """Exchanges the statements before a child that give values to the buffers of `names` with what stands between,
    so that they are right before it. Raises IllegalMove where one is refused."""
    for n in reversed(range(number)):
        node = _body(trace.kernel, path)[n]
        if isinstance(node, Statement) and node.target.buffer in names:
            start = _begin(trace.kernel, path, number, names)
            for k in range(n, start - 1):
                act(trace, SwapSiblings, spot(trace, (*path, k)))


def _begin(kernel: Kernel, path: Path, number: int, names: set[str]) -> int:
    """The number of the first of the statements right before a child that give values to the buffers of `names`,
    or its own."""
    body = _body(kernel, path)
    while number and isinstance(node := body[number - 1], Statement) and node.target.buffer in names:
        number -= 1
    return number


def _body(kernel: Kernel, path: Path) -> tuple[Node, ...]:
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    return scope.body


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
