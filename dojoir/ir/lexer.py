"""Colours for the text of kernels: a Pygments lexer, by the names `dojo` and `*.dojo` wherever Pygments is used."""

from __future__ import annotations

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, Text, Whitespace

from dojoir.ir.dtypes import DTYPES
from dojoir.ir.operations import CALLS, CONVERSIONS
from dojoir.ir.words import ATTRIBUTES, MARKS


class DojoLexer(RegexLexer):
    """Lexes kernels, the text that `dojoir.parse` reads. Every text is lexed; what is no kernel is just plain."""

    name = "dojo"
    aliases = ["dojo"]  # noqa: RUF012
    filenames = ["*.dojo"]  # noqa: RUF012

    tokens = {  # noqa: RUF012
        "root": [
            (r"#[^\n]*", Comment.Single),
            (r"^kernel\b", Keyword.Declaration, "kernel"),
            (r"^(where|fp|inout|in|out|tmp)\b", Keyword.Declaration),
            (r"^[|][| \t]*", Punctuation),
            (r":", Punctuation, "marks"),
            (r"\b(if|and|or|not)\b", Keyword),
            (r"@[A-Za-z_]\w*", Name.Label),
            (r"\{[ \t]*\w+[ \t]*\}", Name.Variable),
            (words(tuple(sorted(DTYPES)), prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (words(tuple(sorted(CALLS.union(CONVERSIONS))), prefix=r"\b", suffix=r"(?=\()"), Name.Builtin),
            (words(ATTRIBUTES, prefix=r"\b", suffix=r"\b"), Keyword.Pseudo),
            (r"\b(inf|nan|min|max)\b(?!=)", Name.Builtin),
            (r"(\+|\*|\bmax|\bmin|\^|&|\|)=(?!=)|[=!<>]=|//|<<|>>|[-+*/%<>=~&|^]", Operator),
            (r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", Number),
            (r"[A-Za-z_]\w*", Name),
            (r"[\[\](),]", Punctuation),
            (r"\s+", Whitespace),
            (r".", Text),
        ],
        "kernel": [
            (r"[ \t]+", Whitespace),
            (r"[A-Za-z_]\w*", Name.Function, "#pop"),
            (r"", Text, "#pop"),
        ],
        "marks": [
            (r"[ \t]+", Whitespace),
            (words(tuple(sorted(DTYPES)), prefix=r"\b", suffix=r"\b"), Keyword.Type, "#pop"),
            (words(MARKS, prefix=r"\b", suffix=r"\b"), Keyword.Pseudo, "#pop"),
            (r"", Text, "#pop"),
        ],
    }  # fmt: skip


__all__ = ["DojoLexer"]
