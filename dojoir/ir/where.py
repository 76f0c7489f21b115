"""Where in a text a diagnostic points: into the source of a kernel, or into its canonical text if it has none."""

from __future__ import annotations

import re

from dojoir.errors import Diagnostic, Source, Span
from dojoir.ir.format import format_access, format_buffer, format_condition, format_expr, format_extent
from dojoir.ir.hints import Hint
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Condition,
    Dim,
    Extent,
    Guard,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Size,
    Statement,
)
from dojoir.ir.text import to_text

Part = Size | Condition | Buffer | Dim | Node | Extent | Access | Op | Cast | Hint
"""The parts of a kernel that a place may name: a node, a declaration, or a piece of one."""


def place(kernel: Kernel, path: Path, part: Part | None = None) -> tuple[Source, Span]:
    """The text and the place in it of `part`, which is the node at `path` or a piece of it; of the node itself
    where `part` is None. For what stands in the header `path` is empty (and without `part` it is the name)."""
    if part is None and path:
        part = kernel.at(path)
    if kernel.source is not None and part is not None and part.loc is not None:
        return kernel.source, part.loc
    source = Source(kernel.name, to_text(kernel))
    number, line = _line(kernel, path, part)
    start, end = _columns(kernel, path, part, line)
    return source, Span(number, start + 1, end + 1)


def diagnostic_at(kernel: Kernel, path: Path, code: str, message: str, part: Part | None = None) -> Diagnostic:
    """A diagnostic that points at `part`, as `place` finds it."""
    source, span = place(kernel, path, part)
    return Diagnostic(code, message, span, source)


def _line(kernel: Kernel, path: Path, part: Part | None) -> tuple[int, str]:
    """The number and the text of the line that holds `part`."""
    match part:
        case Condition() if not path:
            first = "where "
        case Buffer():
            first = format_buffer(part)
        case Dim():
            first = format_buffer(next(b for b in kernel.buffers if any(d is part for d in b.dims)))
        case _:
            first = ""
    return next((n, line) for n, (p, line) in enumerate(kernel.lines(), 1) if p == path and line.startswith(first))


def _columns(kernel: Kernel, path: Path, part: Part | None, line: str) -> tuple[int, int]:
    """Where `part` begins and ends in its line, from 0; the whole line without its bars if it is not found."""
    begin = len(line) - len(line.lstrip("| "))
    whole = (begin, len(line))
    match part:
        case None:
            return _find(kernel.name, line, 0) or whole
        case Scope() | Guard() | Statement():
            return whole
        case Hint():
            return _find(str(part), line, begin) or whole
        case Size():
            return _find(part.name, line, line.index("(")) or whole
        case Buffer():
            return _find(part.name, line, line.index(" ")) or whole
        case Dim():
            return _find(str(part.extent), line, line.index("[")) or whole
        case Condition():
            return _find(format_condition(part), line, begin) or whole
        case Extent():
            return _find(format_extent(part), line, begin) or whole
        case Access():
            statement = kernel.at(path)
            if isinstance(statement, Statement) and part is not statement.target:
                begin += len(format_access(statement.target))
            return _find(format_access(part), line, begin) or whole
        case Op() | Cast():
            return _find(format_expr(part), line, begin) or whole


def _find(text: str, line: str, start: int) -> tuple[int, int] | None:
    """The first whole occurrence of `text` in `line` from `start`: no part of a longer name or number."""
    found = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)").search(line, start)
    return found.span() if found else None
