"""BM25: how well documents answer a question of words.

Source: Robertson, Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), section 3.3, with the
inverse document frequency ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

SATURATION, LENGTH = 1.5, 0.75
"""k1 and b: how soon more of a word counts less, and how much the length of a document counts."""

_COMMON = """
a an and are as at be by can do does for from how i if in is it its not of on or so than that the then there this
to what when where which why with """

COMMON = frozenset(_COMMON.split())
"""Words of a question that say nothing of what it is about; they are left out where others are there."""

_WORD = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*")
_PART = re.compile(r"[a-z]+|[0-9]+")


def words(text: str) -> list[str]:
    """The words of a text in lower case, without a plural's s; a word such as `split_scopes` or `lost-write` also
    as its parts."""
    found = []
    for word in _WORD.findall(text.lower()):
        found.append(_singular(word))
        if "_" in word or "-" in word:
            found += [_singular(part) for part in _PART.findall(word)]
    return found


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class BM25:
    """An index of documents, each a text."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(words(text)) for text in texts]
        self._lengths = [counts.total() for counts in self._counts]
        self._mean = sum(self._lengths) / len(texts) if texts else 1.0
        self._in: dict[str, list[int]] = {}
        for number, counts in enumerate(self._counts):
            for word in counts:
                self._in.setdefault(word, []).append(number)

    def scores(self, question: str) -> dict[int, float]:
        """The score, above 0, of each document that has a word of the question, by its number."""
        found: dict[int, float] = {}
        asked = set(words(question))
        for word in sorted(asked - COMMON or asked):
            having = self._in.get(word, ())
            rarity = math.log(1 + (len(self._counts) - len(having) + 0.5) / (len(having) + 0.5))
            for number in having:
                count = self._counts[number][word]
                longer = 1 - LENGTH + LENGTH * self._lengths[number] / self._mean
                share = count * (SATURATION + 1) / (count + SATURATION * longer)
                found[number] = found.get(number, 0.0) + rarity * share
        return found
