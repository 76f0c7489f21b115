"""`prefetch` and `unprefetch`: what an iteration reads is fetched some iterations before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine
from dojoir.ir.hints import Prefetch as Hint
from dojoir.ir.nodes import Kernel, Path, Scope, accesses_in
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Place,
    Refusal,
    Rewrite,
    place_of,
    scope_at,
    scope_or_none,
    scopes,
)
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import identity
from dojoir.proof.core.hint_rules import hint_error, moves_along
from dojoir.support.frozen import dataclass

LINES_AHEAD = (8, 32, 64, 256)
"""How many cache lines ahead the prefetches are that are listed."""


LINE = 64


@dataclass(frozen=True)
class Prefetch(Move):
    """Fetches into cache, in each iteration of a scope, what its accesses to `buffer` touch `distance` iterations
    later (hint `prefetch`). It changes no result: any is legal where the scope uses the buffer. The inverse is
    `unprefetch`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N : v
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "prefetch(0, x, 128)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N : v, prefetch(x, 128)
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "prefetch"
    reach: ClassVar[Reach] = Reach.NODE
    scope: Place
    buffer: BufferName
    distance: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        kernel.buffer(self.buffer)
        hinted = replace(scope, hints=(*scope.hints, Hint(self.buffer, self.distance)))
        after = kernel.replace_node(path, hinted)
        wrong = hint_error(after, path, hinted)
        if wrong is not None:
            raise Refusal(wrong.code, wrong.message.partition(": take")[0].partition("; take")[0], path)
        return Rewrite(after, identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return Unprefetch(place_of(before.path(self.scope)), self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            fetched = {hint.about for hint in scope.hints}
            for name, lines in _streams_of(kernel, path).items():
                if Hint(name, 1).about not in fetched:
                    for ahead in LINES_AHEAD:
                        yield cls(place_of(path), BufferName(name), ahead * lines)

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        if scope_or_none(kernel, place) is None or isinstance(place, str):
            return
        for name in _streams_of(kernel, place, anywhere=True):
            yield from (cls(place_of(place), BufferName(name), n) for n in numbers if n > 0)


def _streams_of(kernel: Kernel, path: Path, anywhere: bool = False) -> dict[str, int]:
    """The arguments that the statements right in a scope (`anywhere`: at any depth) walk through, in the order of
    the text, each with the number of iterations in a cache line."""
    depth = kernel.depth_of(path)
    found: dict[str, int] = {}
    for site in kernel.sites:
        if site.path[:-1] == path or (anywhere and is_inside(site.path, path)):
            for access in accesses_in((site.statement,)):
                buffer = kernel.buffer(access.buffer)
                if buffer.role != "tmp" and moves_along(access, depth):
                    last = access.indices[(buffer.order or tuple(range(len(buffer.dims))))[-1]]
                    along = isinstance(last, Affine) and depth in last.iterators
                    found.setdefault(buffer.name, max(1, LINE // buffer.dtype.itemsize) if along else 1)
    return found


@dataclass(frozen=True)
class Unprefetch(Move):
    """Takes the hint to fetch `buffer` ahead off a scope. The inverse of `prefetch`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N : v, prefetch(x, 128)
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unprefetch(0, x)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N : v
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unprefetch"
    scope: Place
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        hint = self._hint(path, scope)
        hints = tuple(other for other in scope.hints if other != hint)
        return Rewrite(kernel.replace_node(path, replace(scope, hints=hints)), identity(kernel))

    def _hint(self, path: Path, scope: Scope) -> Hint:
        for hint in scope.hints:
            if isinstance(hint, Hint) and hint.buffer == self.buffer:
                return hint
        raise Refusal("no-hint", f"{self.scope} does not fetch `{self.buffer}` ahead", path)

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        return Prefetch(place_of(path), self.buffer, self._hint(path, scope).distance)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            for hint in scope.hints:
                if isinstance(hint, Hint):
                    yield cls(place_of(path), BufferName(hint.buffer))


MOVES = (
    Prefetch,
    Unprefetch,
)
