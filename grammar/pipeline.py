"""The text of pipelines: `tile(@i, @j, 32, 64); vectorize(@j)` as a list of calls."""

from __future__ import annotations

from dataclasses import dataclass

from dojoir.errors import Diagnostic, ParseError, Source, Span
from dojoir.grammar.lalr import Parser
from dojoir.grammar.pipeline_tables import TABLES
from dojoir.grammar.tokens import Token, Unexpected


@dataclass(frozen=True)
class Call:
    """A move or pass by name, with its arguments as written; where it stands in `source`."""

    name: str
    arguments: tuple[str, ...]
    span: Span
    source: Source


def parse_calls(text: str, name: str = "<pipeline>") -> list[Call]:
    """The calls of a pipeline, in order. Raises ParseError with the place and what was expected."""
    source = Source(name, text)
    try:
        found = Parser(TABLES, _Tree(source)).parse(text, "pipeline")
    except Unexpected as error:
        raise ParseError(_diagnostic(error, source)) from None
    assert isinstance(found, list)
    return found


@dataclass(frozen=True)
class _Tree:
    """What each rule of the grammar gives."""

    source: Source

    def pipeline(self, *calls: Call | None) -> list[Call]:
        return [call for call in calls if call is not None]

    def call(self, name: Token, *given: Token | None) -> Call:
        arguments = [argument for argument in given if argument is not None]
        last = arguments[-1] if arguments else name
        span = Span(name.line, name.column, last.end_column if last.line == name.line else 1)
        return Call(str(name), tuple(argument.strip() for argument in arguments), span, self.source)


def _diagnostic(error: Unexpected, source: Source) -> Diagnostic:
    line, column = error.line, error.column
    if line < 1:  # the end of the text
        lines = source.text.split("\n")
        line, column = len(lines), len(lines[-1]) + 1
        what = "the pipeline ends here"
    else:
        character = source.line(line)[column - 1 : column]
        what = f"unexpected '{character}'" if character.strip() else "unexpected end of the line"
    message = f"{what}: expected calls such as split(@j, 16), separated by ; , or line ends"
    return Diagnostic("syntax", message, Span(line, column, column + 1), source)
