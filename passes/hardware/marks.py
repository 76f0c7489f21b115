"""Moves that say how the hardware runs a scope: in lanes, on cores, unrolled, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dojoir.ir.nodes import MARKS as ALL_MARKS
from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.ir.places import ancestors
from dojoir.ir.words import BLOCK, GRID, LEVELS, MAX_BLOCK, MAX_WAVE
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Rewrite, Word
from dojoir.passes.base.reach import Reach
from dojoir.passes.hardware.marking import to_mark
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class _Mark(AboutScope):
    """Adds a mark to a scope."""

    reach: ClassVar[Reach] = Reach.NODE
    mark: ClassVar[str]

    def rewrite(self, kernel: Kernel) -> Rewrite:
        return _marked(self.found(kernel), self.mark, self.scope)

    def inverse(self, before: Kernel) -> Move:
        return Unmark(self.found(before).place, Word(self.mark))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        return to_mark(kernel, self.scope, self.name, verdict)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [()] if not at.node.marks else []


def _marked(at: Here[Scope], mark: str, named: str) -> Rewrite:
    """A scope with one mark more. Raises Refusal where it has it."""
    if mark in at.node.marks:
        raise at.refusal("no-change", f"{named} is marked `{mark}` already")
    return at.changed(marks=(*at.node.marks, str(mark)))


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
class Bind(AboutScope):
    """Runs the iterations of a scope on a part of a GPU: on blocks of a grid (marks `gx gy gz`), threads of a block
    (`bx by bz`) or lanes of a warp (`lane`).

    Legal where the iterations are independent, or accumulate into one element in an order that is free: threads put
    that together, blocks with atomics. Temporaries that are each iteration's own are in `reg` or `stack`, under the
    marks of a grid in `shared`, too. A scope of threads has a constant bound. The inverse is `unmark`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "bind(0, gx)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N : gx
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "bind"
    reach: ClassVar[Reach] = Reach.NODE
    targets: ClassVar[frozenset[str] | None] = frozenset({"cuda", "hip"})
    mark: Word

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at = self.found(kernel)
        if self.mark not in LEVELS:
            raise at.refusal("unknown-mark", f"'{self.mark}' is none of the marks {', '.join(LEVELS)}")
        return _marked(at, self.mark, self.scope)

    def inverse(self, before: Kernel) -> Move:
        return Unmark(self.found(before).place, self.mark)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        marks = _bindings(at.kernel, at.path, at.node) if not at.node.marks else ()
        return ((Word(mark),) for mark in marks)


def _bindings(kernel: Kernel, path: Path, scope: Scope) -> Iterator[str]:
    """The marks of a GPU that a scope could have, by its place: the next of a grid where only a grid is around it,
    of a block where its bound is constant."""
    around: set[str] = set()
    for node in ancestors(kernel, path):
        if isinstance(node, Scope):
            if not set(node.marks) <= LEVELS.keys():
                return
            around.update(node.marks)
    if around.isdisjoint((*BLOCK, "lane")):
        yield from [mark for mark in GRID if mark not in around][:2]
    bound = scope.constant_bound
    if bound is None or not 1 < bound <= MAX_BLOCK:
        return
    if "lane" in around:
        inner = kernel.at(path[:-1])
        if isinstance(inner, Scope) and "lane" in inner.marks and len(inner.body) == 1 and bound & (bound - 1) == 0:
            yield "lane"
        return
    yield from [mark for mark in BLOCK if mark not in around][:2]
    if bound <= MAX_WAVE and bound & (bound - 1) == 0:
        yield "lane"


@dataclass(frozen=True)
class Unmark(AboutScope):
    """Takes a mark off a scope, the last first: it runs in order again. The inverse of `parallelize`, `vectorize`,
    `unroll` and `bind`.

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
    reach: ClassVar[Reach] = Reach.NODE
    mark: Word

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at = self.found(kernel)
        mark, marks = self.mark, at.node.marks
        if mark not in ALL_MARKS:
            raise at.refusal("unknown-mark", f"'{mark}' is none of the marks {', '.join(ALL_MARKS)}")
        if marks[-1:] != (mark,):
            last = f"its last mark is `{marks[-1]}`" if marks else "it has no mark"
            raise at.refusal("not-marked", f"{self.scope} cannot lose the mark `{mark}`: {last}")
        return at.changed(marks=marks[:-1])

    def inverse(self, before: Kernel) -> Move:
        place = self.found(before).place
        return Bind(place, self.mark) if self.mark in LEVELS else MARKS[self.mark](place)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return ((Word(mark),) for mark in at.node.marks[-1:])


MOVES = (Unroll, Vectorize, Parallelize, Bind, Unmark)
