"""Depth: the leading bars of each line, as the `_INDENT` and `_DEDENT` that the grammar reads."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

from dojoir.errors import Span
from dojoir.grammar.errors import LayoutError
from dojoir.ir.nodes import DEEPEST


class Bars(PostLex):
    """Puts an `_INDENT` or `_DEDENT` wherever a line has more or fewer bars than the one before.

    Lines without a word (blank, bars only, a comment) do not count.
    """

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens with those of the depth added. Raises LayoutError where a line skips a depth."""
        depth = 0
        end_of_line: Token | None = None
        last: Token | None = None
        for token in stream:
            if token.type == "_NL":
                end_of_line = token
                continue
            if end_of_line is not None:
                if last is not None:
                    yield end_of_line
                bars = end_of_line.count("|")
                if bars > depth + 1:
                    raise LayoutError(
                        "skipped-depth",
                        f"this line has {bars} bars, and the line it belongs to has {depth}: a child has one bar "
                        f"more than its parent, so write {depth + 1} or fewer",
                        _bars_of(end_of_line, token),
                    )
                if bars > DEEPEST:
                    raise LayoutError(
                        "too-deep", f"lines may be at most {DEEPEST} deep", _bars_of(end_of_line, token)
                    )
                yield from _between(depth, bars, token)
                depth = bars
                end_of_line = None
            last = token
            yield token
        if last is not None:
            line, column = last.end_line or 1, last.end_column or 1
            yield Token("_NL", "", last.end_pos, line, column, line, column, last.end_pos)
            yield from _between(depth, 0, Token("_NL", "", last.end_pos, line + 1, 1, line + 1, 1, last.end_pos))


def _between(depth: int, bars: int, place: Token) -> Iterator[Token]:
    if bars > depth:
        yield Token.new_borrow_pos("_INDENT", "", place)
    for _ in range(depth - bars):
        yield Token.new_borrow_pos("_DEDENT", "", place)


def _bars_of(end_of_line: Token, first: Token) -> Span:
    """The place of the bars of a line, given the line break before them and the first word after them."""
    column = end_of_line.index("|")  # after the line break, columns from 1 are positions in the token
    return Span(first.line or 1, column, len(end_of_line.rstrip()))
