"""The report of `--time` on the bottleneck of a kernel, and on the legal moves that address it."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.runtime import Bottleneck


def bound_lines(found: Bottleneck, moves: list[str]) -> str:
    """The lines below the table, in 80 columns."""
    lines = wrap(f"bound by {found}", 80, subsequent_indent="  ")
    if moves:
        lines += wrap(f"  legal moves that address it: {'; '.join(moves)}", 80, subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def bound_facts(found: Bottleneck, moves: list[str]) -> dict[str, object]:
    return {"kind": found.kind, "why": found.why, "moves": moves}
