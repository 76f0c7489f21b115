"""A document: a piece of text that retrieval finds, its kind and its weight."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WEIGHTS = {
    "move": 1.3,
    "rule": 1.3,
    "schedule": 1.2,
    "run": 1.2,
    "structure": 1.2,
    "pass": 1.2,
    "code": 1.1,
    "mark": 1.1,
    "doc": 1.0,
    "note": 0.9,
}
"""The factor of the score of each kind: what the checker proves (moves, rules) and what was measured (schedules)
and recorded (runs) come before prose, and the notes of a user after it."""

MEASURED_HERE = 1.5
"""The factor of a schedule that was measured on a processor of this machine's model, and of runs on this
machine."""

KINDS = tuple(WEIGHTS)

_HEADING = re.compile(r"^(#{1,4}) +(.+?)\s*$")


@dataclass(frozen=True)
class Document:
    """A document: `name` is what an exact question names it by, `title` a line on it, `where` the file or the name
    that it is of, `weight` the factor of its score."""

    kind: str
    name: str
    title: str
    text: str
    where: str
    weight: float

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return dict(vars(self))


def sections(text: str, page: str, kind: str, where: str) -> Iterator[Document]:
    """The sections of a page of Markdown, one for each heading; fenced code is no heading. A text without headings
    is one section, titled by its first line."""
    title, number, fenced = "", 0, False
    lines: list[str] = []
    for line in [*text.splitlines(), "# end"]:
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        body = "\n".join(lines).strip()
        if body:
            first = title or body.splitlines()[0][:100]
            name = page if number == 0 else f"{page}#{number}"
            yield Document(kind, name, first, body, where, WEIGHTS[kind])
            number += 1
        title, lines = heading[2].replace("`", ""), []
