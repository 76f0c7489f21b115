"""Moves that say how the hardware runs a scope: in lanes, on cores, unrolled, on a GPU. And hints put on scopes and
taken off them, which changes no result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, TypeVar

from dojoir.ir.hints import Hint
from dojoir.ir.nodes import MARKS as ALL_MARKS
from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.ir.places import ancestors
from dojoir.ir.words import BLOCK, GRID, LEVELS, MAX_BLOCK, MAX_WAVE
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Rewrite, Word
from dojoir.passes.base.reach import Reach
from dojoir.passes.hardware.marking import to_mark
from dojoir.proof.core.hint_rules import hint_error
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class _Mark(AboutScope, reach=Reach.NODE):
    """Adds a mark to a scope."""

    mark: ClassVar[str]

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        return _marked(at, self.mark, self.scope)

    def back(self, at: Here[Scope]) -> Move:
        return Unmark(at.place, Word(self.mark))

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


class Vectorize(_Mark, name="vectorize", mark="v"):
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


class Parallelize(_Mark, name="parallelize", mark="p"):
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


class Unroll(_Mark, name="unroll", mark="u"):
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


MARKS: dict[str, type[_Mark]] = {kind.mark: kind for kind in (Vectorize, Parallelize, Unroll)}
"""The moves that add a mark, by the mark."""


@dataclass(frozen=True)
class Bind(AboutScope, name="bind", reach=Reach.NODE, targets=frozenset({"cuda", "hip"})):
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

    mark: Word

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        if self.mark not in LEVELS:
            raise at.refusal("unknown-mark", f"'{self.mark}' is none of the marks {', '.join(LEVELS)}")
        return _marked(at, self.mark, self.scope)

    def back(self, at: Here[Scope]) -> Move:
        return Unmark(at.place, self.mark)

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
class Unmark(AboutScope, name="unmark", reach=Reach.NODE):
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

    mark: Word

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        mark, marks = self.mark, at.node.marks
        if mark not in ALL_MARKS:
            raise at.refusal("unknown-mark", f"'{mark}' is none of the marks {', '.join(ALL_MARKS)}")
        if marks[-1:] != (mark,):
            last = f"its last mark is `{marks[-1]}`" if marks else "it has no mark"
            raise at.refusal("not-marked", f"{self.scope} cannot lose the mark `{mark}`: {last}")
        return at.changed(marks=marks[:-1])

    def back(self, at: Here[Scope]) -> Move:
        return Bind(at.place, self.mark) if self.mark in LEVELS else MARKS[self.mark](at.place)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return ((Word(mark),) for mark in at.node.marks[-1:])


H = TypeVar("H", bound=Hint)


def hinted(at: Here[Scope], hint: Hint) -> Rewrite:
    """The scope with one hint more. Raises Refusal where that does not fit it."""
    used = replace(at.node, hints=(*at.node.hints, hint))
    done = at.unmoved(used)
    wrong = hint_error(done.kernel, at.path, used)
    if wrong is not None:
        raise at.refusal(wrong.code, re.split("[:;] take (?:one|it) ", wrong.message)[0])
    return done


def hint_of(at: Here[Scope], kind: type[H], about: str, absent: str) -> H:
    """The hint of a scope on a subject. Raises Refusal, with what is said of a scope that has none."""
    for hint in at.node.hints:
        if isinstance(hint, kind) and hint.about == about:
            return hint
    raise at.refusal("no-hint", absent)


def without_hint(at: Here[Scope], gone: Hint) -> Rewrite:
    """The scope without one of its hints."""
    return at.changed(hints=tuple(hint for hint in at.node.hints if hint != gone))
