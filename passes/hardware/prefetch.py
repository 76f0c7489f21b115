"""`prefetch` and `unprefetch`: what an iteration reads is fetched some iterations before."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine
from dojoir.ir.hints import Prefetch as Hint
from dojoir.ir.nodes import Scope, accesses_in
from dojoir.ir.paths import is_inside
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.move import BufferName, Move, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.passes.hardware.marks import hint_of, hinted, without_hint
from dojoir.proof.core.hint_rules import moves_along
from dojoir.support.frozen import dataclass

LINES_AHEAD = (8, 32, 64, 256)
"""How many cache lines ahead the prefetches are that are listed."""


LINE = 64


@dataclass(frozen=True)
class Prefetch(AboutScope, name="prefetch", reach=Reach.NODE):
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

    buffer: BufferName
    distance: int

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        return hinted(at, Hint(at.kernel.buffer(self.buffer).name, self.distance))

    def back(self, at: Here[Scope]) -> Move:
        return Unprefetch(at.place, self.buffer)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        fetched = {hint.about for hint in at.node.hints}
        for name, lines in _streams_of(at).items():
            if Hint(name, 1).about not in fetched:
                yield from ((BufferName(name), ahead * lines) for ahead in LINES_AHEAD)

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        return ((BufferName(name), n) for name in _streams_of(at, anywhere=True) for n in numbers if n > 0)


def _streams_of(at: Here[Scope], anywhere: bool = False) -> dict[str, int]:
    """The arguments that the statements right in a scope (`anywhere`: at any depth) walk through, in the order of
    the text, each with the number of iterations in a cache line."""
    found: dict[str, int] = {}
    for site in at.kernel.sites:
        if site.path[:-1] == at.path or (anywhere and is_inside(site.path, at.path)):
            for access in accesses_in((site.statement,)):
                buffer = at.kernel.buffer(access.buffer)
                if buffer.role != "tmp" and moves_along(access, at.depth):
                    last = access.indices[(buffer.order or tuple(range(len(buffer.dims))))[-1]]
                    along = isinstance(last, Affine) and at.depth in last.iterators
                    found.setdefault(buffer.name, max(1, LINE // buffer.dtype.itemsize) if along else 1)
    return found


@dataclass(frozen=True)
class Unprefetch(AboutScope, name="unprefetch"):
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

    buffer: BufferName

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        return without_hint(at, self._hint(at))

    def _hint(self, at: Here[Scope]) -> Hint:
        absent = f"{self.scope} does not fetch `{self.buffer}` ahead"
        return hint_of(at, Hint, Hint(self.buffer, 1).about, absent)

    def back(self, at: Here[Scope]) -> Move:
        return Prefetch(at.place, self.buffer, self._hint(at).distance)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return ((BufferName(hint.buffer),) for hint in at.node.hints if isinstance(hint, Hint))
