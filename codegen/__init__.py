"""Lowering, and one printer for each target. `emit` gives the source of a kernel.

Each name is imported when it is first used: what compiles for one target needs no other's printer.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.codegen.emission import TARGETS, emit

__all__ = ["TARGETS", "emit"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'dojoir.codegen' has no attribute {name!r}")
    value = getattr(importlib.import_module("dojoir.codegen.emission"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
