"""What follows from one frozen object alone, found once for it: a table beside every node of a tree.

Kernels share the nodes that a rewrite left alone, so what is kept with a node is taken over by every kernel that
has it. It goes by the very object, not by what it is equal to: labels and places in the source count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
N = TypeVar("N")


def once_for_each(found_for: Callable[[N], T]) -> Callable[[N], T]:
    """Makes a function of one frozen object keep its answer with the object. (`hash_once` does not pickle it.)"""
    key = f"_{found_for.__module__}.{found_for.__qualname__}"

    @wraps(found_for)
    def kept(of: N) -> T:
        held = of.__dict__
        try:
            found: T = held[key]
        except KeyError:
            found = held[key] = found_for(of)
        return found

    return kept
