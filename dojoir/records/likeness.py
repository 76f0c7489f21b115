"""How alike two kernels are built: which lines of the one, without its names, are lines of the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import dojoir

LIKE = 0.25
"""From where on kernels are alike enough for the moves of one to be tried on the other."""

_WORD = re.compile(r"\w+")
_BAR = re.compile(r"^(?:\|\s*)*")


def alike(one: str, other: str) -> float:
    """The share of lines that two texts have in common, of all that they have, from 0 to 1. Scopes by their depth,
    statements by depth, operators, functions and how they index; names and sizes do not count."""
    mine, theirs = lines(one), lines(other)
    shared, all_of_them = (mine & theirs).total(), (mine | theirs).total()
    return shared / all_of_them if all_of_them else 0.0


def most_alike(kernel: dojoir.Kernel, others: Mapping[str, str]) -> list[str]:
    """The hashes of kernels that are enough like another one, from their hashes to their texts; the most alike
    first."""
    text = dojoir.to_text(kernel)
    found = {hash: alike(text, other) for hash, other in others.items() if hash != kernel.hash}
    return sorted((hash for hash, how in found.items() if how >= LIKE), key=lambda hash: -found[hash])


@lru_cache(256)
def lines(text: str) -> Counter[str]:
    """The lines of a kernel without names: arguments by their element type and dimensions, scopes as such."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        bars = _BAR.match(line)
        depth = 0 if bars is None else bars.group().count("|")
        rest = line[bars.end() :] if bars is not None else line
        kind, _, about = rest.strip().partition(" ")
        if kind in ("kernel", "where", "fp", "#") or not rest.strip():
            continue
        if kind in ("in", "out", "inout", "tmp"):
            found[f"{kind} {_nameless(about.partition(':')[2])}"] += 1
        elif "=" in rest:
            found[f"{depth} {_nameless(rest)}"] += 1
        else:
            found[f"{depth} scope"] += 1
    return found


def _nameless(text: str) -> str:
    """A text whose names are all the same, but for functions, element types and depths of scopes."""

    def change(found: re.Match[str]) -> str:
        word = found.group()
        after = text[found.end() : found.end() + 1]
        return word if after == "(" or word.isdigit() or word in ("f16", "bf16", "f32", "f64", "i32") else "a"

    return _WORD.sub(change, text)
