"""Retrieval: documents on what dojoir does, found by words, by exact name, or by how alike kernels are built.

`ask` ranks documents by words, `exact` gives those of a name, `like` finds library kernels that are built as
another one, with those of their stored schedules that can be made on it. `docs/know.md` says what is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.know.document import KINDS, Document
    from dojoir.know.document_search import Hit, ask, exact, known
    from dojoir.know.likeness import Like, Tried, how_alike, like
    from dojoir.know.notes import notes_in
    from dojoir.know.racing import Raced, race
    from dojoir.know.recorded import recorded
    from dojoir.know.sources import documents

__all__ = [
    "KINDS", "Document", "Hit", "Like", "Raced", "Tried", "ask", "documents", "exact", "how_alike", "known",
    "like", "notes_in", "race", "recorded",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__)
