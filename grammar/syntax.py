"""The tree as it was written: what the grammar gives, before any name in it is known."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator as Iterable
from dataclasses import replace

from dojoir.errors import Span
from dojoir.ir.expressions import DEEPEST_EXPRESSION
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
    args: tuple[Expr, ...]
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


# -- what is in a text ---------------------------------------------------------------------------------------
def inner(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that an expression is made of."""
    match expr:
        case Subscript(_, args) | Call(_, args):
            return args
        case Unary(_, arg):
            return (arg,)
        case Binary(left, _, right):
            return left, right
        case Number() | Name() | Iterator():
            return ()


def every(expr: Expr) -> Iterable[Expr]:
    """An expression and all that it is made of, each before what is in it."""
    left = [expr]
    while left:
        yield (part := left.pop())
        left += inner(part)[::-1]


def with_inner(expr: Expr, new: Callable[[Expr], Expr]) -> Expr:
    """The expression with a new one for each that it is made of."""
    match expr:
        case Subscript(_, args) | Call(_, args):
            return replace(expr, args=tuple(map(new, args)))
        case Unary(_, arg):
            return replace(expr, arg=new(arg))
        case Binary(left, _, right):
            return replace(expr, left=new(left), right=new(right))
        case Number() | Name() | Iterator():
            return expr


def with_nodes(nodes: tuple[Node, ...], new: Callable[[Node], tuple[Node, ...]]) -> tuple[Node, ...]:
    """The nodes, with new ones for each that stands in them and then for each of them."""
    whole = (n if isinstance(n, Statement) else replace(n, body=with_nodes(n.body, new)) for n in nodes)
    return tuple(made for node in whole for made in new(node))


def wording(expr: Expr) -> str:
    """The text of an expression, wherever it stands."""
    match expr:
        case Number(text) | Name(text):
            return text
        case Iterator(text):
            return f"{{{text}}}"
        case Subscript(name, args):
            return f"{name.text}[{', '.join(map(wording, args))}]"
        case Call(name, args):
            return f"{name.text}({', '.join(map(wording, args))})"
        case Unary(sign, arg):
            return f"{sign} {wording(arg)}" if sign.isalpha() else f"{sign}{wording(arg)}"
        case Binary(left, sign, right):
            return f"({wording(left)} {sign} {wording(right)})"


def extents(written: Kernel) -> Iterable[Expr]:
    """The dimensions of all arrays, and the extents of all scopes."""
    for line in written.header:
        if isinstance(line, Buffer):
            yield from (dim.extent for dim in line.dims)
    left: list[Node] = list(written.body)
    while left:
        node = left.pop()
        if not isinstance(node, Statement):
            left += node.body
            if isinstance(node, Scope):
                yield node.extent


def expressions(written: Kernel) -> Iterable[Expr]:
    """The expressions of a text that stand by themselves."""
    yield from extents(written)
    left: list[Node] = list(written.body)
    while left:
        node = left.pop()
        match node:
            case Statement(target, _, value, condition):
                yield from (target, value) if condition is None else (target, value, condition)
            case Guard(condition, body):
                yield condition
                left += body
            case Scope(_, _, _, body):
                left += body


def is_deep(written: Kernel) -> bool:
    """Whether an expression of a text nests deeper than the language has it, which is told of later."""
    return any(map(_nests, expressions(written)))


def _nests(expr: Expr) -> bool:
    level = [expr]
    for _ in range(DEEPEST_EXPRESSION):
        level = [part for outer in level for part in inner(outer)]
    return bool(level)
