"""Schedules are built of moves as values on places that are followed: nothing that one could forget to check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from folders import ROOT

import dojoir

TEXT = re.compile(rf"({'|'.join(kind.name for kind in dojoir.MOVES)})\(")
"""How the text of a move begins."""

SCHEDULES = sorted((ROOT / "passes" / "schedule").glob("*.py"))


def move_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines of what begins as the text of a move does, docstrings aside, with that beginning: a string, the
    first part of one that is formatted, or what others are added to."""
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)) if node not in texts and TEXT.match(text):
                yield node.lineno, text


@pytest.mark.parametrize(
    "code",
    [
        'make(trace, f"tile({place}, {place}.0, 8, 8)")',
        'trace.apply("bind({}, gx)".format(place))',
        'tried(trace, "split(%s, 4)" % place)',
        'text = "unroll(" + place + ")"',
        'make(trace, "vectorize(0.0)")',
    ],
)
def test_a_move_as_a_text_is_found(code: str) -> None:
    assert [line for line, _ in move_texts(ast.parse(code))] == [1]


def test_words_and_docstrings_are_no_moves() -> None:
    code = (
        '"""tile(0, 8) does it."""\ncopy = fresh_name(kernel, f"{name}_tile")\nraise Error(f"split {n} is short")'
    )
    assert list(move_texts(ast.parse(code))) == []


@pytest.mark.parametrize("file", SCHEDULES, ids=lambda file: file.name)
def test_moves_are_values(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    assert list(move_texts(tree)) == []
    named = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    assert "format_path" not in named or file.name == "spots.py", "a spot writes its path itself"
