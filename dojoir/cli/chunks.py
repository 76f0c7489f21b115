"""The input of `dojoir-opt`: its parts, and the errors that its comments expect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import dojoir
from dojoir.cli.streams import read_stdin
from dojoir.errors import Diagnostic

_SEPARATOR = re.compile(r"^\s*#\s*-----+\s*$")
_EXPECTED = re.compile(r"#.*?expected-error\s*(?:@(above|below|[+-]\d+)\s*)?\{\{(.*?)\}\}")


@dataclass(frozen=True)
class Chunk:
    """A part of the input. It is padded with empty lines, so that its line numbers are those of the file."""

    name: str
    text: str


@dataclass(frozen=True)
class Expectation:
    """An error that a comment expects: the line it must be on, and a text in its message."""

    line: int
    text: str
    comment_line: int


def read_input(name: str) -> str:
    """The text of a file, of stdin for `-`, or of a library kernel for `library:NAME`."""
    if name.startswith("library:"):
        return dojoir.kernels.source(name.removeprefix("library:"))
    data = _bytes_of(name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise dojoir.ArgumentError(f"{name} is not UTF-8 text: line {line}", "not-text") from None


def read_lines(name: str) -> list[str]:
    """The lines of a file, or of stdin for `-`, each by itself: bytes that are no text are lone surrogates in its
    line, and in no other."""
    lines = _bytes_of(name).split(b"\n")
    return [line.rstrip(b"\r").decode("utf-8", "surrogateescape") for line in (lines if lines[-1] else lines[:-1])]


def _bytes_of(name: str) -> bytes:
    try:
        return read_stdin() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot read {name}: {error.strerror or error}", "cannot-read") from None


def display_name(name: str) -> str:
    return "<stdin>" if name == "-" else name


def split(text: str, name: str, parts: bool) -> list[Chunk]:
    """The whole text as one part, or the parts between lines of `# -----`."""
    if not parts:
        return [Chunk(name, text)]
    chunks: list[Chunk] = []
    start = 0
    lines = text.splitlines()
    for i, line in enumerate([*lines, "# -----"]):
        if _SEPARATOR.match(line):
            chunks.append(Chunk(name, "\n" * start + "\n".join(lines[start:i]) + "\n"))
            start = i + 1
    return chunks


def separator(emitted: str | None) -> str:
    """The line between the results of several parts: a comment of the language that they are in."""
    if emitted is None:
        return "# -----\n"
    name = emitted.partition("@")[0]
    return {"llvm": "; -----\n", "llvm-opt": "; -----\n", "asm": "# -----\n"}.get(name, "/* ----- */\n")


def expectations(text: str) -> list[Expectation]:
    """The errors that the comments of a text expect."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in _EXPECTED.finditer(line):
            offset = {"above": -1, "below": 1, None: 0}.get(match[1])
            found.append(Expectation(number + (int(match[1]) if offset is None else offset), match[2], number))
    return found


def unmet(expected: list[Expectation], errors: list[Diagnostic], name: str) -> list[str]:
    """The differences between the errors expected and those that came: a line of text each. An error about a
    kernel that moves have made has no line of the file; it may be expected on any."""
    complaints = []
    open_ = list(expected)
    for error in errors:
        line = error.span.line if error.span is not None and error.source and error.source.name == name else None
        match = next((e for e in open_ if e.text in error.message and line in (e.line, None)), None)
        if match is None:
            place = f"{name}:{line}" if line else name
            complaints.append(f"{place}: error[unexpected-error]: unexpected error: {error.message}")
        else:
            open_.remove(match)
    for e in open_:
        place = f"{name}:{e.comment_line}"
        complaints.append(f"{place}: error[missing-error]: expected on line {e.line}, did not come: {e.text}")
    return complaints
