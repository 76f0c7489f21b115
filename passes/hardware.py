"""Moves that say how the hardware runs a scope: in lanes, on cores, unrolled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dojoir.dataflow import identity
from dojoir.ir import Kernel, format_path
from dojoir.passes.move import Move, Place, Refusal, Rewrite, Word, place_of, scope_at, scopes


@dataclass(frozen=True)
class _Mark(Move):
    """Adds a mark to a scope."""

    mark: ClassVar[str]
    scope: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if self.mark in scope.marks:
            raise Refusal("no-change", f"{self.scope} is marked `{self.mark}` already", path)
        marked = replace(scope, marks=(*scope.marks, self.mark))
        return Rewrite(kernel.replace_node(path, marked), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return Unmark(place_of(before.path(self.scope)), Word(self.mark))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Self]:
        for path, scope in scopes(kernel):
            if not scope.marks:
                yield cls(Place(format_path(path)))


class Vectorize(_Mark):
    """Runs the iterations of a scope in vector lanes (mark `v`).

    Legal where no iteration needs what another does; accumulations into an element that all lanes share are
    combined in any order. A constant extent is the number of lanes, an open one leaves it to the target. The
    inverse is `unmark`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out s: f32
    ... s = 0
    ... N
    ... | s += x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "vectorize(1)"))
    kernel f(N)
    in  x: f32[N]
    out s: f32
    <BLANKLINE>
    s = 0
    N : v
    | s += x[{0}]
    <BLANKLINE>
    """

    name = "vectorize"
    mark = "v"


class Parallelize(_Mark):
    """Shares the iterations of a scope out over the cores (mark `p`).

    Legal where no iteration touches what another writes. A temporary whose every use is inside the scope is
    each iteration's own. The inverse is `unmark`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "parallelize(0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N : p
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name = "parallelize"
    mark = "p"


class Unroll(_Mark):
    """Writes out the iterations of a scope of constant extent one after the other (mark `u`). The inverse is
    `unmark`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f()
    ... in  x: f32[4]
    ... out y: f32[4]
    ... 4
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unroll(0)"))
    kernel f()
    in  x: f32[4]
    out y: f32[4]
    <BLANKLINE>
    4 : u
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name = "unroll"
    mark = "u"


MARKS: dict[str, type[_Mark]] = {kind.mark: kind for kind in (Vectorize, Parallelize, Unroll)}
"""The moves that add a mark, by the mark."""


@dataclass(frozen=True)
class Unmark(Move):
    """Takes a mark, `p`, `v` or `u`, off a scope, the last first: it runs in order again. The inverse of
    `parallelize`, `vectorize` and `unroll`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N : p
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unmark(0, p)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unmark"
    scope: Place
    mark: Word

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if self.mark not in MARKS:
            raise Refusal("unknown-mark", f"'{self.mark}' is none of the marks {', '.join(MARKS)}", path)
        if scope.marks[-1:] != (self.mark,):
            last = f"its last mark is `{scope.marks[-1]}`" if scope.marks else "it has no mark"
            raise Refusal("not-marked", f"{self.scope} cannot lose the mark `{self.mark}`: {last}", path)
        bare = replace(scope, marks=scope.marks[:-1])
        return Rewrite(kernel.replace_node(path, bare), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return MARKS[self.mark](place_of(before.path(self.scope)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if scope.marks and scope.marks[-1] in MARKS:
                yield cls(place_of(path), Word(scope.marks[-1]))
