"""Where a node of a kernel stands in its text."""

from __future__ import annotations

from dojoir.errors import Source, Span
from dojoir.ir import Buffer, Kernel, Path
from dojoir.printer import lines


def place(kernel: Kernel, path: Path, part: Span | None = None) -> tuple[Source, Span]:
    """The source and the span of the node at `path`; of `part` (a `loc` in that node) where it is known.

    A kernel that was not read from a text is shown as it prints.
    """
    if kernel.source is not None:
        span = part or kernel.at(path).loc
        if span is not None:
            return kernel.source, span
    return _printed(kernel, path, None)


def declaration(kernel: Kernel, buffer: Buffer) -> tuple[Source, Span]:
    """The source and the span of the declaration of a buffer."""
    if kernel.source is not None and buffer.loc is not None:
        return kernel.source, buffer.loc
    return _printed(kernel, (), buffer.name)


def _printed(kernel: Kernel, path: Path, buffer: str | None) -> tuple[Source, Span]:
    numbered = list(enumerate(lines(kernel), 1))
    source = Source(kernel.name, "\n".join(text for _, (_, text) in numbered) + "\n")
    for number, (where, text) in numbered:
        declares = text.split(":")[0].split()[-1:] == [buffer] if buffer is not None else True
        if where == path and declares and text:
            lead = len(text) - len(text.lstrip("| "))
            return source, Span(number, lead + 1, len(text) + 1)
    return source, Span(1, 1, len(numbered[0][1][1]) + 1)
