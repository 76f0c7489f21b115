"""Sizes at which a text of practice is called: small, as large as so many statements allow, one long, two long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Any

import dojoir

SMALL = (3, 5, 2, 4)
LARGEST, LONG = 300, 4500
"""The most that one of two sizes is, and that one alone is."""

MOST_CALLS, MOST_MADE = 10, 4
"""How many calls a text has, and one whose inputs are made by its comments."""


def calls_of(text: Any, most: int) -> list[dict[str, int]]:
    """Sizes of calls: small, as large as so many statements allow, one long, two long."""
    names = [*text.kernel.runtime_sizes]
    if not names:
        return [{}]
    wishes = [dict(zip(names, (SMALL[(n + 1) % 4] for n in range(len(names))), strict=True))]
    wishes.append(_balanced(text, names, LARGEST, most))
    random = Random(text.name)
    pairs = [*combinations(names, 2)]
    wishes += [_balanced(text, [name], LONG, most) for name in names]
    wishes += [_balanced(text, pair, LARGEST, most) for pair in random.sample(pairs, min(len(pairs), 4))]
    found: list[dict[str, int]] = []
    for wish in wishes:
        sizes = nearest(text.kernel, wish)
        if sizes is not None and sizes not in found and dojoir.cost(text.kernel).instances(sizes) <= 2 * most:
            found.append(sizes)
    return found[: MOST_MADE if text.made else MOST_CALLS]


def _balanced(text: Any, long: Sequence[str], largest: int, most: int) -> dict[str, int]:
    """Sizes of which some are long, none longer than the text is timed with, and odd."""
    kernel = text.kernel
    small = {name: min(SMALL[n % 4], text.sizes[name]) for n, name in enumerate(kernel.runtime_sizes)}
    count = dojoir.cost(kernel).instances
    limit = float(largest)
    while True:
        wish = small | {name: max(small[name], min(text.sizes[name], int(limit) | 1)) for name in long}
        sizes = nearest(kernel, wish) or wish
        if limit < 4 or count(sizes) <= most:
            return wish
        limit /= 1.1


def nearest(kernel: dojoir.Kernel, wish: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes at or above those wished for, or some others lowered to them, that the facts of the kernel allow."""
    names = [*wish]
    asked = {name for fact in kernel.facts for side in (fact.left, fact.right) for name in side.sizes}
    few = sorted(names, key=lambda name: name not in asked)[:4]
    for shift in sorted(product(range(8), repeat=len(few)), key=sum):
        found = {**wish, **{name: wish[name] + more for name, more in zip(few, shift, strict=True)}}
        if _allowed(kernel, found):
            return found
    least = min(wish.values())
    return lowered if _allowed(kernel, lowered := dict.fromkeys(names, least)) else None


def _allowed(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> bool:
    try:
        kernel.specialize(**sizes)
    except dojoir.DojoError:
        return False
    return True
