"""The words of the language: which names a kernel may give to its sizes, buffers and labels."""

from __future__ import annotations

import re

from dojoir.ir.dtypes import DTYPES
from dojoir.ir.operations import CALLS

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
