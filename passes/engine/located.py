"""Places found by queries: what a user asks for, and what a move is given instead of a path."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, TypeVar, Unpack, get_origin

from dojoir.errors import ArgumentError, repr_of
from dojoir.grammar.query import parse_query
from dojoir.ir.nodes import Kernel, given_kernel
from dojoir.passes.base.move import Move, Place
from dojoir.query.conditions import All, At, HasExtent, Kind, Labelled, Marked, Query, Related, Spelled, Touches
from dojoir.query.search import Match, search, search_one
from dojoir.support.public import public

_M = TypeVar("_M", bound=Move)


class QueryKeywords(TypedDict, total=False):
    """Conditions of a query as keywords; all that are given must hold. In `label`, `path` and the names of buffers
    `*` stands for anything, in `text` `...` does."""

    kind: str
    label: str
    path: str
    mark: str
    extent: str
    writes: str
    accumulates: str
    reads: str
    uses: str
    text: str
    inside: Query | str


@public
def find(
    kernel: Kernel, query: Query | str | None = None, **conditions: Unpack[QueryKeywords]
) -> tuple[Match, ...]:
    """Every node that a query matches, in the order of the text.

    The query is a text, such as `"innermost writes y in @i"`, or a Query; keywords are further conditions, each
    of which must hold as well. Raises QueryError, `no-match`, which shows what comes nearest; ParseError for a
    text that is no query.

    >>> import dojoir
    >>> softmax = dojoir.kernels.load("softmax")
    >>> print(*dojoir.find(softmax, "scope extent M"), sep="\\n")
    0.1: M @j
    1.1: M @k
    1.2: M @l
    >>> print(*dojoir.find(softmax, writes="s", kind="statement"), sep="\\n")
    1.0: s[{0}] = 0
    1.1.1: s[{0}] += e[{0}, {1}]
    """
    return search(given_kernel(kernel), _query(query, conditions))


@public
def one(kernel: Kernel, query: Query | str | None = None, **conditions: Unpack[QueryKeywords]) -> Match:
    """As `find`, where exactly one node must match. Raises QueryError, `no-match` or `several-matches`.

    >>> import dojoir
    >>> softmax = dojoir.kernels.load("softmax")
    >>> dojoir.one(softmax, "innermost", accumulates="s").place
    '1.1'
    """
    return search_one(given_kernel(kernel), _query(query, conditions))


def _query(query: Query | str | None, conditions: QueryKeywords) -> Query:
    terms: list[Query] = []
    if query is not None:
        terms.append(_parsed(query))
    for name, value in conditions.items():
        terms.append(_condition(name, value))
    if not terms:
        raise ArgumentError('say what to find, such as "scope writes y" or label="i"', "empty-query")
    return terms[0] if len(terms) == 1 else All(tuple(term for found in terms for term in found.terms()))


def _parsed(query: Query | str) -> Query:
    return parse_query(query) if isinstance(query, str) else query


def _condition(name: str, value: object) -> Query:
    if name == "inside" and isinstance(value, Query | str):
        return Related("in", _parsed(value))
    if not isinstance(value, str):
        raise ArgumentError(f"{name} takes a text, not {repr_of(value)}", "bad-query")
    match name:
        case "kind":
            return Kind(value)
        case "label":
            return Labelled(value.removeprefix("@"))
        case "path":
            return At(value)
        case "mark":
            return Marked(value)
        case "extent":
            return HasExtent(value)
        case "text":
            return Spelled(value)
        case "writes" | "accumulates" | "reads" | "uses":
            return Touches(name, value)
    known = ", ".join(QueryKeywords.__annotations__)
    raise ArgumentError(f"there is no condition '{name}'; the conditions are {known}", "bad-query")


# -- moves -------------------------------------------------------------------------------------------------
def is_query(place: str) -> bool:
    """Whether a place is written as a query, `<writes y in @i>`."""
    return place.startswith("<")


def located(move: _M, kernel: Kernel) -> _M:
    """The move with each place that is written as a query made the path of the one node that it matches in the
    kernel. Raises QueryError."""
    if not any(map(is_query, move.places())):
        return move
    found: dict[str, object] = {}
    for name, kind in move.parameters().items():
        value = getattr(move, name)
        if kind is Place:
            found[name] = _path(value, kernel)
        elif get_origin(kind) is tuple and kind == tuple[Place, ...]:
            found[name] = tuple(_path(word, kernel) for word in value)
    return replace(move, **found)


def _path(place: str, kernel: Kernel) -> str:
    return search_one(kernel, parse_query(place)).place if is_query(place) else place
