"""A move that writes an index in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Extremum
from dojoir.ir.expressions import map_leaves
from dojoir.ir.nodes import Access, Expr, Site, Statement
from dojoir.passes.base.about import AboutStatement, Arguments, Here
from dojoir.passes.base.move import Formula, Move, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.sets.ranges import without_divisions
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SetIndex(AboutStatement, name="set_index", reach=Reach.PANE):
    """Writes index `number` of a statement as `index`, counted from 0 in the order of the text, the target first.
    Legal where it gives the same element in every iteration. Where what is around decides a `min`, a `max`, a
    division or a remainder, as it does of clamped indices in the iterations that `cut` parts from the borders. The
    inverse is the same move, with what was written before.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... 1
    ... | y[{0}] = x[max({0} - 1, 0)]
    ... N - 1
    ... | y[{0} + 1] = x[max({0}, 0)]
    ... ''')
    >>> print(dojoir.apply(k, "set_index(1.0, 1, {0})"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    1
    | y[{0}] = x[max({0} - 1, 0)]
    N - 1
    | y[{0} + 1] = x[{0}]
    <BLANKLINE>
    """

    number: int
    index: Formula

    def rewritten(self, at: Here[Statement]) -> Rewrite:
        old, index = self._old(at), self.index.index(at.kernel, at.depth)
        if index == old:
            raise at.refusal("no-change", f"index {self.number} is written so already")
        return at.unmoved(_mapped(at.node, lambda number, now: index if number == self.number else now))

    def back(self, at: Here[Statement]) -> Move:
        return SetIndex(at.place, self.number, Formula(str(self._old(at))))

    def _old(self, at: Here[Statement]) -> Affine:
        """The index as it is."""
        found = indices_of(at.node)
        if not 0 <= self.number < len(found):
            message = f"the statement has {len(found)} indices in sizes and iterators, counted from 0"
            raise at.refusal("no-index", message)
        return found[self.number]

    @classmethod
    def listed(cls, at: Here[Statement]) -> Arguments:
        """Each index with a `min` or a `max` as it is without those that the scopes around are seen to decide."""
        return ((number, Formula(str(index))) for number, index in settled(at.site))

    @classmethod
    def more(cls, at: Here[Statement], machine: Machine) -> Arguments:
        """The same of divisions and remainders, and each of a `min` or a `max` by itself."""
        yield from ((number, Formula(str(index))) for number, index in settled(at.site, divided=True))
        for number, index in enumerate(indices_of(at.node)):
            yield from ((number, Formula(str(one))) for one in choices(index))


def choices(index: Affine) -> Iterator[Affine]:
    """An index with each part of a `min` or a `max` in the place of that, one after the other."""
    for atom, coefficient in index.terms:
        if isinstance(atom, Extremum):
            yield from (index + (part - Affine.atom(atom)) * coefficient for part in atom.parts)


def settled(site: Site, divided: bool = False) -> Iterator[tuple[int, Affine]]:
    """The indices of a statement, by number, that the scopes around are seen to settle, as they are then. Of those
    with a `min` or a `max`, and those with a division or a remainder if `divided` ones are meant."""
    for number, index in enumerate(indices_of(site.statement)):
        if index.is_clamped or divided:
            plain = without_divisions(index, site.scopes)
            if plain != index:
                yield number, plain


def indices_of(statement: Statement) -> list[Affine]:
    """The indices of a statement that are made of sizes and iterators, in the order of the text."""
    found: list[Affine] = []

    def note(_: int, index: Affine) -> Affine:
        found.append(index)
        return index

    _mapped(statement, note)
    return found


def _mapped(statement: Statement, new: Callable[[int, Affine], Affine]) -> Statement:
    """The statement with what `new` gives for the number of each index and itself."""
    number = -1

    def access(old: Access) -> Access:
        return Access(old.buffer, tuple([access(i) if isinstance(i, Access) else slot(i) for i in old.indices]))

    def slot(old: Affine) -> Affine:
        nonlocal number
        number += 1
        return new(number, old)

    def leaf(old: Expr) -> Expr:
        return access(old) if isinstance(old, Access) else old

    target = access(statement.target)
    return statement.made_of(target, map_leaves(statement.value, leaf), statement.loc)
