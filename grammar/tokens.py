"""From text to tokens: each is the longest word, by the order of a grammar's terminals, that may stand where it is.

A terminal is a regular expression. A grammar may have a scanner for each state of its parser, which looks only for
what fits there, so that one word can be several terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Token(str):
    """A piece of the text, or of its layout: its terminal, and where it stands, lines and columns from 1."""

    __slots__ = ("column", "end_column", "end_line", "line", "type")

    def __new__(cls, type: str, text: str, line: int, column: int, end_line: int, end_column: int) -> Token:
        token = super().__new__(cls, text)
        token.type, token.line, token.column = type, line, column
        token.end_line, token.end_column = end_line, end_column
        return token

    type: str
    line: int
    column: int
    end_line: int
    end_column: int

    def at_its_place(self, type: str) -> Token:
        """A token without text, of another terminal, at the place of this one."""
        return Token(type, "", self.line, self.column, self.end_line, self.end_column)


class Unexpected(Exception):
    """Text that does not fit its grammar: where it stops fitting."""

    def __init__(self, line: int, column: int) -> None:
        super().__init__(line, column)
        self.line = line
        self.column = column


class UnexpectedCharacter(Unexpected):
    """A character that begins no terminal."""

    def __init__(self, character: str, line: int, column: int) -> None:
        super().__init__(line, column)
        self.character = character


class UnexpectedToken(Unexpected):
    """A token that does not fit where it stands, and the terminals that do."""

    def __init__(self, token: Token, accepts: frozenset[str]) -> None:
        super().__init__(token.line, token.column)
        self.token = token
        self.accepts = accepts


class Scanner(NamedTuple):
    """Terminals in the order in which they are tried, and the words that make a match of a terminal another one."""

    terminals: tuple[str, ...]
    keywords: Mapping[str, Mapping[str, str]]


class Lexer:
    """Cuts a text into tokens. `patterns` are regular expressions by terminal, `scanner_of` has the number of a
    scanner for each state; the last scanner knows all terminals. The `ignored` ones give no tokens."""

    def __init__(
        self,
        patterns: Mapping[str, str],
        scanners: Sequence[Scanner],
        scanner_of: Sequence[int],
        ignored: Sequence[str],
    ) -> None:
        self._patterns = patterns
        self._scanners = scanners
        self._scanner_of = scanner_of
        self._ignored = frozenset(ignored)
        self._compiled: dict[int, re.Pattern[str]] = {}

    def tokens(self, text: str, state: Callable[[], int]) -> Iterator[Token]:
        """The tokens of a text, the parser being in `state()` before each. What fits only elsewhere is a token as
        well, for the parser to refuse. Raises UnexpectedCharacter."""
        everywhere = len(self._scanners) - 1
        line, line_start, position = 1, 0, 0
        while position < len(text):
            number = self._scanner_of[state()]
            match = self._pattern(number).match(text, position)
            if match is None and number != everywhere:
                number = everywhere
                match = self._pattern(number).match(text, position)
            column = position - line_start + 1
            if match is None:
                raise UnexpectedCharacter(text[position], line, column)
            type, word = match.lastgroup or "", match[0]
            first, position = line, match.end()
            breaks = word.count("\n")
            if breaks:
                line += breaks
                line_start = position - len(word) + word.rindex("\n") + 1
            if type not in self._ignored:
                keywords = self._scanners[number].keywords.get(type)
                if keywords is not None:
                    type = keywords.get(word, type)
                yield Token(type, word, first, column, line, position - line_start + 1)

    def _pattern(self, number: int) -> re.Pattern[str]:
        found = self._compiled.get(number)
        if found is None:
            terminals = self._scanners[number].terminals
            found = re.compile("|".join(f"(?P<{name}>{self._patterns[name]})" for name in terminals))
            self._compiled[number] = found
        return found
