"""Nests that several products share are parted: each product becomes a nest of its own, which a tile fits.

A text says in one nest what has the same rows and columns, as the three projections of an attention do. The tile of
one product fills the registers, so that the others would run without one.
"""

from __future__ import annotations

from functools import partial

from dojoir.ir.nodes import Kernel, Node, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, spot


def part_products(trace: Trace) -> None:
    """Distributes each scope that a contraction sums over together with something else, and then each along which
    the results of several contractions go, the innermost first, and the scopes that have it as their only child.
    Each of these has one contraction then, what comes before it that gives its result first values, and what comes
    after it. A scope for which a move is refused stays as it was."""
    for way, parted in ((_summed, _part_sums), (_shared, _part)):
        left: set[Node] = set()
        while (path := way(trace.kernel, left)) is not None:
            left.add(trace.kernel.at(path))
            tried(trace, partial(parted, path=path))


def _summed(kernel: Kernel, left: set[Node]) -> Path | None:
    """The first scope that several statements run in, one of them a contraction that sums over it, of those that
    are not `left`."""
    for site in kernel.sites:
        scope = site.scopes[-1] if site.scopes else None
        shared = scope is not None and len(scope.body) > 1 and all(isinstance(n, Statement) for n in scope.body)
        summed = is_contraction(site) and not depends(site.statement.target, len(site.scopes) - 1)
        if shared and summed and scope not in left and isinstance(site.ancestors[-1], Scope):
            return site.path[:-1]
    return None


def _part_sums(trace: Trace, path: Path) -> None:
    """Gives each statement of a scope a scope of its own. Raises IllegalMove where a move of it is refused."""
    for number in range(len(_body(trace.kernel, path)) - 1, 0, -1):
        act(trace, SplitScopes, spot(trace, path), number)


def _shared(kernel: Kernel, left: set[Node]) -> Path | None:
    """The innermost scope with several contractions inside, the last in the text, of those that are not `left`."""
    found = [path for path, node in kernel.walk()
             if isinstance(node, Scope) and node not in left and len(_parts(kernel, path)) > 1]  # fmt: skip
    return max(found, key=lambda path: (len(path), path), default=None)


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
    for number in sorted(parts, reverse=True)[:-1]:
        start = _begin(trace.kernel, path, number, parts[number])
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
