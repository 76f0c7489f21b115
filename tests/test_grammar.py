"""The tables of the grammars: they are those of the texts of the grammars, and parse what Lark itself parses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import lark
import pytest
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lark import PostLex

from dojoir.grammar import dojo_tables, generate, pipeline_tables, query_tables, tokens
from dojoir.grammar.bars import bars
from dojoir.grammar.errors import LayoutError
from dojoir.grammar.lalr import END, Parser

ROOT = Path(__file__).resolve().parent.parent
TABLES = {"dojo": dojo_tables.TABLES, "pipeline": pipeline_tables.TABLES, "query": query_tables.TABLES}

QUERIES = (
    "scope marked v writes y in @i",
    "<first outermost>",
    'number -1 innermost or not (statement reads x after "s[...] += ...")',
    "0.** has accumulates t* extent (N - min(1, 2)) @tile_*",
    "last unmarked under 0.1 uses inner before guard extent min(N, M)",
)
PIPELINES = (
    "join_scopes(0, 1); reuse_dims(s, 0)",
    'repeat(simplify, join_all); each(<innermost reads "x[...]">, try(vectorize(it)))\n# nothing\n',
    ',; restore_temporary("tmp t: f32[N]", 2, 0.1, "t = 1"), simplify\nset_extent(@i, (N - (M + 1)) // 2), x()',
)
AFFINE = ["3*{0} + (N - 1) // 2 - {i} % 4\n", "min(N, M, -1)\n", "{0} >= 1 and not {1} < N or nan == inf\n"]


WORDS = (*'|()[]{}<>=+-@#;,\n"', "in ", "or ", "\n| ", "0", "é", "number 1 ")


def texts() -> Iterator[tuple[str, str, str]]:
    """Texts of every kind: the grammar, the kind, the text."""
    for path in sorted([*ROOT.glob("dojoir/*/*.dojo"), *ROOT.glob("examples/*.dojo")]):
        text = path.read_text(encoding="utf-8")
        yield "dojo", "kernel", text[text.index("kernel") :]
    for path in sorted(ROOT.glob("dojoir/schedules/*.moves")):
        yield "pipeline", "pipeline", path.read_text(encoding="utf-8")
    yield from (("pipeline", "pipeline", text) for text in [*PIPELINES, ""])
    yield from (("query", "query", text) for text in [*QUERIES, ""])
    yield from (("dojo", "affine", text) for text in AFFINE)


def damaged(text: str, random: Random) -> str:
    """The text with a few letters and words taken out, doubled, exchanged or of another kind."""
    for _ in range(random.randint(1, 3)):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.choice([0, 1, 1, 2, 5, 20]))
        word = random.choice(
            ["", "", text[start:end] * 2, *'|()[]{}<>=+-@#;,\n"', "in ", "or ", "\n| ", "0", "é", "number 1 "]
        )
        text = text[:start] + word + text[end:]
    return text


class Recorder:
    """Every action gives its name and what it was given."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *given: (name, *map(seen, given))


def seen(value: object) -> object:
    """A value in a form in which those of Lark and ours compare."""
    match value:
        case lark.Tree(name, children):
            return (str(name), *map(seen, children))
        case lark.Token() | tokens.Token():
            place = (value.line, value.column, value.end_line or 1, value.end_column or 1)
            return ("token", value.type, str(value), place)
    return value


def _found(token: lark.Token | tokens.Token, kind: str) -> object:
    """The end of a kernel is nowhere: Lark puts it at the start of the text where the last token is empty."""
    return token.type if token.type == END and kind in {"kernel", "affine"} else seen(token)


class Bars(PostLex):
    """The layout of kernels, for Lark."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[lark.Token]) -> Iterator[lark.Token]:
        for token in bars(tokens.Token(t.type, t, t.line, t.column, t.end_line, t.end_column) for t in stream):
            place = {name: getattr(token, name) for name in ("line", "column", "end_line", "end_column")}
            yield lark.Token(token.type, str(token), **place)


def by_lark(parser: lark.Lark, text: str, kind: str) -> object:
    try:
        return seen(parser.parse(text, start=kind))
    except UnexpectedCharacters as error:
        return ("character", error.char, error.line, error.column)
    except UnexpectedToken as error:
        return ("unexpected", _found(error.token, kind), frozenset(error.accepts))
    except LayoutError as error:
        return ("layout", error.code, error.span)


def by_tables(parser: Parser, text: str, kind: str) -> object:
    try:
        return seen(parser.parse(text, kind))
    except tokens.UnexpectedCharacter as error:
        return ("character", error.character, error.line, error.column)
    except tokens.UnexpectedToken as error:
        return ("unexpected", _found(error.token, kind), error.accepts)
    except LayoutError as error:
        return ("layout", error.code, error.span)


@pytest.mark.parametrize("grammar", sorted(TABLES))
def test_the_tables_are_those_of_the_grammar(grammar: str) -> None:
    assert set(generate.STARTS) == set(TABLES)
    assert generate.tables_of(grammar) == TABLES[grammar], "run python -m dojoir.grammar.generate"
    written = (ROOT / "grammar" / f"{grammar}_tables.py").read_text(encoding="utf-8")
    assert generate.source_of(grammar) == written, "run python -m dojoir.grammar.generate"


@pytest.mark.parametrize("grammar", sorted(TABLES))
def test_the_tables_parse_as_lark_does(grammar: str) -> None:
    reference = generate.lark_of(grammar, Bars())
    parser = Parser(TABLES[grammar], Recorder(), bars if grammar == "dojo" else None)
    random = Random(0)
    whole = wrong = 0
    for of, kind, text in texts():
        if of != grammar:
            continue
        for version in [text, *(damaged(text, random) for _ in range(30 if of == "dojo" else 300))]:
            expected = by_lark(reference, version, kind)
            assert by_tables(parser, version, kind) == expected, version
            whole += expected[0] not in {"character", "unexpected", "layout"}
            wrong += expected[0] in {"character", "unexpected", "layout"}
    assert min(whole, wrong) > 50
