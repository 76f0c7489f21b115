"""Conditions on the sizes of a call, as schedules write them in `# when:`: `N >= 64`, `M % 16 == 0`."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping

from dojoir.errors import ArgumentError, repr_of
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

_FORM = re.compile(r"([A-Za-z_]\w*)(?:\s*%\s*0*([1-9]\d*))?\s*(==|!=|<=|>=|<|>)\s*(\d+)")

MOST_DIGITS = 18
"""How many digits a number in a condition has at most: a call compares in 64 bits."""

RELATIONS = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True)
class SizeCondition:
    """A condition on a size: `name relation number`, or `name % divisor relation number` where `divisor` is not
    0."""

    name: str
    divisor: int
    relation: str
    number: int

    @staticmethod
    @public
    def parse(text: str) -> SizeCondition:
        """The condition that a text writes. Raises ArgumentError where it is none."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            message = f"{repr_of(text)} is not a condition such as N >= 64, N % 16 == 0 or threads == 1"
            raise ArgumentError(message, "bad-schedule")
        name, divisor, relation, number = match.groups()
        if max(len(number), len(divisor or "")) > MOST_DIGITS:
            raise ArgumentError(
                f"{repr_of(text)} has a number beyond 10^{MOST_DIGITS}: no size is so large", "bad-schedule"
            )
        return SizeCondition(name, int(divisor or 0), relation, int(number))

    def holds(self, known: Mapping[str, int]) -> bool:
        """Whether it is known to be met."""
        if self.name not in known:
            return False
        value = known[self.name] % self.divisor if self.divisor else known[self.name]
        return bool(RELATIONS[self.relation](value, self.number))

    def __str__(self) -> str:
        rest = f" % {self.divisor}" if self.divisor else ""
        return f"{self.name}{rest} {self.relation} {self.number}"
