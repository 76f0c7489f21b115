"""Texts as people of other languages write them: each error names what is written here in its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from folders import ROOT

import dojoir
from dojoir.grammar import other_languages

HEAD = "kernel k(N, M)\nin  x: f32[N, M]\nout y: f32[N]"


def cases(path: Path) -> list[tuple[str, str, str]]:
    """The code, the words of the cure and the text of each case."""
    parts = re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        first, _, text = part.partition("\n")
        code, _, words = first.partition(" | ")
        found.append((code, words, text.replace("HEAD", HEAD, 1)))
    return found


CASES = cases(ROOT / "tests" / "kept" / "wrong_texts.txt")


def test_there_are_sixty_different_ones() -> None:
    assert len({text for _, _, text in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize(("code", "words", "text"), CASES)
def test_the_error_names_the_cure(code: str, words: str, text: str) -> None:
    with pytest.raises((dojoir.ParseError, dojoir.KernelError)) as caught:
        dojoir.prove(dojoir.parse(text))
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code and words in diagnostic.message, str(caught.value)
    assert diagnostic.span is not None
    line = text.split("\n")[diagnostic.span.line - 1]
    assert 1 <= diagnostic.span.column < diagnostic.span.end <= len(line) + 2


def test_a_cure_for_a_whole_line_is_right() -> None:
    """The line that an error says to write is taken as it stands."""
    for line, written in (
        ("for i in range(N):", "N @i"),
        ("for i in range(3, N):", "N - 3 @i"),
        ("for (int i = 0; i < M; i++)", "M @i"),
        ("range(0, N, 2) @i", "(N + 2 - 1) // 2 @i"),
        ("N @i : p", "N : p @i"),
        ("parallel N @i", "N : p"),
    ):
        found = other_languages.cure_of_line(line)
        assert found is not None and f"`{written}`" in found[0]
        dojoir.parse(f"kernel k(N, M)\nout y: f32\n{written}\n| y = 0\n")


@pytest.mark.parametrize("kind", ["functions", "types", "marks", "storage", "names"])
def test_a_word_of_another_language_is_none_of_ours(kind: str) -> None:
    from dojoir.ir.dtypes import DTYPES
    from dojoir.ir.nodes import MARKS
    from dojoir.ir.operations import CALLS

    ours = {"functions": CALLS, "types": DTYPES, "marks": MARKS, "storage": (), "names": ()}[kind]
    assert not set(other_languages._table()[kind]) & set(ours)


def test_right_texts_are_not_judged() -> None:
    """Names that other languages have for something are names here, too."""
    kernel = dojoir.parse(
        "kernel relu(range)\nin float: f32[range]\nout y: f32[range]\nrange\n| y[{0}] = float[{0}]\n"
    )
    assert kernel.buffer("float").name == "float"


@pytest.mark.parametrize("text", ["y[min({i}, N - 1)] = 1", "y[{i}] = x[max({i} - 1, 0), 0]"])
def test_min_and_max_stand_in_an_index(text: str) -> None:
    dojoir.prove(dojoir.parse(f"{HEAD}\nN @i\n| {text}\n"))
