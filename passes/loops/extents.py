"""Moves on how a scope is written: its extent, and its name, which the canonical text has not."""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Extent, Scope
from dojoir.ir.words import is_label
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.move import Formula, Move, Rewrite, Word, scopes
from dojoir.passes.base.properties import is_host_code
from dojoir.passes.base.reach import Reach
from dojoir.support.frozen import dataclass

BLOCK_THREADS = (32, 64, 128, 256, 512, 1024)
"""The threads of a block: what an open extent is made where the iterations behind its end do nothing."""


@dataclass(frozen=True)
class SetExtent(AboutScope, name="set_extent", reach=Reach.PANE):
    """Writes the extent of a scope as `extent`. Legal where the two are equal, by the facts of the kernel or for
    every iteration around. The inverse is the same move, with what was written before.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... where N % 8 == 0
    ... in  x: f32[N]
    ... out y: f32[N]
    ... 8*(N // 8) @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "set_extent(@i, N)"))
    kernel f(N)
    where N % 8 == 0
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    extent: Formula

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        extent = self.extent.extent(at.kernel, at.depth)
        if extent == at.node.extent:
            raise at.refusal("no-change", f"the extent of {self.scope} is written so already")
        return at.changed(extent=extent)

    def back(self, at: Here[Scope]) -> Move:
        return SetExtent(at.place, Formula(format_extent(at.node.extent)))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        """Those of the scopes before and after it."""
        number, around = at.path[-1], at.siblings
        for other in (*around[max(number - 1, 0) : number], *around[number + 1 : number + 2]):
            if isinstance(other, Scope) and other.extent != at.node.extent:
                yield (Formula(format_extent(other.extent)),)

    @classmethod
    def more(cls, at: Here[Scope], machine: Machine) -> Arguments:
        """Each bound of the extent by itself, the extents of the scopes around what is beside it, and any other of
        the kernel that has a meaning there. For launches of a GPU 1, and for what may be bound to threads the sizes
        of blocks."""
        own = at.node.extent
        if machine.kind == "gpu" and is_host_code(at.kernel, at.path) and own.constant != 1:
            yield (Formula("1"),)  # under a guard that says when it runs
        if machine.kind == "gpu" and own.constant is None:
            yield from ((Formula(str(threads)),) for threads in BLOCK_THREADS)
        for extent in (
            *(Extent((bound,)) for bound in own.bounds),
            *(other.extent for _, other in scopes(at.kernel)),
        ):
            if extent != own and all(d < at.depth for bound in extent.bounds for d in bound.iterators):
                yield (Formula(format_extent(extent)),)


@dataclass(frozen=True)
class Label(AboutScope, name="label"):
    """Labels the scope at `scope`: `@label` is its place from then on. None are listed, for names have no end. The
    inverse is `unlabel`, or the same move with the label that was there.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "label(0, i)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    label: Word

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        label = self.label
        if not is_label(label):
            raise at.refusal("bad-name", f"'{label}' is no label: write letters, digits and '_'")
        if at.node.label == label:
            raise at.refusal("no-change", f"{self.scope} is labelled so already")
        if any(other.label == label for _, other in scopes(at.kernel)):
            raise at.refusal("name-taken", f"@{label} is the label of another scope")
        return at.changed(label=label)

    def back(self, at: Here[Scope]) -> Move:
        return Label(at.place, Word(at.node.label)) if at.node.label else Unlabel(at.place)


@dataclass(frozen=True)
class Unlabel(AboutScope, name="unlabel"):
    """Takes the label off the scope at `scope`. None are listed. The inverse is `label`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unlabel(@i)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        if at.node.label is None:
            raise at.refusal("no-change", f"{self.scope} has no label")
        return at.changed(label=None)

    def back(self, at: Here[Scope]) -> Move:
        return Label(at.place, Word(at.node.label or ""))
