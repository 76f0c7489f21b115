"""The approximate retained bytes of an object: enough to bound tables with, and cheap to compute."""

from __future__ import annotations

ISL = 3000
"""An isl object: some rows of numbers for each of its pieces. What reads one from a text takes about as much."""

TREE = 400
"""A node, a size or another small frozen object. Kernels share most of theirs with those they were made from."""

_OF_KIND: dict[type, int] = {type(None): 16, int: 16, float: 16, bool: 16}
"""The size of any object of a class, for classes that were met and that are no texts and no collections."""


def weight(value: object, depth: int = 3) -> int:
    """About the bytes of an object and, to some depth, of what is in it."""
    kind = type(value)
    fixed = _OF_KIND.get(kind)
    if fixed is not None:
        return fixed
    if isinstance(value, str):
        return 50 + len(value)
    if isinstance(value, tuple | frozenset | list | set):
        return 56 + (sum([weight(part, depth - 1) for part in value]) if depth else TREE * len(value))
    if isinstance(value, dict):
        return 100 + 100 * len(value)
    own = ISL if kind.__module__.startswith("islpy") else int(getattr(kind, "held_bytes", TREE))
    return _OF_KIND.setdefault(kind, own)
