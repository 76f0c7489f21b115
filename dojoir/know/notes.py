"""The notes of a user: a folder of Markdown and text files, searched as the pages of dojoir are."""

from __future__ import annotations

import os
from pathlib import Path

import dojoir
from dojoir.cli.chunks import read_input
from dojoir.know.document import Document, sections

MOST_FILES, MOST_BYTES = 1000, 1 << 20
"""How many files of notes are read, and how long one may be."""


def notes_in(folder: str | os.PathLike[str]) -> list[Document]:
    """The sections of the files `*.md` and `*.txt` in a folder and below it, in the order of their names. Files
    that lie outside, through a link, are left out. Raises ArgumentError, `cannot-read` for what is no folder or
    has too many or too long files, `not-text` for what is not UTF-8."""
    place = Path(folder)
    if not place.is_dir():
        raise dojoir.ArgumentError(f"there is no folder {place} of notes", "cannot-read")
    root = place.resolve()
    paths = [path for path in sorted(place.rglob("*")) if path.suffix in (".md", ".txt") and path.is_file()]
    paths = [path for path in paths if path.resolve().is_relative_to(root)]
    if len(paths) > MOST_FILES:
        message = f"{place} has {len(paths)} files of notes: give a folder with at most {MOST_FILES}"
        raise dojoir.ArgumentError(message, "cannot-read")
    found: list[Document] = []
    for path in paths:
        if path.stat().st_size > MOST_BYTES:
            message = f"{path} has more than {MOST_BYTES} bytes: split it into shorter notes"
            raise dojoir.ArgumentError(message, "cannot-read")
        name = str(path.relative_to(place).with_suffix(""))
        found += sections(read_input(str(path)), name, "note", str(path))
    return found
