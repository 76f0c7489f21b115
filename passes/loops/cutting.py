"""The range of a scope cut in two, and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Extent, Kernel, Scope, substitute, substitute_iterators
from dojoir.passes.base.about import AboutPair, AboutScope, Arguments, Here
from dojoir.passes.base.move import Formula, Move, Rewrite, Undoing, moved
from dojoir.passes.base.properties import excess, is_host_code, versions
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import InstanceMap, identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

BLOCKS = (4, 8, 16, 32, 64)
"""A cut after the last whole block of so many iterations is listed."""


@dataclass(frozen=True)
class Cut(AboutScope, name="cut", reach=Reach.NODE | Reach.PANE):
    """Cuts the range of a scope in two: iterations below `at`, and the rest in a scope of its own after it.

    `at` is affine in the sizes and the iterators around the scope. The first extent is `at` where that is known
    not to be more than the extent, else the smaller of the two. The label stays on the first. The inverse is
    `join_ranges`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "cut(@i, 16*(N // 16))"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    16*(N // 16) @i
    | y[{i}] = 2 * x[{i}]
    N - 16*(N // 16)
    | y[{0} + 16*(N // 16)] = 2 * x[{0} + 16*(N // 16)]
    <BLANKLINE>
    """

    at: Formula

    def rewritten(self, here: Here[Scope]) -> Rewrite:
        kernel, bounds = here.kernel, here.node.extent.bounds
        at = self.at.affine(kernel, here.depth)
        inside = sets_of(kernel).holds_around(here.path, [Condition(at, "<=", bound) for bound in bounds])
        first = replace(here.node, extent=Extent((at,) if inside else (*bounds, at)))
        later = substitute_iterators({here.depth: at + here.own})
        body = tuple(substitute(node, later) for node in here.node.body)
        rest = Extent(tuple(bound - at for bound in bounds))
        second = Scope(rest, body, here.node.marks, hints=here.node.hints)
        origins, mine = identity(kernel).origins, here.numbers
        end = mine[-1] + 1 if mine else 0
        origins = (*origins[:end], *moved(kernel, mine, later), *origins[end:])
        return Rewrite(here.replaced(first, second), InstanceMap(origins))

    def back(self, here: Here[Scope]) -> Move:
        return JoinRanges(here.place, here.beside(), self.at)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        bound, *more = at.node.extent.bounds
        if more:
            return
        ways = [Affine.constant(1), bound - 1]
        if not bound.is_constant:
            ways += [bound // block * block for block in BLOCKS]
        for way in dict.fromkeys(ways):
            if not (way.is_constant and bound.is_constant and not 0 < way.offset < bound.offset):
                yield (Formula(str(way)),)

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        """After so many iterations, so many before the end, and after the last whole block of so many."""
        most, bounds = at.node.constant_bound, at.node.extent.bounds
        for n in numbers:
            ways = [Affine.constant(n)]
            ways += [way for bound in bounds for way in (bound // n * n, bound - n)] if n > 0 else []
            for way in ways:  # that may leave something on both sides
                if not way.is_constant or (way.offset > 0 and (most is None or way.offset < most)):
                    yield (Formula(str(way)),)

    @classmethod
    def more(cls, at: Here[Scope], machine: Machine) -> Arguments:
        """At an iterator around, or one more: the parts before and behind a diagonal. What runs once, in two
        versions."""
        if at.node.extent.constant == 1 and is_host_code(at.kernel, at.path):
            yield from ((Formula(excess(version)),) for version in versions(at.kernel, machine))
        for depth in range(at.depth):
            yield from ((Formula(str(Affine.iterator(depth) + more)),) for more in (0, 1))


@dataclass(frozen=True)
class JoinRanges(Undoing, AboutPair, name="join_ranges"):
    """Makes one scope of a scope and the next one, which runs on from iteration `at` with the same body. The
    inverse of `cut`. The label of the first stays.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... 1 @i
    ... | y[{i}] = 2 * x[{i}]
    ... N - 1
    ... | y[{0} + 1] = 2 * x[{0} + 1]
    ... ''')
    >>> print(dojoir.apply(k, "join_ranges(0, 1, 1)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    at: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        first, second = self.pair(kernel)
        at = self.at.affine(kernel, first.depth)
        whole = replace(first.node, extent=Extent(tuple(bound + at for bound in second.node.extent.bounds)))
        return first.replaced(whole, count=2), Cut(first.place, self.at)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        following = cls.following(at)
        if following is not None and len(following.body) == len(at.node.body):
            yield at.beside(), Formula(str(at.node.extent.bounds[-1]))
