"""The status codes of a compiled function."""

from __future__ import annotations

from typing import Literal, get_args

from dojoir.support.frozen import dataclass

OK, OUT_OF_MEMORY, FIRST_CHECK = 0, 1, 2
"""The status that a program returns: fine, no memory, or FIRST_CHECK + n when runtime check n failed."""


Fault = Literal["index", "shift", "divisor"]
FAULTS: tuple[Fault, ...] = get_args(Fault)


@dataclass(frozen=True)
class Check:
    """The subject of runtime check n: the gathered access or the statement in the text, and the kernel path of
    that. `fault` is what went wrong: an index, the count of a shift, or a divisor that is 0."""

    text: str
    path: tuple[int, ...]
    fault: Fault = "index"

    def __str__(self) -> str:
        match self.fault:
            case "index":
                return f"an index of {self.text} was out of bounds"
            case "shift":
                return f"the count of a shift in {self.text} was not within the width"
            case "divisor":
                return f"a divisor in {self.text} was 0"
