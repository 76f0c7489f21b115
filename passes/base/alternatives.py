"""The alternatives to an illegal move: moves to make first, or the move in another place, the nearest first.

A move names its own alternatives (`Move.alternatives`), with these helpers; `suggest` tries them. They are texts,
and hold no proof: each is checked before anybody is told of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from dojoir.ir.nodes import Kernel, Path, Scope, format_path
from dojoir.ir.paths import is_inside, next_sibling
from dojoir.ir.places import siblings


class Alternative(NamedTuple):
    """Moves to make first, in order, and the move that may be legal then."""

    first: tuple[str, ...]
    then: str


def inner_scope(scope: Scope) -> Scope | None:
    """The scope that is the only child of a scope; None where there is none."""
    return scope.body[0] if len(scope.body) == 1 and isinstance(scope.body[0], Scope) else None


def after_joins(kernel: Kernel, then: str) -> Iterator[Alternative]:
    """The same move after scopes are fused, one pair or two: a value that lives shorter may share storage."""
    pairs = list(adjacent_scopes(kernel))
    for pair in pairs:
        yield Alternative((join(pair),), then)
    for pair in pairs:
        for other in adjacent_scopes(_joined(kernel, pair)):
            yield Alternative((join(pair), join(other)), then)


def adjacent_scopes(kernel: Kernel) -> Iterator[Path]:
    """The first of each two scopes that follow one another in the same scope."""
    for path, node in kernel.walk():
        following = siblings(kernel, path)[path[-1] + 1 : path[-1] + 2]
        if isinstance(node, Scope) and following and isinstance(following[0], Scope):
            yield path


def join(path: Path) -> str:
    """The text of the move that fuses a scope with the next one."""
    return f"join_scopes({format_path(path)}, {next_to(path)})"


def _joined(kernel: Kernel, path: Path) -> Kernel:
    """The tree as a fusion would leave it."""
    first, second = kernel.at(path), kernel.at(next_sibling(path))
    assert isinstance(first, Scope)
    assert isinstance(second, Scope)
    return kernel.replace_node(path, replace(first, body=first.body + second.body), count=2)


def next_to(path: Path) -> str:
    """The place after a node in the same scope."""
    return format_path(next_sibling(path))


def further_inside(kernel: Kernel, path: Path, move: str) -> Iterator[Alternative]:
    """The same move on a scope inside, the outermost first; `{}` in its text is the place."""
    inside = [p for p, node in kernel.walk() if isinstance(node, Scope) and len(p) > len(path)]
    for inner in sorted(inside, key=lambda p: (len(p), p)):
        if is_inside(inner, path):
            yield Alternative((), move.format(format_path(inner)))


def to_nest(kernel: Kernel, path: Path, move: str) -> Iterator[Alternative]:
    """A move on a scope with one child (`{0}` and `{1}` in its text): the scope distributed, or one inside."""
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
            alone = next_sibling(path)
        if first:
            yield Alternative(first, move.format(format_path(alone), format_path((*alone, 0))))
    for child in ((*path, n) for n in inner):
        node = kernel.at(child)
        if isinstance(node, Scope) and inner_scope(node) is not None:
            yield Alternative((), move.format(format_path(child), format_path((*child, 0))))


def whole_blocks(scope: Scope, path: Path, factor: int) -> Iterator[tuple[str, ...]]:
    """How a scope becomes one over blocks of just `factor` iterations: split, after a cut where some are left."""
    here = format_path(path)
    yield (f"split({here}, {factor})",)
    for bound in scope.extent.bounds[:1]:
        if not bound.is_constant or bound.offset % factor:
            yield (f"cut({here}, {bound // factor * factor})", f"split({here}, {factor})")
