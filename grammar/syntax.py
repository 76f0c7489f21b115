"""The tree as it was written: what the grammar gives, before any name in it is known."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import Span
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Word:
    """A name, a keyword, a number or a sign, with its place."""

    text: str
    span: Span


# -- expressions -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Number:
    """`16`, `0.5`, `1e-5`, `inf` or `nan`."""

    text: str
    span: Span


@dataclass(frozen=True)
class Name:
    """A size, or a scalar buffer."""

    text: str
    span: Span


@dataclass(frozen=True)
class Iterator:
    """`{0}` or `{i}`, without the braces."""

    text: str
    span: Span


@dataclass(frozen=True)
class Subscript:
    """`name[args]`."""

    name: Word
    args: tuple[Expr, ...]
    span: Span


PAIR = ","
"""The name of a call that is none: `(left, right)` on a side of a statement."""


@dataclass(frozen=True)
class Call:
    """`name(args)`."""

    name: Word
    args: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True)
class Unary:
    """`-arg` or `not arg`."""

    sign: str
    arg: Expr
    span: Span


@dataclass(frozen=True)
class Binary:
    """`left sign right`."""

    left: Expr
    sign: str
    right: Expr
    span: Span


Expr = Number | Name | Iterator | Subscript | Call | Unary | Binary


def with_span(expr: Expr, span: Span) -> Expr:
    """The expression at a wider place: with the brackets around it."""
    return replace(expr, span=span)


# -- the body ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Statement:
    """`target sign value`, or `target sign value if condition`; the sign is `=` or an accumulation."""

    target: Expr
    sign: str
    value: Expr
    condition: Expr | None
    span: Span


@dataclass(frozen=True)
class Hint:
    """`word(name)` or `word(name, number)` among the marks of a scope."""

    word: Word
    name: Word
    number: Word | None
    span: Span


@dataclass(frozen=True)
class Scope:
    """`extent : marks, hints @label` and the lines below it. `span` is the place of its own line."""

    extent: Expr
    marks: tuple[Word | Hint, ...]
    label: Word | None
    body: tuple[Node, ...]
    span: Span


@dataclass(frozen=True)
class Guard:
    """`if condition` and the lines below it. `span` is the place of its own line."""

    condition: Expr
    body: tuple[Node, ...]
    span: Span


Node = Statement | Scope | Guard


# -- the header --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Size:
    """`name`, or `name = value`."""

    name: Word
    value: Word | None


@dataclass(frozen=True)
class Where:
    """`where facts`."""

    facts: tuple[Expr, ...]


@dataclass(frozen=True)
class Fp:
    """`fp mode`."""

    mode: Word


@dataclass(frozen=True)
class Dim:
    """`extent`, or `extent~`."""

    extent: Expr
    collapsed: bool


@dataclass(frozen=True)
class Attribute:
    """`name`, `name 64` or, where `listed`, `name(1, 0)`."""

    name: Word
    numbers: tuple[Word, ...]
    listed: bool
    span: Span


@dataclass(frozen=True)
class Buffer:
    """`role name: dtype[dims] attributes`."""

    role: str
    name: Word
    dtype: Word
    dims: tuple[Dim, ...]
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True)
class Kernel:
    """A whole text."""

    name: Word
    sizes: tuple[Size, ...]
    header: tuple[Where | Fp | Buffer, ...]
    body: tuple[Node, ...]
