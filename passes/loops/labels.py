"""Moves that give and take names of scopes. They change nothing else, and the canonical text has no labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.names import is_label
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move, Place, Refusal, Rewrite, Word, place_of, scope_at, scopes
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Label(Move):
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
    scope: Place
    label: Word

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if not is_label(self.label):
            raise Refusal("bad-name", f"'{self.label}' is no label: write letters, digits and '_'", path)
        if scope.label == self.label:
            raise Refusal("no-change", f"{self.scope} is labelled so already", path)
        if any(other.label == self.label for _, other in scopes(kernel)):
            raise Refusal("name-taken", f"@{self.label} is the label of another scope", path)
        return Rewrite(kernel.replace_node(path, replace(scope, label=self.label)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        return Label(place_of(path), Word(scope.label)) if scope.label else Unlabel(place_of(path))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        yield from ()


@dataclass(frozen=True)
class Unlabel(Move):
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
    scope: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if scope.label is None:
            raise Refusal("no-change", f"{self.scope} has no label", path)
        return Rewrite(kernel.replace_node(path, replace(scope, label=None)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        return Label(place_of(path), Word(scope.label or ""))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        yield from ()


MOVES = (Label, Unlabel)
