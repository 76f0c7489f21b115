"""Pieces of C: expressions that know how tightly they bind, the forms in which operations are written, and
the breaking of long lines. Brackets appear where C's precedence or a reader needs them, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from dojoir.support.frozen import dataclass

WIDTH = 100
"""The column that a line of C stays left of, where it can be broken."""


class Precedence(IntEnum):
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
    level: Precedence = Precedence.PRIMARY
    literal: bool = False

    def __str__(self) -> str:
        return self.text

    def within(self, level: Precedence) -> str:
        """The text, in brackets where it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


# -- forms -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Infix:
    """`left symbol right`. An operand that binds less tightly than `inner` goes into brackets; with `chain` the
    left one (`both`: either one) may be of the same level."""

    symbol: str
    level: Precedence
    inner: Precedence
    chain: str = "left"

    def apply(self, *operands: Text) -> Text:
        left, right = operands
        literal = (
            left.literal
            and right.literal
            and self.level in (Precedence.BIT_AND, Precedence.BIT_XOR, Precedence.BIT_OR)
        )
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
        inner = operand.within(Precedence.UNARY)
        doubled = inner.startswith("-") and self.symbol.endswith("-")
        return Text(self.symbol + (f"({inner})" if doubled else inner), Precedence.UNARY)


@dataclass(frozen=True)
class FunctionCall:
    """`name(operand, …)`: a function of the prelude, of the program or of the C library."""

    name: str

    def apply(self, *operands: Text) -> Text:
        return Text(f"{self.name}({', '.join(operand.text for operand in operands)})")


@dataclass(frozen=True)
class Ternary:
    """`condition ? yes : no`."""

    def apply(self, *operands: Text) -> Text:
        condition, yes, no = operands
        parts = (
            f"{condition.within(Precedence.OR)} ? {yes.within(Precedence.OR)} : {no.within(Precedence.CONDITIONAL)}"
        )
        return Text(parts, Precedence.CONDITIONAL, yes.literal and no.literal)


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
            return operand.text if alone else operand.within(Precedence.UNARY)

        return Text(re.sub(r"\b(?:vl|pg|[abcpmn])\b", fill, self.spelling), _level(self.spelling))


_LEVELS = {"?": Precedence.CONDITIONAL, "|": Precedence.BIT_OR, "^": Precedence.BIT_XOR, "&": Precedence.BIT_AND}
_LEVELS |= {
    "==": Precedence.EQUALITY,
    "!=": Precedence.EQUALITY,
    ">>": Precedence.SHIFT,
    "<<": Precedence.SHIFT,
    "+": Precedence.ADD,
}


def _level(spelling: str) -> Precedence:
    """How tightly a spelling binds: by the loosest operator outside of brackets."""
    depth, found = 0, [Precedence.PRIMARY]
    for word in re.findall(r"[()\[\]{}]|[?|^&=!<>+]+|[^()\[\]{}?|^&=!<>+]+", spelling):
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        elif depth == 0 and word in _LEVELS:
            found.append(_LEVELS[word])
    cast = spelling.startswith(("(", "~", "*", "!"))
    return min(*found, Precedence.UNARY if cast else Precedence.PRIMARY)


Form = Infix | Prefix | FunctionCall | Ternary | Template

ADD = Infix("+", Precedence.ADD, Precedence.MULTIPLY)
SUBTRACT = Infix("-", Precedence.ADD, Precedence.MULTIPLY)
MULTIPLY = Infix("*", Precedence.MULTIPLY, Precedence.UNARY)
DIVIDE = Infix("/", Precedence.MULTIPLY, Precedence.UNARY)
REMAINDER = Infix("%", Precedence.MULTIPLY, Precedence.UNARY)
SHIFT_LEFT = Infix("<<", Precedence.SHIFT, Precedence.UNARY, "none")
SHIFT_RIGHT = Infix(">>", Precedence.SHIFT, Precedence.UNARY, "none")
BIT_AND = Infix("&", Precedence.BIT_AND, Precedence.UNARY)
BIT_OR = Infix("|", Precedence.BIT_OR, Precedence.UNARY)
BIT_XOR = Infix("^", Precedence.BIT_XOR, Precedence.UNARY)
AND = Infix("&&", Precedence.AND, Precedence.EQUALITY)
OR = Infix("||", Precedence.OR, Precedence.EQUALITY)
COMPARE = {
    "eq": Infix("==", Precedence.EQUALITY, Precedence.ADD, "none"),
    "ne": Infix("!=", Precedence.EQUALITY, Precedence.ADD, "none"),
    "lt": Infix("<", Precedence.RELATION, Precedence.ADD, "none"),
    "le": Infix("<=", Precedence.RELATION, Precedence.ADD, "none"),
    "gt": Infix(">", Precedence.RELATION, Precedence.ADD, "none"),
    "ge": Infix(">=", Precedence.RELATION, Precedence.ADD, "none"),
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
