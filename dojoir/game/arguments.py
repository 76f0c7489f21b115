"""The arguments of a caller, held to what they may be, and the errors of those that do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dojoir


def wrong(message: str) -> dojoir.ArgumentError:
    """The error of an argument that does not fit."""
    return dojoir.ArgumentError(message, "bad-arguments")


def shown(value: object) -> str:
    """A value as an error shows it: short ones as they are, others by their type."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else type(value).__name__


def number(name: str, given: object, least: int, below: int | None = None) -> int:
    """A whole number from `least`, and less than `below`. Raises ArgumentError for anything else."""
    value = int(given) if hasattr(given, "__index__") and not isinstance(given, bool) else least - 1
    if value < least or (below is not None and value >= below):
        bounds = f"from {least}" if below is None else f"from {least} to {below - 1}"
        raise wrong(f"{name} is a whole number {bounds}, not {shown(given)}")
    return value


def word(name: str, given: object, known: Sequence[str]) -> str:
    """One of some words. Raises ArgumentError for another."""
    if not isinstance(given, str) or given not in known:
        raise wrong(f"{name} is one of {', '.join(known)}, not {shown(given)}")
    return given


def real(name: str, given: Any, least: float, most: float = math.inf, *, above: bool = False) -> float:
    """A finite number from `least` to `most`, or above `least`. Raises ArgumentError for anything else."""
    try:
        value = math.nan if isinstance(given, bool | str) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not (math.isfinite(value) and least <= value <= most) or (above and value == least):
        bounds = f"{'above' if above else 'from'} {least:g}{'' if most == math.inf else f' to {most:g}'}"
        raise wrong(f"{name} is a number {bounds}, not {shown(given)}")
    return value
