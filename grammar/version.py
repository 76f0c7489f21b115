"""The version of a text, for the day on which the language changes: `# dojo: 1` in its first line.

A text that does not say is of version 1, as every text is today (`docs/stability.md`).
"""

from __future__ import annotations

import re

from dojoir.errors import Diagnostic, ParseError, Source, Span

VERSION = 1
"""Of the text of kernels, pipelines and schedules: what this dojoir reads and writes."""

_LINE = re.compile(r"\s*#[ \t]*dojo:[ \t]*(\d{1,9})[ \t]*(?=\n|$)")


def check_version(source: Source) -> None:
    """Raises ParseError where a text says that it is of a version that this dojoir does not read."""
    match = _LINE.match(source.text)
    if match is None or int(match[1]) == VERSION:
        return
    line = source.text.count("\n", 0, match.start(1)) + 1
    column = match.start(1) - source.text.rfind("\n", 0, match.start(1))
    message = f"this text is of version {int(match[1])}, and this dojoir reads version {VERSION}"
    message += ": take a newer dojoir" if int(match[1]) > VERSION else ""
    raise ParseError(Diagnostic("other-version", message, Span(line, column, column + len(match[1])), source))
