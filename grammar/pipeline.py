"""The text of pipelines: `tile(@i, @j, 32, 64); vectorize(@j)` as a list of calls."""

from __future__ import annotations

from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from dojoir.errors import ArgumentError, Diagnostic, ParseError, Source, Span
from dojoir.grammar.tables import parser
from dojoir.grammar.version import check_version
from dojoir.ir.nodes import DEEPEST
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class PipelineStep:
    """A move or pass by name, with its arguments as written; where it stands in `source`."""

    name: str
    arguments: tuple[str, ...]
    span: Span
    source: Source


def parse_calls(text: str, name: str = "<pipeline>") -> list[PipelineStep]:
    """The calls of a pipeline, in order. Raises ParseError with the place and what was expected."""
    if not isinstance(text, str):
        raise ArgumentError(f"a move or pipeline is a text, not {type(text).__name__}", "bad-move")
    source = Source(name, text)
    check_version(source)
    _check_nesting(source)
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise ParseError(_diagnostic(error, source)) from None
    return [_call(child, source) for child in tree.children if isinstance(child, Tree)]


def _check_nesting(source: Source) -> None:
    """Raises ParseError where brackets nest deeper than anything that makes sense."""
    depth, start = 0, 0
    for at, character in enumerate(source.text):
        if character == "\n":
            start = at + 1
        depth = max(0, depth + (character == "(") - (character == ")"))
        if depth > DEEPEST:
            line, column = source.text.count("\n", 0, at) + 1, at - start + 1
            message = f"brackets nest more than {DEEPEST} deep"
            raise ParseError(Diagnostic("too-deep", message, Span(line, column, column + 1), source))


@cache
def _parser() -> Lark:
    return parser("pipeline", start="pipeline", propagate_positions=True)


def _call(tree: Tree[Token], source: Source) -> PipelineStep:
    name = tree.children[0]
    assert isinstance(name, Token)
    arguments = [child.meta for child in tree.children if isinstance(child, Tree)]
    last = arguments[-1] if arguments else name
    span = Span(name.line or 1, name.column or 1, (last.end_column or 1) if last.line == name.line else 1)
    return PipelineStep(str(name), tuple(source.text[a.start_pos : a.end_pos] for a in arguments), span, source)


def _diagnostic(error: UnexpectedInput, source: Source) -> Diagnostic:
    line, column = error.line, error.column
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        lines = source.text.split("\n")
        line, column = len(lines), len(lines[-1]) + 1
        what = "the pipeline ends here"
    else:
        character = source.line(line)[column - 1 : column]
        what = f"unexpected '{character}'" if character.strip() else "unexpected end of the line"
    message = f"{what}: expected calls such as split(@j, 16), separated by ; , or line ends"
    return Diagnostic("syntax", message, Span(line, column, column + 1), source)
