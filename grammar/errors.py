"""The errors of a text that is not in the language: the place, what was expected there in plain words, a cure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from dojoir.errors import Diagnostic, ParseError, Source, Span, did_you_mean
from dojoir.grammar.other_languages import cure_of_line
from dojoir.ir.words import KEYWORDS

WORDS = {word.upper(): word for word in KEYWORDS}
"""The keywords, by the names of their terminals."""
HEADER = ("WHERE", "FP", "IN", "OUT", "INOUT", "TMP")

_SIGNS = {
    "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'", "SLASH": "'/'", "FLOORDIV": "'//'", "PERCENT": "'%'",
    "BITS_OR": "'|'", "BITS_XOR": "'^'", "BITS_AND": "'&'", "SHIFT": "'<<' or '>>'",
    "COMPARE": "a comparison", "EQUAL": "'='", "ACCUMULATE": "an accumulation such as '+='", "TILDE": "'~'",
    "OPEN": "'('", "CLOSE": "')'", "LSQB": "'['", "CLOSE_INDEX": "']'", "COMMA": "','", "COLON": "':'",
    "NAME": "a name", "ITERATOR": "an iterator such as {0}", "NUMBER": "a number", "LABEL": "a label such as @i",
    "_NL": "the end of the line", "$END": "the end of the text", "_INDENT": "a line one bar deeper",
    "_DEDENT": "a line with fewer bars",
}  # fmt: skip
_GROUPS = {
    "ITERATOR": ({"NAME", "NUMBER", "ITERATOR", "OPEN", "MINUS", "TILDE", "INF", "NAN", "NOT"}, "an expression"),
    "OR": (
        {"PLUS", "MINUS", "STAR", "SLASH", "FLOORDIV", "PERCENT", "COMPARE", "AND", "OR"}
        | {"BITS_OR", "BITS_XOR", "BITS_AND", "SHIFT"},
        "an operator",
    ),
    "TMP": (set(HEADER), "a declaration"),
}
"""Words that are told as one, by the one that shows that all of them fit."""
_CURES = {
    "{": "an iterator is written {0} or, by the label of its scope, {i}",
    "}": "an iterator is written {0} or, by the label of its scope, {i}",
    "!": "write 'not', or '!='",
    "@": "a label is '@' and a name, such as @i",
    ";": "a line holds one node",
    "\\": "a node is one line, however long",
}


class LayoutError(Exception):
    """A line whose bars do not fit the line before it."""

    def __init__(self, code: str, message: str, span: Span) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.span = span


def explain(error: LayoutError | UnexpectedCharacters | UnexpectedToken, source: Source) -> ParseError:
    """The error that a user sees."""
    line = error.span.line if isinstance(error, LayoutError) else error.line
    if not isinstance(error, LayoutError):
        written = cure_of_line(source.line(line)) if line and line > 0 else None
        if written is not None:
            cure, start, end = written
            code = "unexpected-character" if isinstance(error, UnexpectedCharacters) else "unexpected"
            word = source.line(line)[start - 1 : end - 1]
            message = f"'{word}' does not belong here: {cure}"
            return _error(code, message, Span(line, start, end), source)
    match error:
        case LayoutError():
            return _error(error.code, error.message, error.span, source)
        case UnexpectedCharacters():
            span = Span(error.line, error.column, error.column + 1)
            return _error("unexpected-character", _character(str(error.char)), span, source)
        case UnexpectedToken():
            return _unexpected(error, source)


def _error(code: str, message: str, span: Span, source: Source) -> ParseError:
    return ParseError(Diagnostic(code, message, span, source))


def _character(character: str) -> str:
    shown = f"'{character}'" if character.isprintable() else f"the character U+{ord(character):04X}"
    cure = _CURES.get(character)
    return f"{shown} is not part of the language here{': ' + cure if cure else ''}"


def _unexpected(error: UnexpectedToken, source: Source) -> ParseError:
    token: Token = error.token
    line = token.line or 1
    span = Span(line, token.column or 1, max(token.end_column or 1, (token.column or 1) + 1))
    accepts = set(error.accepts)
    before = source.line(line)[: span.column - 1]
    first = re.match(r"[ \t|]*([A-Za-z_]\w*)?", before)
    opening = first[1] if first and first[1] else ""
    starts_line = not before.strip(" \t|")

    if accepts == {"_INDENT"}:
        return _empty_body(_line_above(source, None if token.type == "$END" else line), source)
    if token.type == "$END" and accepts == {"KERNEL"}:
        message = "there is no kernel in this text: it starts with a line 'kernel NAME(SIZE, …)'"
        return _error("no-kernel", message, span, source)
    if token.type == "_INDENT":
        return _error(
            "not-a-parent",
            "this line has more bars than the one before, but only scopes and guards have lines below them",
            Span(line, 1, span.column),
            source,
        )
    if token.type == "KERNEL" and "KERNEL" not in accepts and starts_line:
        return _error("second-kernel", "a text holds one kernel, and this starts a second", span, source)
    if token.type in HEADER and "KERNEL" not in accepts and starts_line:
        message = f"'{token}' lines come before the body, directly under the 'kernel' line"
        return _error("late-declaration", message, span, source)
    if token.type == "EQUAL" and before[-1:] in {"-", "/"}:
        sign = before[-1]
        cure = "'+= -(…)'" if sign == "-" else "'*= 1 / (…)'"
        return _error("unexpected", f"there is no '{sign}=': write {cure}", span, source)
    if token.type == "BITS_OR" and token.type not in accepts:
        message = "bars stand only at the start of a line, where their number is its depth"
        return _error("unexpected", message, span, source)
    if token.type == "COMPARE" and {"PLUS", "BITS_OR"} & accepts:
        bits = "; & and | are of bits, and bind more tightly" if re.search("[&|]", before.lstrip(" \t|")) else ""
        return _error("unexpected", f"comparisons do not chain: write a < b and b < c{bits}", span, source)
    if token.type == "STAR" and before.endswith("*"):
        return _error("unexpected", "there is no '**': a power is written pow(x, y)", span, source)
    if token.type == "CLOSE_INDEX" and before.rstrip().endswith("["):
        return _error("unexpected", "there is nothing in these brackets: a scalar has none", span, source)
    if token.type in WORDS and "NAME" in accepts:
        return _error("reserved-word", f"'{token}' is a word of the language, and cannot be a name", span, source)

    if token.type == "NAME" and opening and before.strip(" \t|") == opening and "EQUAL" in accepts:
        hint = did_you_mean(opening, KEYWORDS)
        message = "a line cannot start with two names; a declaration starts with in, out, inout or tmp"
        return _error("unexpected", message + hint, span, source)

    found = _found(token)
    hint = ""
    if token.type in {"_NL", "$END"} and "CLOSE" in accepts and "(" in before:
        hint = "; a '(' is not closed"
    elif token.type in {"_NL", "$END"} and "CLOSE_INDEX" in accepts:
        hint = "; a '[' is not closed"
    return _error("unexpected", f"expected {_in_plain_words(accepts)}, not {found}{hint}", span, source)


def _found(token: Token) -> str:
    match token.type:
        case "_NL":
            return "the end of the line"
        case "$END":
            return "the end of the text"
        case "_DEDENT":
            return "a line with fewer bars"
        case _:
            text = str(token)
            return f"'{text}'" if len(text) <= 40 else f"'{text[:37]}…'"


def _in_plain_words(accepts: Iterable[str]) -> str:
    left = set(accepts)
    words = []
    for sign, (group, word) in _GROUPS.items():
        if sign in left:
            left -= group
            words.append(word)
    words += [_SIGNS[name] if name in _SIGNS else f"'{WORDS[name]}'" for name in sorted(left)]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _empty_body(head: Span, source: Source) -> ParseError:
    """The error for a line without lines below it that is no statement."""
    text = source.line(head.line)[head.column - 1 : head.end - 1]
    below = source.line(head.line + 1)
    if "[" in text and not text.startswith("if"):
        message = "this is neither a statement, for it has no '=', nor a scope"
    elif below[:1] in {" ", "\t"} and below.strip() and not below.strip().startswith("|"):
        message = "there is nothing below this line: depth is shown by bars, as in '| m[{0}] = 0', not by spaces"
    else:
        message = "there is nothing below this line: what it runs goes on the next lines, one bar deeper"
    return _error("empty-body", message, head, source)


def _line_above(source: Source, number: int | None) -> Span:
    """The place of the last line before line `number`, or of all, that holds a word."""
    lines = source.text.split("\n")
    for line in range(len(lines) if number is None else number - 1, 0, -1):
        text = lines[line - 1].partition("#")[0].rstrip(" \t|")
        if text:
            start = len(text) - len(text.lstrip(" \t|"))
            return Span(line, start + 1, len(text) + 1)
    return Span(1, 1, 2)
