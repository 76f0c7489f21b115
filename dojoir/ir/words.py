"""The words of the language: marks, storages, attributes, and which names a kernel may give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from dojoir.ir.dtypes import DTYPES
from dojoir.ir.operations import CALLS

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

KEYWORDS = ("kernel", "where", "fp", "in", "out", "inout", "tmp", "if", "and", "or", "not", "inf", "nan")
RESERVED = CALLS | frozenset(DTYPES)
"""The names that no size and no buffer may have: those that are called."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def is_name(word: str) -> bool:
    """Whether a word can be the name of a kernel or, after '@', of a scope."""
    return bool(_NAME.fullmatch(word)) and word not in KEYWORDS


def is_label(word: str) -> bool:
    """Whether a word can be a label, without its '@'."""
    return bool(_NAME.fullmatch(word))


def name_error(word: str) -> str | None:
    """Why a word cannot be the name of a size or a buffer, or None."""
    if not _NAME.fullmatch(word):
        return f"'{word}' is not a name: write letters, digits and '_', no digit first"
    if word in KEYWORDS or word in RESERVED:
        return f"'{word}' is a word of the language, and cannot be a name"
    return None
