"""About how many bytes an object keeps alive: enough to bound tables with, and soon said."""

from __future__ import annotations

ISL = 3000
"""An isl object: some rows of numbers for each of its pieces. What reads one from a text takes about as much."""

TREE = 300
"""A node, a size or another small frozen object. Kernels share most of theirs with those they were made from."""


def weight(value: object, depth: int = 3) -> int:
    """About the bytes of an object and, to some depth, of what is in it."""
    if isinstance(value, str):
        return 50 + len(value)
    if value is None or isinstance(value, int | float | bool):
        return 16
    if isinstance(value, tuple | frozenset | list | set):
        return 56 + (sum(weight(part, depth - 1) for part in value) if depth else TREE * len(value))
    if isinstance(value, dict):
        return 100 + 100 * len(value)
    kind = type(value)
    if kind.__module__.startswith("islpy"):
        return ISL
    own = getattr(kind, "held_bytes", None)
    if own is not None:
        return int(own)
    return TREE
