"""What a compiled function says when it returns."""

from __future__ import annotations

from typing import Literal

from dojoir.support.frozen import dataclass

OK, OUT_OF_MEMORY, FIRST_CHECK = 0, 1, 2
"""The status that a program returns: fine, no memory, or FIRST_CHECK + n when runtime check n failed."""


@dataclass(frozen=True)
class Check:
    """What runtime check n looks at: the gathered access or the shift in the text, and the kernel path of its
    statement. `fault` is what went wrong: an index, or the count of a shift."""

    text: str
    path: tuple[int, ...]
    fault: Literal["index", "shift"] = "index"

    def __str__(self) -> str:
        if self.fault == "index":
            return f"an index of {self.text} was out of bounds"
        return f"the count of a shift in {self.text} was not within the width"
