"""Moves that say how a kernel uses the caches: what is fetched ahead, what is stored past them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dojoir.affine import Affine
from dojoir.attributes import stream_error
from dojoir.dataflow import identity
from dojoir.fitting import hint_error, moves_along
from dojoir.hints import Prefetch as Hint
from dojoir.ir import Kernel, Path, Scope, accesses_in
from dojoir.passes.move import BufferName, Move, Place, Refusal, Rewrite, place_of, scope_at, scopes

LINES_AHEAD = (8, 32)
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


def _streams_of(kernel: Kernel, path: Path) -> dict[str, int]:
    """The arguments that the statements right in a scope walk through, in the order of the text, each with the
    number of iterations in a cache line."""
    depth = kernel.depth_of(path)
    found: dict[str, int] = {}
    for site in kernel.sites:
        if site.path[:-1] == path:
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


@dataclass(frozen=True)
class Stream(Move):
    """Stores to `buffer` bypass the caches (attribute `stream`): for what is written once and not read soon.

    It changes no result. Contiguous vectors are streamed; the lowering brings the loop to their alignment. The
    inverse is `unstream`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N : v
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "stream(y)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N] stream
    <BLANKLINE>
    N : v
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "stream"
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = kernel.buffer(self.buffer)
        if buffer.stream:
            raise Refusal("no-change", f"the stores to `{buffer.name}` bypass the caches already")
        streamed = replace(buffer, stream=True)
        wrong = stream_error(streamed)
        if wrong is not None:
            raise Refusal("not-streamed", wrong.partition(": leave")[0])
        return Rewrite(kernel.replace_buffer(streamed), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return Unstream(self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        read = {access.buffer for site in kernel.sites for access in site.statement.reads}
        for buffer in kernel.buffers:
            if buffer.role in {"out", "inout"} and buffer.dims and not buffer.stream and buffer.name not in read:
                yield cls(BufferName(buffer.name))


@dataclass(frozen=True)
class Unstream(Move):
    """Stores to `buffer` go through the caches again. The inverse of `stream`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N] stream
    ... N : v
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unstream(y)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N : v
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unstream"
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = kernel.buffer(self.buffer)
        if not buffer.stream:
            raise Refusal("no-change", f"the stores to `{buffer.name}` do not bypass the caches")
        return Rewrite(kernel.replace_buffer(replace(buffer, stream=False)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return Stream(self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.stream:
                yield cls(BufferName(buffer.name))
