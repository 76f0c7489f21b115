"""Questions of words, and of exact names, to the documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dojoir
from dojoir.cli.hints import nearest
from dojoir.know.bm25 import BM25
from dojoir.know.document import KINDS, Document
from dojoir.know.sources import documents
from dojoir.support.public import Count, public

NAMED = ("code", "move", "pass", "mark", "rule", "structure", "schedule", "run")
"""The kinds of documents that a question may name exactly."""


@dataclass(frozen=True)
class Hit:
    """A document and how well it answers: the score of BM25 times the weight of the document; of an exact name,
    the weight alone."""

    document: Document
    score: float

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"score": round(self.score, 4), **self.document.to_json()}


def known(question: str, *, count: int = 8, kind: str | None = None, more: Sequence[Document] = ()) -> list[Hit]:
    """The answers to a question: the document of that name, else the best by their words. Raises ArgumentError as
    `ask`."""
    return exact(question, kind=kind, more=more) or ask(question, count=count, kind=kind, more=more)


def exact(name: str, *, kind: str | None = None, more: Sequence[Document] = ()) -> list[Hit]:
    """The documents that a code, move, pass, mark, rule, structure or schedule of this very name has, and those of
    `more` on what it did in runs. A move may be written with its arguments, as `split(@i, 16)`."""
    wanted = name.strip().partition("(")[0]
    kinds = NAMED if kind is None else (kind,)
    found = [one for one in (*documents(), *more) if one.name == wanted and one.kind in kinds and one.kind in NAMED]
    return [Hit(one, one.weight) for one in sorted(found, key=lambda one: -one.weight)]


@public
def ask(question: str, *, count: Count = 8, kind: str | None = None, more: Sequence[Document] = ()) -> list[Hit]:
    """The documents whose words answer a question best, at most `count`, the best first: those of dojoir, and
    `more`. Raises ArgumentError, `bad-arguments` for a kind that there is not or a count below 1, `nothing-known`
    where no document has a word of it."""
    if kind is not None and kind not in KINDS:
        raise dojoir.ArgumentError(f"there is no kind '{kind}': it is one of {', '.join(KINDS)}", "bad-arguments")
    every = (*documents(), *more)
    index = BM25([_searched(one) for one in every]) if more else _own()
    found = [Hit(every[n], score * every[n].weight) for n, score in index.scores(question).items()]
    chosen = [hit for hit in found if kind is None or hit.document.kind == kind]
    if not chosen:
        meant = nearest(question, [one.name for one in every if one.kind in NAMED])
        message = f"no document has a word of '{question[:80]}'{meant}"
        raise dojoir.ArgumentError(message, "nothing-known")
    return sorted(chosen, key=lambda hit: (-hit.score, hit.document.kind, hit.document.name))[:count]


@lru_cache(maxsize=1)
def _own() -> BM25:
    return BM25([_searched(one) for one in documents()])


def _searched(document: Document) -> str:
    """The text that is indexed: name and title count twice."""
    return f"{document.name} {document.title} {document.title} {document.name}\n{document.text}"
