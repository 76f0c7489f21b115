"""What `--time` says of what bounds a kernel, and the legal moves that address it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from textwrap import wrap

import dojoir

MOST = 3
"""How many moves are named."""

MOST_ASKED = 12
"""How many the checker is asked about."""


def legal_moves(kernel: dojoir.Kernel, found: dojoir.Bottleneck, target: str) -> list[str]:
    """Some legal moves of the names that may help, those of deep places first."""
    named: dict[str, list[str]] = {name: [] for name in found.moves}
    for move in dojoir.candidates(kernel, target):
        if move.name in named:
            named[move.name].append(str(move))
    moves: list[str] = []
    for text in islice(_in_turn(list(named.values())), MOST_ASKED):
        if len(moves) < MOST and dojoir.check(kernel, text):
            moves.append(text)
    return moves


def _in_turn(lists: list[list[str]]) -> Iterator[str]:
    """The deepest of each name, then the next of each."""
    ordered = [sorted(one, key=lambda move: -move.partition(",")[0].count(".")) for one in lists]
    for n in range(max(map(len, ordered), default=0)):
        yield from (one[n] for one in ordered if n < len(one))


def bound_lines(found: dojoir.Bottleneck, moves: list[str]) -> str:
    """The lines below the table, in 80 columns."""
    lines = wrap(f"bound by {found}", 80, subsequent_indent="  ")
    if moves:
        lines += wrap(f"  legal moves that address it: {'; '.join(moves)}", 80, subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def bound_facts(found: dojoir.Bottleneck, moves: list[str]) -> dict[str, object]:
    return {"kind": found.kind, "why": found.why, "moves": moves}
