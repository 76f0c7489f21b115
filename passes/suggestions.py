"""The nearest legal move: what would make a refused one legal, or could be made instead of it.

Few moves are tried, each under a small step limit, in an order that depends on the text alone: the answer is the
same on every machine, and comes in about a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from dojoir.errors import DojoError
from dojoir.ir import Kernel, Node, Path, Scope, Statement, format_path
from dojoir.passes.catalogue import parse_move
from dojoir.passes.dead import DeleteTemporary
from dojoir.passes.engine import check, rewrite
from dojoir.passes.hardware import Parallelize, Unroll, Vectorize
from dojoir.passes.move import Move, fresh_name, siblings
from dojoir.passes.order import SwapSiblings
from dojoir.passes.places import located
from dojoir.passes.scopes import JoinScopes, SwapScopes
from dojoir.passes.staging import Stage
from dojoir.passes.storage import PlaceBuffer, ReuseDims
from dojoir.passes.tiling import Tile
from dojoir.printer import format_extent
from dojoir.verdict import Verdict

STEP_LIMIT = 100_000
"""How many isl operations a check of one alternative may take."""

MOST_TRIED = 24
"""How many alternatives are tried."""


class Alternative(NamedTuple):
    """Moves to make first, in order, and the move that may be legal then."""

    first: tuple[str, ...]
    then: str


def suggest(kernel: Kernel, move: Move | str) -> Verdict:
    """As `check`; the `hint` of a refusal also names, where one is found, the nearest legal alternative: moves
    after which this one is legal, or another move in its place.

    >>> import dojoir
    >>> print(dojoir.suggest(dojoir.kernels.load("softmax"), "reuse_dims(e, 0)").hint)
    None
    >>> print(dojoir.suggest(dojoir.kernels.load("softmax"), "reuse_dims(m, 0)").hint)
    reuse_dims(m, 0) is legal after join_scopes(0, 1)
    """
    verdict = check(kernel, move)
    if verdict:
        return verdict
    try:
        wanted = located(parse_move(move) if isinstance(move, str) else move, kernel)
    except DojoError:
        return verdict
    for alternative in islice(_alternatives(kernel, wanted, verdict), MOST_TRIED):
        if _works(kernel, alternative):
            return replace(verdict, hint=_words(wanted, alternative))
    return verdict


def _works(kernel: Kernel, alternative: Alternative) -> bool:
    try:
        for text in alternative.first:
            kernel = rewrite(kernel, text, step_limit=STEP_LIMIT).kernel
        return bool(check(kernel, alternative.then, STEP_LIMIT))
    except DojoError:
        return False


def _words(wanted: Move, alternative: Alternative) -> str:
    if not alternative.first:
        return f"{alternative.then} is legal"
    return f"{alternative.then} is legal after {', then '.join(alternative.first)}"


def _alternatives(kernel: Kernel, move: Move, verdict: Verdict) -> Iterator[Alternative]:
    """What may be worth trying, the nearest first."""
    match move:
        case ReuseDims():
            yield from _after_joins(kernel, str(move))
        case PlaceBuffer(buffer, _):
            yield from _after_collapsing(kernel, buffer, str(move))
        case DeleteTemporary(buffer):
            yield from _after_inlining(kernel, buffer, str(move))
        case JoinScopes(first, second):
            yield from _to_join(kernel, kernel.path(first), kernel.path(second))
        case SwapScopes(scope):
            yield from _to_nest(kernel, kernel.path(scope), "swap_scopes({0})")
        case Tile(places, sizes):
            rest = ", ".join(map(str, sizes))
            if len(places) == 2:
                yield from _to_nest(kernel, kernel.path(places[0]), f"tile({{0}}, {{1}}, {rest})")
        case Stage(node, buffer, copy, direction):
            yield from _further_inside(kernel, kernel.path(node), f"stage({{}}, {buffer}, {copy}, {direction})")
        case SwapSiblings(node):
            yield from _other_places(kernel, move, siblings(kernel, kernel.path(node)))
        case Vectorize(scope) | Parallelize(scope) | Unroll(scope):
            yield from _to_mark(kernel, kernel.path(scope), move, verdict)
        case _:
            yield from _after_joins(kernel, str(move))


# -- storage -----------------------------------------------------------------------------------------------
def _joins(kernel: Kernel) -> Iterator[JoinScopes]:
    for move in JoinScopes.candidates(kernel):
        assert isinstance(move, JoinScopes)
        yield move


def _after_joins(kernel: Kernel, then: str) -> Iterator[Alternative]:
    """A value that lives shorter may share storage: scopes fused, one pair or two."""
    single = [str(move) for move in _joins(kernel)]
    for first in single:
        yield Alternative((first,), then)
    for first in single:
        try:
            after = rewrite(kernel, first, step_limit=STEP_LIMIT).kernel
        except DojoError:
            continue
        for second in _joins(after):
            yield Alternative((first, str(second)), then)


def _after_collapsing(kernel: Kernel, buffer: str, then: str) -> Iterator[Alternative]:
    """A place of constant size: the dimensions of open extent collapsed."""
    dims = kernel.buffer(buffer).dims
    open_dims = [d for d, dim in enumerate(dims) if not dim.collapsed and not dim.extent.is_constant]
    collapse = tuple(f"reuse_dims({buffer}, {d})" for d in open_dims)
    yield Alternative(collapse, then)
    for join in _joins(kernel):
        yield Alternative((str(join), *collapse), then)


def _after_inlining(kernel: Kernel, buffer: str, then: str) -> Iterator[Alternative]:
    """A temporary that nothing reads: its reads inlined."""
    readers = [
        site.path
        for site in kernel.sites
        if site.statement.target.buffer != buffer
        and any(access.buffer == buffer for access in site.statement.reads)
    ]
    yield Alternative(tuple(f"inline({format_path(path)}, {buffer})" for path in readers), then)


# -- scopes ------------------------------------------------------------------------------------------------
def _to_join(kernel: Kernel, first: Path, second: Path) -> Iterator[Alternative]:
    """Two scopes side by side, alike, the second late enough."""
    a, b = kernel.at(first), kernel.at(second)
    one, two = format_path(first), format_path(second)
    if not (isinstance(a, Scope) and isinstance(b, Scope)):
        return
    if first[:-1] != second[:-1]:
        yield from _around_them(kernel, first, second)
        return
    if second[-1] == first[-1] - 1:
        yield Alternative((), f"join_scopes({two}, {one})")
    for mark in dict.fromkeys(a.marks + b.marks):
        yield Alternative(tuple(f"unmark({p}, {mark})" for p, s in ((one, a), (two, b)) if mark in s.marks),
                          f"join_scopes({one}, {two})")  # fmt: skip
    if second[-1] - first[-1] == 2:
        between = format_path((*first[:-1], first[-1] + 1))
        yield Alternative((f"swap_siblings({one})",), f"join_scopes({between}, {two})")
        yield Alternative((f"swap_siblings({between})",), f"join_scopes({one}, {between})")
    join = f"join_scopes({one}, {two})"
    yield Alternative((f"set_extent({two}, {format_extent(a.extent)})",), join)
    yield Alternative((f"set_extent({one}, {format_extent(b.extent)})",), join)
    if len(a.extent.bounds) == 1 and len(b.extent.bounds) == 1:
        longer = a.extent.bounds[0] - b.extent.bounds[0]
        if longer.is_constant and longer.offset > 0:
            yield Alternative((f"shift({two}, {longer.offset})",), join)
            yield Alternative((f"cut({one}, {longer.offset})",), f"join_scopes({_next(first)}, {_next(second)})")
        elif longer.is_constant and longer.offset < 0:
            yield Alternative((f"shift({one}, {-longer.offset})",), join)
            # The rest of the second is cut off behind it.
            yield Alternative((f"cut({two}, {format_extent(a.extent)})",), join)
    for by in (1, 2):
        # Both run to the same end: the first with nothing to do in its last iterations.
        later = f"{format_extent(b.extent)} + {by}"
        yield Alternative((f"shift({two}, {by})", f"set_extent({one}, {later})"), join)
        yield Alternative((f"shift({two}, {by})", f"cut({two}, {format_extent(a.extent)})"), join)


def _around_them(kernel: Kernel, first: Path, second: Path) -> Iterator[Alternative]:
    """The two scopes around them fused, which may bring them side by side."""
    outer, other = first[:-1], second[:-1]
    if not outer or other != (*outer[:-1], outer[-1] + 1):
        return
    join = f"join_scopes({format_path(outer)}, {format_path(other)})"
    above = kernel.at(outer)
    if not isinstance(above, Statement):
        moved = (*outer, len(above.body) + second[-1])
        yield Alternative((join,), f"join_scopes({format_path(first)}, {format_path(moved)})")
    yield Alternative((), join)


def _to_nest(kernel: Kernel, path: Path, move: str) -> Iterator[Alternative]:
    """A scope with one child: its scopes distributed."""
    scope = kernel.at(path)
    if not isinstance(scope, Scope):
        return
    here = format_path(path)
    inner = [n for n, node in enumerate(scope.body) if isinstance(node, Scope)]
    for n in inner:
        first: tuple[str, ...] = ()
        alone = path
        if n + 1 < len(scope.body):
            first += (f"split_scopes({here}, {n + 1})",)
        if n > 0:
            first += (f"split_scopes({here}, {n})",)
            alone = (*path[:-1], path[-1] + 1)
        if first:
            yield Alternative(first, move.format(format_path(alone), format_path((*alone, 0))))
    deeper = [(*path, n) for n in inner]
    for child in deeper:
        node = kernel.at(child)
        if isinstance(node, Scope) and len(node.body) == 1 and isinstance(node.body[0], Scope):
            yield Alternative((), move.format(format_path(child), format_path((*child, 0))))


def _further_inside(kernel: Kernel, path: Path, move: str) -> Iterator[Alternative]:
    """The same move on a scope inside, the outermost first."""
    inside = [p for p, node in kernel.walk() if isinstance(node, Scope) and len(p) > len(path)]
    for inner in sorted(inside, key=lambda p: (len(p), p)):
        if inner[: len(path)] == path:
            yield Alternative((), move.format(format_path(inner)))


def _other_places(kernel: Kernel, move: Move, nodes: tuple[Node, ...]) -> Iterator[Alternative]:
    """Nothing nearer is known than the same move elsewhere among the same siblings."""
    path = kernel.path(move.places()[0])
    for n in range(len(nodes) - 1):
        if n != path[-1]:
            yield Alternative((), f"{move.name}({format_path((*path[:-1], n))})")


# -- marks -------------------------------------------------------------------------------------------------
def _to_mark(kernel: Kernel, path: Path, move: Move, verdict: Verdict) -> Iterator[Alternative]:
    """A scope that may have the mark: of constant extent, with storage of its own in each iteration, with partial
    results, with only what is independent in it; or another scope of the nest."""
    scope = kernel.at(path)
    if not isinstance(scope, Scope):
        return
    here = format_path(path)
    if verdict.code == "mark-clash" or scope.marks:
        for mark in reversed(scope.marks):
            yield Alternative((f"unmark({here}, {mark})",), str(move))
        yield Alternative((f"split({here}, 8)",), f"{move.name}({here}.0)")
    if move.name == "unroll":
        for factor in (4, 8):
            yield Alternative((f"split({here}, {factor})",), f"unroll({here}.0)")
    yield from _with_own_storage(kernel, path, str(move))
    if move.name == "vectorize" and kernel.fp != "strict":
        yield from _with_partial_results(kernel, path)
    yield from _parts(scope, path, move.name)
    yield from _nearby(kernel, path, move.name)


def _with_own_storage(kernel: Kernel, path: Path, then: str) -> Iterator[Alternative]:
    """The storage that iterations share given back to each of them."""
    touched = dict.fromkeys(
        access.buffer
        for site in kernel.sites
        if site.path[: len(path)] == path
        for access in site.statement.accesses
    )
    for name in touched:
        for d, dim in enumerate(kernel.buffer(name).dims):
            if dim.collapsed:
                yield Alternative((f"materialize_dims({name}, {d})",), then)


def _with_partial_results(kernel: Kernel, path: Path) -> Iterator[Alternative]:
    here, later = format_path(path), _next(path)
    sums = dict.fromkeys(
        site.statement.target.buffer
        for site in kernel.sites
        if site.path[: len(path)] == path and site.statement.accumulation is not None
    )
    for name in sums:
        part = fresh_name(kernel, f"{name}_part")
        yield Alternative(
            (f"split_reduction({here}, {name}, {part}, 8)", f"split({later}, 8)"), f"vectorize({later}.0)"
        )


def _parts(scope: Scope, path: Path, name: str) -> Iterator[Alternative]:
    """One part of a scope that is distributed."""
    here, later = format_path(path), _next(path)
    for children in range(1, len(scope.body)):
        first = (f"split_scopes({here}, {children})",)
        yield Alternative(first, f"{name}({here})")
        yield Alternative(first, f"{name}({later})")


def _nearby(kernel: Kernel, path: Path, name: str) -> Iterator[Alternative]:
    """The same mark on a scope inside, or around."""
    for inner, node in kernel.walk():
        if isinstance(node, Scope) and len(inner) > len(path) and inner[: len(path)] == path:
            yield Alternative((), f"{name}({format_path(inner)})")
    for length in range(len(path) - 1, 0, -1):
        if isinstance(kernel.at(path[:length]), Scope):
            yield Alternative((), f"{name}({format_path(path[:length])})")


def _next(path: Path) -> str:
    return format_path((*path[:-1], path[-1] + 1))
