"""Where results go: stdout, in colours where a person reads it, or a file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

import dojoir
from dojoir.cli.screen import for_terminal, is_terminal
from dojoir.cli.streams import without_control, write_stdout
from dojoir.support.files import write_file


def write_result(text: str, output: str | None, kind: str = "plain") -> None:
    """Writes text to a file, or to stdout for None and `-`. `kind` says what a terminal shows it as. Raises
    ArgumentError if that cannot be done."""
    if output is None or output == "-":
        text = without_control(text)
        write_stdout(for_terminal(text, kind) if is_terminal(sys.stdout) else text)
    else:
        write_file(output, text)


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raises ArgumentError, `cannot-write`, where what is done to a file or folder in the block fails."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise dojoir.ArgumentError(f"cannot write {os.fspath(path)}: {reason}", "cannot-write") from None


def columns(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Rows as lines, each column as wide as its widest cell; with `right`, all but the first stand on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{'>' if right and n else '<'}{widths[n]}}" for n, cell in enumerate(row)).rstrip()
        for row in rows
    ]
