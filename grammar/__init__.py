"""The text of kernels: the grammar, and the parser from text to the tree.

What needs the parser is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dojoir.grammar.reading import load, parse

if TYPE_CHECKING:
    from dojoir.grammar.parser import parse_affine, parse_conditions, parse_extent, parse_index
    from dojoir.grammar.recovery import problems

_HOME = {
    "parse_affine": "parser",
    "parse_conditions": "parser",
    "parse_extent": "parser",
    "parse_index": "parser",
    "problems": "recovery",
}

__all__ = ["load", "parse", "parse_affine", "parse_conditions", "parse_extent", "parse_index", "problems"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dojoir.grammar' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dojoir.grammar.{_HOME[name]}"), name)
    globals()[name] = value
    return value
