"""Names that nothing else has."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count


def free(base: str, is_taken: Callable[[str], bool], between: str = "") -> str:
    """`base`, or with the first number behind it, from 2 on, that makes a name which is not taken."""
    tries = chain((base,), (f"{base}{between}{n}" for n in count(2)))
    return next(name for name in tries if not is_taken(name))
