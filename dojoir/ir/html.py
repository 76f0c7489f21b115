"""Kernels, errors and differences as HTML, for the cells of notebooks."""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterable, Mapping, Sequence

from dojoir.ir.lexer import DojoLexer

_PRE = (
    "font-family:ui-monospace,Menlo,Consolas,monospace;margin:0;padding:.5em .8em;border:1px solid #8884;"
    "border-radius:4px;line-height:1.35;overflow-x:auto"
)
_COLOURS = {
    "Comment": "#7d8590",
    "Keyword": "#a657d6",
    "Keyword.Type": "#2f81c7",
    "Keyword.Pseudo": "#c77700",
    "Name.Function": "#2f81c7;font-weight:bold",
    "Name.Builtin": "#b5892a",
    "Name.Label": "#c77700",
    "Name.Variable": "#2e9e5b",
    "Literal.Number": "#c0574f",
    "Operator": "#888888",
    "Punctuation": "#888888",
}
"""Colours that can be read on light and on dark ground, by the kind of a token."""


_UNFOLDED = 24
"""A cell that shows more moves than this begins with the families."""


def kernel_html(text: str) -> str:
    """The text of a kernel, in colours."""
    return f'<pre style="{_PRE}">{coloured(text)}</pre>'


def diff_html(before: str, after: str) -> str:
    """The differences between two texts of a kernel: removed lines in red, added lines in green."""
    lines = []
    for line in list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]:
        sign, rest = line[:1], line[1:]
        if sign == "@":
            lines.append(f'<span style="color:#7d8590">{html.escape(line)}</span>')
            continue
        ground = {"+": "background:#2e9e5b33", "-": "background:#d1453b33"}.get(sign, "")
        lines.append(f'<span style="display:inline-block;min-width:100%;{ground}">{sign} {coloured(rest)}</span>')
    return f'<pre style="{_PRE}">{chr(10).join(lines)}</pre>' if lines else ""


def move_html(text: str, meaning: str) -> str:
    """A move or a pass as it is typed, and what it does."""
    return f'<div><code style="font-weight:bold">{html.escape(text)}</code><br>{html.escape(meaning)}</div>'


def moves_html(families: Mapping[str, Sequence[str]], complete: bool) -> str:
    """Legal moves as they are typed, those of a family behind its name. Lists that are long are folded."""
    count = sum(map(len, families.values()))
    more = "" if complete else "; there may be more: time was up"
    head = f"<b>{count or 'no'} legal move{'s' * (count != 1)}</b>{more}"
    rows = []
    for name, moves in families.items():
        texts = " &nbsp; ".join(f"<code>{html.escape(move)}</code>" for move in moves)
        title = f"{html.escape(name)} ({len(moves)})"
        rows.append(f"<details{' open' * (count <= _UNFOLDED)}><summary>{title}</summary>{texts}</details>")
    return f"<div>{head}{''.join(rows)}</div>"


def table_html(head: str, rows: Iterable[tuple[str, ...]], titles: tuple[str, ...] = ()) -> str:
    """A table of facts: a heading, rows of a name and its values, and titles of the columns where given."""
    titled = "".join(f'<th style="text-align:left">{html.escape(title)}</th>' for title in titles)
    cells = f"<tr>{titled}</tr>" if titles else ""
    for name, *values in rows:
        cells += f'<tr><td style="text-align:left;opacity:.75">{html.escape(name)}</td>'
        cells += "".join(f'<td style="text-align:left">{html.escape(value)}</td>' for value in values) + "</tr>"
    return f"<div><b>{html.escape(head)}</b><table>{cells}</table></div>"


def message_html(text: str, colour: str) -> str:
    """An error as it is printed, with a bar in a colour beside it."""
    return f'<pre style="{_PRE};border-left:4px solid {colour};white-space:pre-wrap">{html.escape(text)}</pre>'


def coloured(text: str) -> str:
    """A piece of a kernel as spans."""
    out = []
    for kind, word in DojoLexer(ensurenl=False, stripnl=False).get_tokens(text):
        name = str(kind).removeprefix("Token.")
        while name and name not in _COLOURS:
            name = name.rpartition(".")[0]
        shown = html.escape(word)
        out.append(f'<span style="color:{_COLOURS[name]}">{shown}</span>' if name else shown)
    return "".join(out)
