"""Pieces of C: expressions that know how tightly they bind, the forms in which operations are written, and
the breaking of long lines. Brackets appear where C's precedence or a reader needs them, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from dojoir.support.frozen import dataclass

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


@dataclass(frozen=True)
class Template:
    """Any other text: `operands` are the names in it, in the order in which their values are given."""

    spelling: str
    operands: tuple[str, ...] = ("a", "b", "c")

    def apply(self, *operands: Text) -> Text:
        given = dict(zip(self.operands, operands, strict=False))
        if self.spelling == "a":
            return given["a"]

        def fill(found: re.Match[str]) -> str:
            operand = given.get(found[0])
            if operand is None:
                return found[0]
            before, after = self.spelling[: found.start()], self.spelling[found.end() :]
            alone = before.endswith(("(", ", ")) and after.startswith((")", ","))
            return operand.text if alone else operand.within(Level.UNARY)

        return Text(re.sub(r"\b(?:vl|pg|[abcpmn])\b", fill, self.spelling), _level(self.spelling))


_LEVELS = {"?": Level.CONDITIONAL, "|": Level.BIT_OR, "^": Level.BIT_XOR, "&": Level.BIT_AND}
_LEVELS |= {"==": Level.EQUALITY, "!=": Level.EQUALITY, ">>": Level.SHIFT, "<<": Level.SHIFT, "+": Level.ADD}


def _level(spelling: str) -> Level:
    """How tightly a spelling binds: by the loosest operator outside of brackets."""
    depth, found = 0, [Level.PRIMARY]
    for word in re.findall(r"[()\[\]{}]|[?|^&=!<>+]+|[^()\[\]{}?|^&=!<>+]+", spelling):
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        elif depth == 0 and word in _LEVELS:
            found.append(_LEVELS[word])
    cast = spelling.startswith(("(", "~", "*", "!"))
    return min(*found, Level.UNARY if cast else Level.PRIMARY)


Form = Infix | Prefix | Apply | Ternary | Template

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

INFIX = {form.symbol: form for form in (ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, SHIFT_LEFT, SHIFT_RIGHT)}
INFIX |= {form.symbol: form for form in (BIT_AND, BIT_OR, BIT_XOR, AND, OR, *COMPARE.values())}


# -- lines -------------------------------------------------------------------------------------------------
def comment(text: str) -> str:
    """`text` as a `//` comment of one line that C cannot misread (no continuation, no trigraph)."""
    plain = "".join(ch if ch.isprintable() and ch != "\\" else " " for ch in text)
    return f"// {plain.replace('??', '? ?').strip()}"


def indent(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """The lines, one level further in."""
    return (f"    {line}" if line else line for line in lines)


_BREAK = re.compile(r"(?<=[,;]) | (?=([-+*/%?:^|&]|&&|\|\||<<|>>) )")
_LAST_TO_BREAK = ["", "?", ":", "||", "&&", "|", "^", "&", "<<", ">>", "+", "-", "*", "/", "%"]
_ASSIGNMENT = re.compile(r" [-+*/]?= ")
_FURTHEST = 60


def broken(line: str, width: int = WIDTH) -> Iterator[str]:
    """`line` as lines of at most `width` columns, where it can be broken: outside of brackets before inside, after
    commas and around loose operators before tight ones. What is inside brackets goes on below their inside. A
    comment behind too long a line goes above it."""
    margin = len(line) - len(line.lstrip())
    if len(line) <= width or line.lstrip().startswith(("//", "#")):
        yield line
        return
    line, _, remark = line.partition("  // ")
    if remark:
        yield f"{' ' * margin}// {remark}"
    assigned = _assigned_value(line, width)
    brackets: list[int] = []  # the columns behind those that are open
    while len(line) > width:
        first = max(assigned, len(line) - len(line.lstrip()))
        best = _best_break(line, width, first, brackets)
        deep = best is None or len(best[1]) > 2
        if assigned and (deep or margin + 8 + len(line) - assigned <= width):
            at, brackets = assigned - 1, []
        elif best is not None:
            at, brackets = best
        else:
            break
        assigned = 0
        yield line[:at]
        column = brackets[-1] if brackets and brackets[-1] <= margin + _FURTHEST else margin + 8
        line = " " * column + line[at + 1 :]
    yield line


def _best_break(line: str, width: int, first: int, brackets: list[int]) -> tuple[int, list[int]] | None:
    """The place between columns `first` and `width` at which to break, and the brackets open there."""
    operators = {found.start(): found[1] or "" for found in _BREAK.finditer(line, first + 1, width + 3)}
    best: tuple[int, int, int] | None = None
    there: list[int] = []
    opened = list(brackets)
    for at, ch in enumerate(line[: width + 1]):
        if ch in "([":
            opened.append(at + 1)
        elif ch in ")]":
            opened.pop()
        elif at in operators:
            rank = (len(opened), _LAST_TO_BREAK.index(operators[at]), -at)
            if best is None or rank < best:
                best, there = rank, list(opened)
    return None if best is None else (-best[2], there)


def _assigned_value(line: str, width: int) -> int:
    """The column where the right side of an assignment begins; 0 where there is none
    within `width`."""
    for found in _ASSIGNMENT.finditer(line):
        left = line[: found.start()]
        return found.end() if found.end() <= width + 1 and left.count("(") == left.count(")") else 0
    return 0
