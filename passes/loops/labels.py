"""Moves that give and take names of scopes. They change nothing else, and the canonical text has no labels."""

from __future__ import annotations

from typing import ClassVar

from dojoir.ir.names import is_label
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.about import AboutScope
from dojoir.passes.base.move import Move, Rewrite, Word, scopes
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Label(AboutScope):
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

    name: ClassVar[str] = "label"
    label: Word

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at, label = self.found(kernel), self.label
        if not is_label(label):
            raise at.refusal("bad-name", f"'{label}' is no label: write letters, digits and '_'")
        if at.node.label == label:
            raise at.refusal("no-change", f"{self.scope} is labelled so already")
        if any(other.label == label for _, other in scopes(kernel)):
            raise at.refusal("name-taken", f"@{label} is the label of another scope")
        return at.changed(label=label)

    def inverse(self, before: Kernel) -> Move:
        at = self.found(before)
        return Label(at.place, Word(at.node.label)) if at.node.label else Unlabel(at.place)


@dataclass(frozen=True)
class Unlabel(AboutScope):
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

    name: ClassVar[str] = "unlabel"

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at = self.found(kernel)
        if at.node.label is None:
            raise at.refusal("no-change", f"{self.scope} has no label")
        return at.changed(label=None)

    def inverse(self, before: Kernel) -> Move:
        at = self.found(before)
        return Label(at.place, Word(at.node.label or ""))


MOVES = (Label, Unlabel)
