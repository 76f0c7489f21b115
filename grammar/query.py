"""The text of queries for places: `scope marked v writes y in @i`, with or without `<` and `>` around it."""

from __future__ import annotations

import re
from functools import cache

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken

from dojoir.errors import ArgumentError, Diagnostic, ParseError, Source, Span, did_you_mean
from dojoir.grammar.tables import parser
from dojoir.query.conditions import (
    KINDS,
    RELATIONS,
    VERBS,
    All,
    AnyOf,
    At,
    HasExtent,
    Kind,
    Labelled,
    Marked,
    Not,
    Pick,
    Query,
    Related,
    Spelled,
    Touches,
)

WORDS = (*KINDS, *VERBS, *RELATIONS, "marked", "extent", "not", "or", "first", "last", "number")

_NESTING = re.compile(rf"\(|\b(?:not|{'|'.join(RELATIONS)})\b")
MOST_NESTED = 64
"""How many words of a query may hold another condition; what walks it may recurse."""

USAGE = (
    "write conditions one after the other, such as: scope, innermost, @label, 0.*, marked v, extent M, writes y, "
    'reads x, "s[...] += ...", in @i; dojoir-opt --help lists them'
)


@cache
def _parser() -> Lark:
    return parser("query", start="query", maybe_placeholders=True, transformer=_QueryTree())


def parse_query(text: str) -> Query:
    """The query that a text writes. Raises ParseError with the place in the text."""
    if not isinstance(text, str):
        raise ArgumentError(f"a query is a text or a Query, not {type(text).__name__}", "bad-query")
    if len(_NESTING.findall(text)) > MOST_NESTED:
        message = f"a query has at most {MOST_NESTED} brackets, relations and 'not'"
        raise ParseError(Diagnostic("too-deep", message, Span(1, 1, 2), Source("<query>", text)))
    try:
        found: object = _parser().parse(text)
    except UnexpectedInput as error:
        raise ParseError(_diagnostic(error, text)) from None
    assert isinstance(found, Query)
    return found


def _diagnostic(error: UnexpectedInput, text: str) -> Diagnostic:
    at_end = error.line < 1 or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
    start = len(text) if at_end else error.column - 1
    rest = text[start:].rstrip("> ").split()
    what = f"unexpected '{rest[0]}'{did_you_mean(rest[0], WORDS)}" if rest else "the query ends here, unfinished"
    end = start + 1 + (len(rest[0]) if rest else 1)
    return Diagnostic("bad-query", f"{what}; {USAGE}", Span(1, start + 1, end), Source("<query>", text))


@v_args(inline=True)
class _QueryTree(Transformer[Token, Query]):
    """The result of each rule of the grammar."""

    def query(self, pick: int | None, condition: Query) -> Query:
        return condition if pick is None else Pick(condition, pick)

    def pick(self, word: Token) -> int:
        return {"first": 0, "last": -1}[word] if word.type != "INT" else int(word[:18])  # no kernel has as many

    def either(self, *conditions: Query) -> Query:
        parts = (c.conditions if isinstance(c, AnyOf) else (c,) for c in conditions)
        return AnyOf(tuple(part for found in parts for part in found))

    def all(self, *conditions: Query) -> Query:
        terms = tuple(term for condition in conditions for term in condition.terms())
        return conditions[0] if len(conditions) == 1 else All(terms)

    def negation(self, condition: Query) -> Query:
        return Not(condition)

    def relation(self, word: Token, query: Query) -> Query:
        return Related(str(word), query)

    def kind(self, word: Token) -> Query:
        return Kind(str(word))

    def label(self, word: Token) -> Query:
        return Labelled(word[1:])

    def path(self, word: Token) -> Query:
        return At(str(word))

    def marked(self, mark: Token) -> Query:
        return Marked(str(mark))

    def extent(self, text: Token) -> Query:
        return HasExtent(str(text))

    def touches(self, verb: Token, buffer: Token) -> Query:
        return Touches(str(verb), str(buffer))

    def reads(self, text: Token) -> Query:
        return Spelled(text[1:-1])
