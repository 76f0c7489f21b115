"""The diagnostics of errors, each with a place, a reason and a cure."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from dojoir.support.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


_LONGEST = 1400
"""Characters of a message: a name or text of the caller's may be of any length."""

_WIDEST = 200
"""How much of a line is shown with an error."""


@dataclass(frozen=True)
class Span:
    """A piece of one line of a text: 1-based `line` and `column`, `end` is one past the last column."""

    line: int
    column: int
    end: int


@dataclass(frozen=True)
class Source:
    """The text that a kernel was read from, and the name to show for it."""

    name: str
    text: str

    def line(self, number: int) -> str:
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Note:
    """A second place or fact that explains a diagnostic. Its place is in the text of the diagnostic unless it has a
    `source` of its own."""

    message: str
    span: Span | None = None
    source: Source | None = None


@dataclass(frozen=True)
class Party:
    """One of those that a diagnostic is about: a statement in one of its iterations, or a scope. `does` says in
    words what it does or would do, `path` is its path, `text` its line and `access` what of it counts."""

    does: str
    path: str
    text: str
    access: str | None
    iteration: tuple[int, ...]
    span: Span
    source: Source

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "does": self.does,
            "path": self.path,
            "text": self.text,
            "access": self.access,
            "iteration": list(self.iteration),
            "file": self.source.name,
            "line": self.span.line,
            "column": self.span.column,
            "end": self.span.end,
        }


@dataclass(frozen=True)
class Diagnostic:
    """One error: a stable `code` (such as `unknown-buffer`), a message, and where it is. Where the error is one of
    the data, `sizes` and `parties` say at which sizes, and between which statements in which iterations."""

    code: str
    message: str
    span: Span | None = None
    source: Source | None = None
    notes: tuple[Note, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    parties: tuple[Party, ...] = ()

    def __post_init__(self) -> None:
        _check_texts(self.code, self.message)
        if len(self.message) > _LONGEST:
            half = _LONGEST // 2
            object.__setattr__(self, "message", f"{self.message[:half]} … {self.message[-half:]}")

    def render(self) -> str:
        """`file:line:col: error[CODE]: message`, the line, a caret under the culprit, and the notes."""
        head = f"{_place(self.span, self.source)}error[{self.code}]: {self.message}"
        lines = [head, *_excerpt(self.span, self.source)]
        for note in self.notes:
            source = note.source or self.source
            lines.append(f"{_place(note.span, source)}note: {note.message}")
            lines.extend(_excerpt(note.span, source))
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data: code, message, file, line, column, end, notes, sizes, sites."""

        def place(span: Span | None) -> dict[str, Any]:
            if span is None:
                return {"line": None, "column": None, "end": None}
            return {"line": span.line, "column": span.column, "end": span.end}

        return {
            "code": self.code,
            "message": self.message,
            "file": self.source.name if self.source else None,
            **place(self.span),
            "notes": [{"message": note.message, **place(note.span)} for note in self.notes],
            "sizes": dict(self.sizes),
            "sites": [party.to_json() for party in self.parties],
        }


def _place(span: Span | None, source: Source | None) -> str:
    name = f"{source.name}:" if source else ""
    if span is None:
        return f"{name} " if name else ""
    return f"{name or 'line '}{span.line}:{span.column}: "


def _excerpt(span: Span | None, source: Source | None) -> list[str]:
    if span is None or source is None:
        return []
    line = source.line(span.line)
    if not line.strip():
        return []
    # Of a long line, the part around the culprit is shown.
    start = 0 if len(line) <= _WIDEST else max(0, span.column - _WIDEST // 2)
    shown = line[start : start + _WIDEST]
    column, end = span.column - start, min(span.end - start, len(shown) + 1)
    # Tabs are kept in the indent so that the caret stays under the culprit.
    lead = "".join("\t" if ch == "\t" else " " for ch in shown[: column - 1])
    return [f"  {shown}", f"  {lead}^{'~' * (end - column - 1)}"]


def _check_texts(*texts: object) -> None:
    """Raises ArgumentError where what should be text is none."""
    for text in texts:
        if not isinstance(text, str):
            raise ArgumentError(f"a diagnostic has texts, not {repr_of(text)}", "bad-arguments")


def _diagnostic(value: object) -> Diagnostic:
    """The diagnostic of an error; for any other value, a diagnostic that says so."""
    if isinstance(value, Diagnostic):
        return value
    return Diagnostic("bad-arguments", f"an error is made of a text or a Diagnostic, not {repr_of(value)}")


class DojoError(Exception):
    """Base of every error that dojoir raises for a wrong input. `diagnostic` holds the details."""

    def __init__(self, diagnostic: Diagnostic | str, code: str = "error") -> None:
        diagnostic = Diagnostic(code, diagnostic) if isinstance(diagnostic, str) else _diagnostic(diagnostic)
        super().__init__(diagnostic.render())
        self.diagnostic = diagnostic

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.diagnostic,))

    def _render_traceback_(self) -> list[str]:
        """The lines that a notebook shows: the error alone, as the frames above it are dojoir's own."""
        return str(self).splitlines()


class ParseError(DojoError):
    """The text is not in the language."""


class KernelError(DojoError):
    """The text parses, and the kernel is wrong: an index out of bounds, a read before a write, a type."""


class ArgumentError(DojoError):
    """An argument of a call does not fit: dtype, shape, stride, size, overlap, an unknown name."""


class QueryError(ArgumentError):
    """A query for places matches nothing (`no-match`), or several where one is wanted (`several-matches`)."""


class ToolchainError(DojoError):
    """A compiler, emulator or device is missing or failed."""


class RunError(DojoError):
    """A kernel crashed, hung, ran out of memory, or gave a wrong result."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the nearest known word, or an empty string."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def repr_of(value: object) -> str:
    """A value for a message: its `repr`, cut short. The value may be anything, and its `repr` may fail."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    if " at 0x" in text:  # an address says nothing
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:77]}…"


__all__ = [
    "ArgumentError", "Diagnostic", "DojoError", "KernelError", "Note", "ParseError",
    "Party", "QueryError", "RunError", "Source", "Span", "ToolchainError", "did_you_mean", "repr_of",
]  # fmt: skip
