"""What an accumulation may begin with and end as if it had not: in which element types there is such a value."""

from __future__ import annotations

import math

from dojoir.dtypes import DType
from dojoir.rounding import FORMATS


def neutral(op: str, dtype: DType) -> int | float | None:
    """The value of an element of type `dtype` that the accumulation `op` leaves alone, or None if there is none.

    `max=` and `min=` begin with an infinity where the type has one (or rounds it to its largest number), and with
    the largest finite number where an infinity is stored as NaN. Integers have none of their own that can be
    written for every width.
    """
    match op:
        case "+=":
            return 0
        case "*=":
            return 1
    if not dtype.is_float:
        return None
    format_ = FORMATS[dtype.name]
    largest = format_.largest if format_.overflow == "nan" else math.inf
    return -largest if op == "max=" else largest
