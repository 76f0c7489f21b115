"""Plain English in docstrings: the standard term comes first, and sentences are short."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import ROOT
from prose import MOST_WORDS, docstrings, is_long, sentences

FOLDERS = ("dojoir", "passes", "codegen", "runtime", "grammar")

MOST_WHAT = 25
"""The largest number of docstrings that may begin with "What": such a sentence hides its subject."""

MOST_LONG = 0.01
"""The largest share of sentences that may be longer than MOST_WORDS words."""


def files() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def begins_with_what(text: str) -> bool:
    return text.startswith("What ")


def test_few_docstrings_begin_with_what() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files()
        for line, text in docstrings(path)
        if begins_with_what(text)
    ]
    assert len(found) <= MOST_WHAT, found


def test_few_sentences_are_long() -> None:
    lengths = {
        f"{path.relative_to(ROOT)}:{line}: {sentence}": is_long(sentence)
        for path in files()
        for line, text in docstrings(path)
        for sentence in sentences(text)
    }
    found = [place for place, too_long in lengths.items() if too_long]
    assert len(found) <= MOST_LONG * len(lengths), found


@pytest.mark.parametrize("words, expected", [(MOST_WORDS, False), (MOST_WORDS + 1, True)])
def test_words_are_counted_by_the_sentence(words: int, expected: bool) -> None:
    text = f"A short one. {' '.join(['Word'] * words)} `code of many words`.\n\n    >>> {'word ' * 50}"
    short, long = sentences(text)
    assert not is_long(short)
    assert is_long(long) == expected


def test_docstrings_are_those_of_constants_too(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        '"""The module."""\n\nONE = 1\n"""What one is."""\n\n\ndef two() -> None:\n    """The two."""\n'
    )
    assert list(docstrings(path)) == [(1, "The module."), (4, "What one is."), (8, "The two.")]
    assert [begins_with_what(text) for _, text in docstrings(path)] == [False, True, False]
