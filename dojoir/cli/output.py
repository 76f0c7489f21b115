"""Where results go: stdout, in colours where a person reads it, or a file that is written whole or not at all."""

from __future__ import annotations

import sys

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
