"""Pieces of C: expressions that know how tightly they bind, the forms in which operations are written, and
the breaking of long lines. Brackets appear where C's precedence or a reader needs them, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

WIDTH = 100
"""The column that a line of C stays left of, where it can be broken."""


class Level(IntEnum):
    """How tightly an expression binds, by C's grammar."""

    CONDITIONAL = 1
    OR = 2
    AND = 3
    BIT_OR = 4
    BIT_XOR = 5
    BIT_AND = 6
    EQUALITY = 7
    RELATION = 8
    SHIFT = 9
    ADD = 10
    MULTIPLY = 11
    UNARY = 12
    PRIMARY = 13


@dataclass(frozen=True)
class Text:
    """An expression of C. `literal` marks one that is made of integer literals only: C computes it as an `int`,
    whatever type it stands for."""

    text: str
    level: Level = Level.PRIMARY
    literal: bool = False

    def __str__(self) -> str:
        return self.text

    def within(self, level: Level) -> str:
        """The text, in brackets where it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


# -- forms -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Infix:
    """`left symbol right`. An operand that binds less tightly than `inner` goes into brackets; with `chain` the
    left one (`both`: either one) may be of the same level."""

    symbol: str
    level: Level
    inner: Level
    chain: str = "left"

    def apply(self, *operands: Text) -> Text:
        left, right = operands
        literal = left.literal and right.literal and self.level in (Level.BIT_AND, Level.BIT_XOR, Level.BIT_OR)
        on_left = left.level == self.level and self.chain != "none"
        on_right = right.level == self.level and self.chain == "both"
        first = left.text if on_left else left.within(self.inner)
        second = right.text if on_right else right.within(self.inner)
        return Text(f"{first} {self.symbol} {second}", self.level, literal)


@dataclass(frozen=True)
class Prefix:
    """`symbol operand`: a sign, a complement or a cast."""

    symbol: str

    def apply(self, *operands: Text) -> Text:
        (operand,) = operands
        inner = operand.within(Level.UNARY)
        doubled = inner.startswith("-") and self.symbol.endswith("-")
        return Text(self.symbol + (f"({inner})" if doubled else inner), Level.UNARY)


@dataclass(frozen=True)
class Apply:
    """`name(operand, …)`: a function of the prelude, of the program or of the C library."""

    name: str

    def apply(self, *operands: Text) -> Text:
        return Text(f"{self.name}({', '.join(operand.text for operand in operands)})")


@dataclass(frozen=True)
class Ternary:
    """`condition ? yes : no`."""

    def apply(self, *operands: Text) -> Text:
        condition, yes, no = operands
        parts = f"{condition.within(Level.OR)} ? {yes.within(Level.OR)} : {no.within(Level.CONDITIONAL)}"
        return Text(parts, Level.CONDITIONAL, yes.literal and no.literal)


Form = Infix | Prefix | Apply | Ternary

ADD = Infix("+", Level.ADD, Level.MULTIPLY)
SUBTRACT = Infix("-", Level.ADD, Level.MULTIPLY)
MULTIPLY = Infix("*", Level.MULTIPLY, Level.UNARY)
DIVIDE = Infix("/", Level.MULTIPLY, Level.UNARY)
REMAINDER = Infix("%", Level.MULTIPLY, Level.UNARY)
SHIFT_LEFT = Infix("<<", Level.SHIFT, Level.UNARY, "none")
SHIFT_RIGHT = Infix(">>", Level.SHIFT, Level.UNARY, "none")
BIT_AND = Infix("&", Level.BIT_AND, Level.UNARY)
BIT_OR = Infix("|", Level.BIT_OR, Level.UNARY)
BIT_XOR = Infix("^", Level.BIT_XOR, Level.UNARY)
AND = Infix("&&", Level.AND, Level.EQUALITY)
OR = Infix("||", Level.OR, Level.EQUALITY)
COMPARE = {
    "eq": Infix("==", Level.EQUALITY, Level.ADD, "none"),
    "ne": Infix("!=", Level.EQUALITY, Level.ADD, "none"),
    "lt": Infix("<", Level.RELATION, Level.ADD, "none"),
    "le": Infix("<=", Level.RELATION, Level.ADD, "none"),
    "gt": Infix(">", Level.RELATION, Level.ADD, "none"),
    "ge": Infix(">=", Level.RELATION, Level.ADD, "none"),
}


# -- lines -------------------------------------------------------------------------------------------------
def comment(text: str) -> str:
    """`text` as a `//` comment of one line that C cannot misread (no continuation, no trigraph)."""
    plain = "".join(ch if ch.isprintable() and ch != "\\" else " " for ch in text)
    return f"// {plain.replace('??', '? ?').strip()}"


def indent(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """The lines, one level further in."""
    return (f"    {line}" if line else line for line in lines)


_BREAK = re.compile(r"(?<=[,;]) (?!//)| (?=(?:[-+*/%?:^|&]|&&|\|\||<<|>>) )")
_FURTHEST = 60


def broken(line: str, width: int = WIDTH) -> Iterator[str]:
    """`line` as lines of at most `width` columns, broken at the outermost places that will do; what is inside
    brackets goes on below their inside. A comment behind a line too long goes above it."""
    code, _, remark = line.partition("  // ")
    margin = len(line) - len(line.lstrip())
    if len(line) <= width or line.lstrip().startswith(("//", "#")):
        yield line
        return
    if remark:
        yield f"{' ' * margin}// {remark}"
        line = code
    inside: list[int] = []  # the columns behind the brackets that are open
    indented = margin
    while len(line) > width:
        places = frozenset(at.start() for at in _BREAK.finditer(line) if at.start() > indented)
        fitting: list[tuple[int, int, list[int]]] = []
        depths = list(inside)
        for at, ch in enumerate(line[: width + 1]):
            if ch in "([":
                depths.append(at + 1)
            elif ch in ")]":
                depths.pop()
            elif at in places:
                fitting.append((len(depths), -at, list(depths)))
        start = line.find(" = ") + 2
        if start > 2 and margin + 8 + len(line) - start <= width and not inside:
            fitting.append((0, -start, []))
        if not fitting:
            break
        _, at, inside = min(fitting)
        yield line[:-at]
        indented = inside[-1] if inside and inside[-1] <= margin + _FURTHEST else margin + 8
        line = " " * indented + line[-at + 1 :]
    yield line
