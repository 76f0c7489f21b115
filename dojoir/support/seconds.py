"""Times for people to read."""

from __future__ import annotations

from dojoir.support.public import public


@public
def format_seconds(seconds: float) -> str:
    """A time with its unit, to three digits: `1.23 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
