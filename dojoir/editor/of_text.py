"""The errors of a text that may have several kernels, and the text formatted."""

from __future__ import annotations

import dojoir
from dojoir.cli.chunks import Chunk, separator, split
from dojoir.codes import CODES
from dojoir.errors import Diagnostic
from dojoir.grammar import problems
from dojoir.ir.comments import commented_text


def parts_of(text: str, name: str) -> list[Chunk]:
    """The kernels of a text: the parts between lines of `# -----`; all of it where it is one kernel, or has no such
    line."""
    parts = [part for part in split(text, name, parts=True) if part.text.strip()]
    if len(parts) < 2 or not problems(text, name):
        return split(text, name, parts=False)
    return parts


def errors_of(text: str, name: str, proved: bool = True) -> list[Diagnostic]:
    """The errors of every kernel of a text, in its order. With `proved`, a kernel that can be read is also proved
    well-formed, which may take seconds: what is out of bounds, or is read before it is written."""
    found: list[Diagnostic] = []
    for part in parts_of(text, name):
        wrong = list(problems(part.text, name))
        if not wrong and proved:
            try:
                dojoir.prove(dojoir.parse(part.text, name))
            except dojoir.DojoError as error:
                wrong.append(error.diagnostic)
        found += wrong
    return found


def message_of(error: Diagnostic) -> str:
    """The message of an error, its notes that have no place in the text, and the cure of its code."""
    notes = [f"note: {note.message}" for note in error.notes if note.span is None]
    cure = [f"cure: {CODES[error.code].cure}"] if error.code in CODES else []
    return "\n".join([error.message, *notes, *cure])


def formatted(text: str, name: str) -> str | None:
    """The text as `dojoir-opt` prints it: columns and spaces in one manner, comments and labels kept. None where a
    kernel of it cannot be read: then nothing is changed."""
    out = []
    for part in parts_of(text, name):
        try:
            kernel = dojoir.parse(part.text, name)
        except dojoir.DojoError:
            return None
        if kernel.source is None:
            return None
        out.append(commented_text(kernel, kernel.source))
    return separator(None).join(out)
