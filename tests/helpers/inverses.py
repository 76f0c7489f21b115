"""A move made and taken back by its inverse, to the letter."""

from __future__ import annotations

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.ir.text import canonical_text
from dojoir.passes.base.move import Move, Refusal


def taken_back(kernel: Kernel, move: Move) -> str:
    """Makes a legal move and its inverse. What became of it: `not legal`, or the name of the move. What was taken
    away may have ended a run, or touched an element: then it may not come back as something new."""
    try:
        done = move.rewrite(kernel)
    except Refusal:
        return "not legal"
    if not dojoir.check(kernel, move):
        return "not legal"
    after = done.kernel
    back = move.inverse(kernel)
    assert dojoir.parse_move(str(back)) == back
    shown = f"{move}; {back}\n{kernel}\n{after}"
    verdict = dojoir.check(after, back)
    if verdict.status == "unknown":  # its budget is spent: no answer
        return "undecided"
    if verdict.code in {"may-fail", "touches"} and len(after.sites) < len(kernel.sites):
        return "gone"
    assert verdict, f"{shown}\n{verdict}"
    again = dojoir.apply(after, back)
    assert canonical_text(again) == canonical_text(kernel), f"{shown}\n{again}"
    assert again.hash == kernel.hash
    assert again == kernel
    forth = back.inverse(after)
    assert dojoir.apply(again, forth) == after, f"{shown}\nforth again: {forth}"
    return move.name
