"""The words of the language that several readers share: marks of scopes, storages and attributes of buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MARKS = ("p", "v", "u", "gx", "gy", "gz", "bx", "by", "bz", "lane")
"""The marks of a scope."""

GRID, BLOCK = ("gx", "gy", "gz"), ("bx", "by", "bz")
LEVELS = {**dict.fromkeys(GRID, 0), **dict.fromkeys(BLOCK, 1), "lane": 2}
"""The marks of a GPU, by how far inside they stand: a grid is around a block, a block around lanes."""

MAX_BLOCK = 1024
"""How many threads the scopes of a block may make together: what every GPU takes."""

MAX_WAVE = 64
"""How many lanes a warp or wavefront may have."""

STORAGES = ("heap", "stack", "reg", "shared")
"""Where a temporary may live."""


class FactForm(NamedTuple):
    """How a fact on data is written, and of what: whether it has a bound in brackets, whether a single number may
    have it, and what its elements are."""

    bounded: bool
    scalars: bool
    kind: str


DATA_FACTS: Mapping[str, FactForm] = {
    "distinct": FactForm(bounded=False, scalars=False, kind="arrays of integers that are indices"),
    "lengths": FactForm(bounded=True, scalars=True, kind="integers that are lengths"),
    "offsets": FactForm(bounded=True, scalars=False, kind="arrays of integers that say where rows begin"),
}
"""The facts on data that an `in` may declare, which each call checks before anything runs: `distinct`, no
two elements are equal; `lengths(M)`, each is from 0 to M; `offsets(M)`, each is 0 to M above the one before it in
the last dimension."""

ATTRIBUTES = (*STORAGES, "order", "pad", "swizzle", "align", "stream", "strided", "flat", "packed", *DATA_FACTS)
"""The words that may follow the type of a buffer."""
