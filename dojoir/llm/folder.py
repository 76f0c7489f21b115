"""The one folder that a connection reads and writes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import dojoir
from dojoir.cli.chunks import read_input
from dojoir.support.files import write_file

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class Folder:
    """A folder; names are of files right in it, and nothing outside of it is read or written, through links
    either. Raises ArgumentError, `cannot-read`, where there is none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_dir():
            raise dojoir.ArgumentError(f"there is no folder {path}", "cannot-read")

    def place(self, name: str) -> Path:
        """The path of a file of that name. Raises ArgumentError, `outside-folder`, for a name with a folder in it,
        one that begins with a dot, a link, or what is there and no file."""
        if not _NAME.fullmatch(name):
            shown = repr(name[:80])
            message = f"{shown} is not the name of a file here: at most 64 letters, digits, '.', '_' and '-'"
            raise dojoir.ArgumentError(message, "outside-folder")
        place = self.path / name
        if place.is_symlink() or (place.exists() and not place.is_file()):
            raise dojoir.ArgumentError(f"{name} is not a file of this folder", "outside-folder")
        return place

    def read(self, name: str, most: int) -> str:
        """The text of a file of at most `most` bytes. Raises ArgumentError, `outside-folder`, `cannot-read`,
        `not-text`."""
        place = self.place(name)
        if place.exists() and place.stat().st_size > most:
            raise dojoir.ArgumentError(f"{name} has more than {most} bytes", "cannot-read")
        return read_input(str(place))

    def write(self, name: str, text: str) -> str:
        """Writes a file whole or not at all; its name. Raises ArgumentError, `outside-folder`, `cannot-write`."""
        write_file(self.place(name), text)
        return name
