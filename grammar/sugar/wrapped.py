"""Indices that wrap around a size, taken apart where a text is read.

Sets know of no remainder by a size. Of `x[({i} + {k}) % N]`, where the sum is below `2*N`, each value is the sum or
`N` less: the statement becomes one for each turn, under a guard, of which one runs in each iteration,

    if {i} + {k} < N
    | … x[{i} + {k}] …
    if {i} + {k} >= N
    | … x[{i} + {k} - N] …

and one more, for `{i} + {k} < 0`, where something is subtracted. That no value needs another turn is proved as it
is of any index: it would be out of bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from dojoir.grammar import syntax
from dojoir.grammar.syntax import (
    Binary,
    Call,
    Expr,
    Name,
    Number,
    Subscript,
    Unary,
    every,
    inner,
    with_inner,
    wording,
)

_Period = tuple[tuple[Expr, ...], Expr]
"""The conditions of a turn, and the index in it."""

MOST_WRAPPED = 2
"""How many indices of a statement may wrap around."""


def without_wrapped(written: syntax.Kernel) -> syntax.Kernel:
    """The text with a statement for each turn of an index that wraps around a size; the very text without such."""
    sizes = {size.name.text for size in written.sizes if size.value is None}
    body = syntax.with_nodes(written.body, lambda node: _unwrapped_node(node, sizes))
    return written if body == written.body else replace(written, body=body)


def _unwrapped_node(node: syntax.Node, sizes: set[str]) -> tuple[syntax.Node, ...]:
    if not isinstance(node, syntax.Statement):
        return (node,)
    exprs = [node.target, node.value, *(() if node.condition is None else (node.condition,))]
    found = {wording(part): part for expr in exprs for part in _wrapped(expr, sizes, False)}
    if not 0 < len(found) <= MOST_WRAPPED:
        return (node,)
    turns = product(*map(_wrap_periods, found.values()))
    return tuple(_in_periods(node, dict(zip(found, some, strict=True))) for some in turns)


def _in_periods(node: syntax.Statement, turns: Mapping[str, _Period]) -> syntax.Node:
    """A statement where the indices that wrap are in some turns."""
    values = {key: value for key, (_, value) in turns.items()}
    new = replace(
        node,
        target=_replaced(node.target, values),
        value=_replaced(node.value, values),
        condition=None if node.condition is None else _replaced(node.condition, values),
    )
    first, *others = (condition for conditions, _ in turns.values() for condition in conditions)
    for other in others:
        first = Binary(first, "and", other, node.span)
    return syntax.Guard(first, (new,), node.span)


def _wrap_periods(wrapped: Binary) -> Iterator[_Period]:
    """When an index is in a turn, and its value there."""
    value, size, span = wrapped.left, wrapped.right, wrapped.span
    zero = Number("0", span)
    between: tuple[Expr, ...] = (Binary(value, "<", size, span),)
    if any(isinstance(part, Unary | Binary) and part.sign == "-" for part in every(value)):
        yield (Binary(value, "<", zero, span),), Binary(value, "+", size, span)
        between = (Binary(value, ">=", zero, span), *between)
    yield between, value
    yield (Binary(value, ">=", size, span),), Binary(value, "-", size, span)


def _wrapped(expr: Expr, sizes: set[str], inside: bool) -> Iterator[Binary]:
    """The remainders by a size in the indices of an expression, which is one if it is `inside`."""
    match expr:
        case Binary(left, "%", Name(text)) if inside and text in sizes and _is_affine(left):
            yield expr
        case Subscript(_, args):
            for arg in args:
                yield from _wrapped(arg, sizes, True)
        case _:
            for part in inner(expr):
                yield from _wrapped(part, sizes, inside)


def _is_affine(expr: Expr) -> bool:
    """Whether an expression looks like a sum of sizes and iterators, each times a number."""
    match expr:
        case Number() | Name() | syntax.Iterator():
            return True
        case Unary("-", arg):
            return _is_affine(arg)
        case Binary(left, "+" | "-", right):
            return _is_affine(left) and _is_affine(right)
        case Binary(Number(), "*", arg) | Binary(arg, "*", Number()):
            return _is_affine(arg)
        case Subscript() | Call() | Unary() | Binary():
            return False


def _replaced(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """An expression with the values of some remainders in their place."""
    if isinstance(expr, Binary) and expr.sign == "%" and (key := wording(expr)) in values:
        return values[key]
    return with_inner(expr, lambda part: _replaced(part, values))
