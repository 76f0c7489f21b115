"""What a compiled function says when it returns."""

from __future__ import annotations

from dojoir.support.frozen import dataclass

OK, OUT_OF_MEMORY, FIRST_CHECK = 0, 1, 2
"""The status that a program returns: fine, no memory, or FIRST_CHECK + n when runtime check n failed."""


@dataclass(frozen=True)
class Check:
    """What runtime check n looks at: the gathered `access` in the text, and the kernel path of its statement."""

    access: str
    path: tuple[int, ...]
