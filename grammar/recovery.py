"""More than one error of a text: what is wrong in it besides the first thing.

The parser stops at the first error. To find the next, the line of an error is replaced by one that is right
wherever it stood, or taken away, and the text is read again. Errors that this could be to blame for are not told.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dojoir.errors import Diagnostic, KernelError, ParseError
from dojoir.grammar.reading import parse
from dojoir.ir.words import KEYWORDS
from dojoir.support.public import public

MOST = 20
"""How many errors of one text are told."""

_LINE = re.compile(r"(?P<bars>[ \t|]*)(?P<rest>[^#]*)(#.*)?")
_LABEL = re.compile(r":?.*?(@[A-Za-z_]\w*)\s*$")
_ASSIGNS = re.compile(r"(?<![<>=!])=(?!=)")
_ENDS = frozenset({"empty-body", "no-kernel", "second-kernel", "skipped-depth", "not-a-parent", "too-deep"})
"""Errors of the form of the whole text: what comes after them says nothing."""


@public
def problems(text: str, name: str = "<string>") -> tuple[Diagnostic, ...]:
    """The errors that `dojoir.parse` finds in a text, in the order in which it does; none, where it finds none.

    The first is what `parse` raises. Of a declaration that is wrong nothing that uses it can be judged, so it is
    the last.
    """
    found: list[Diagnostic] = []
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    original = "\n".join(lines)
    while len(found) < MOST:
        try:
            parse("\n".join(lines), name)
            break
        except (ParseError, KernelError) as error:
            new = error.diagnostic
        if found and new.code in _ENDS:
            break
        if any(new.span == old.span for old in found) or (found and _changed(new, original, lines)):
            break
        found.append(_of_the_text(new, original))
        if new.span is None or new.code in _ENDS or not _replace(lines, new.span.line - 1):
            break
    return tuple(found)


def _changed(error: Diagnostic, original: str, lines: list[str]) -> bool:
    """Whether an error is at a line that is not the one that was written."""
    if error.span is None:
        return True
    at = error.span.line - 1
    return not at < len(lines) or lines[at] != original.split("\n")[at]


def _of_the_text(error: Diagnostic, original: str) -> Diagnostic:
    """The error, pointing into the text as it was written."""
    if error.source is None or error.source.text == original:
        return error
    return replace(error, source=replace(error.source, text=original))


def _replace(lines: list[str], at: int) -> bool:
    """Puts a line that is right in the place of a wrong one; whether there is such a line."""
    match = _LINE.fullmatch(lines[at]) if at < len(lines) else None
    if match is None:
        return False
    bars, rest = match["bars"], match["rest"].strip()
    word = re.match(r"\w*", rest)
    if (word is not None and word[0] != "if" and word[0] in KEYWORDS and not bars.strip()) or not rest:
        return False  # a declaration
    below = next((line for line in lines[at + 1 :] if line.split("#")[0].strip(" \t|")), "")
    parent = _depth(below) > bars.count("|")
    if not parent and _ASSIGNS.search(rest) is None and "=" not in rest:
        return False
    if parent:
        label = _LABEL.match(rest)
        lines[at] = f"{bars}if 0 == 0" if rest.startswith("if ") else f"{bars}1{' ' + label[1] if label else ''}"
        return True
    _drop(lines, at, bars.count("|"))
    return True


def _drop(lines: list[str], at: int, depth: int) -> None:
    """Takes a node away that has none in it, and what is around it as far as that holds nothing else."""
    lines[at] = ""
    before = next((n for n in range(at - 1, -1, -1) if _is_node(lines[n])), -1)
    after = next((line for line in lines[at + 1 :] if _is_node(line)), "")
    if depth and before >= 0 and _depth(lines[before]) < depth and _depth(after) < depth:
        _drop(lines, before, depth - 1)


def _is_node(line: str) -> bool:
    return bool(line.split("#")[0].strip(" \t|"))


def _depth(line: str) -> int:
    return line[: len(line) - len(line.lstrip(" \t|"))].count("|")
