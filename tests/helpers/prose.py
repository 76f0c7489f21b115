"""The prose of the project: docstrings of modules, classes, functions and constants, and their sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from asked import Source, asked

MOST_WORDS = 35
"""A sentence with more words has to be read twice. Code in backticks counts as no word."""

_PARAGRAPH = re.compile(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )")
_END = re.compile(r"(?<=[.!?])[\"”)]?\s+(?=[A-Z0-9…\[(\"{*])")
_CODE = re.compile(r"`[^`]*`")
_WORD = re.compile(r"[A-Za-z][\w'-]*")


@asked()
def docstrings(source: Source) -> list[tuple[int, str]]:
    """Each string of a file that stands by itself, with its line: docstrings, and those below a constant."""
    found = []
    for node in source.with_bodies():
        for child in node.body if isinstance(node.body, list) else ():
            match child:
                case ast.Expr(ast.Constant(str(text))):
                    found.append((child.lineno, text))
    return sorted(found)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a docstring, code in backticks left out. Paragraphs with a session (`>>>`) have none."""
    for paragraph in _PARAGRAPH.split(text):
        if ">>>" not in paragraph and "::" not in paragraph:
            yield from _END.split(" ".join(_CODE.sub("…", paragraph).split()))


def is_long(sentence: str) -> bool:
    """Whether a sentence has more than MOST_WORDS words."""
    return len(_WORD.findall(sentence)) > MOST_WORDS
