"""The errors of arguments that do not fit, beyond what their annotations say."""

from __future__ import annotations

import dojoir


def wrong(message: str) -> dojoir.ArgumentError:
    """The error of an argument that does not fit."""
    return dojoir.ArgumentError(message, "bad-arguments")


def shown(value: object) -> str:
    """A value as an error shows it: short ones as they are, others by their type."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else type(value).__name__
