"""From text to what it means by an LALR(1) automaton, whose tables `generate.py` made of a grammar.

The automaton is that of DeRemer and Pennello, "Efficient Computation of LALR(1) Look-Ahead Sets" (TOPLAS 4.4,
1982): a stack of states, which a token grows (shift) or, by a rule whose right side is on top, shrinks (reduce).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dojoir.grammar.tokens import Lexer, Scanner, Token, UnexpectedToken

END = "$END"
"""The terminal at the end of every text."""


class Part(NamedTuple):
    """A symbol of a rule that is kept: its position, whether it stands for the many that it holds, and how many
    optional symbols before it are absent, each of which gives a None."""

    position: int
    holds_many: bool
    absent: int


class Rule(NamedTuple):
    """`size` symbols become an `origin`: what the method `action` makes of the parts that are kept and of `absent`
    Nones after them; without an action a list of them. One that is `transparent` leaves a single part as it is."""

    origin: str
    size: int
    action: str
    parts: tuple[Part, ...]
    absent: int
    transparent: bool


class Tables(NamedTuple):
    """A grammar as an automaton. In each state a symbol leads to the next state or, below 0, is reduced by the rule
    `~number` before it. A text of kind `k` begins in `start[k]` and is whole in `end[k]`."""

    patterns: Mapping[str, str]
    ignored: Sequence[str]
    scanners: Sequence[Scanner]
    scanner_of: Sequence[int]
    rules: Sequence[Rule]
    start: Mapping[str, int]
    end: Mapping[str, int]
    states: Sequence[Mapping[str, int]]


class Parser:
    """Reads texts of one grammar. `actions` has a method for every action of its rules; `layout` adds tokens to
    those of the text, or takes some away."""

    def __init__(
        self, tables: Tables, actions: object, layout: Callable[[Iterator[Token]], Iterator[Token]] | None = None
    ) -> None:
        self._rules = [(rule, _action(rule, actions)) for rule in tables.rules]
        self._tables = tables
        self._lexer = Lexer(tables.patterns, tables.scanners, tables.scanner_of, tables.ignored)
        self._layout = layout

    def parse(self, text: str, start: str) -> object:
        """What the actions make of a text of the kind `start`. Raises UnexpectedCharacter, UnexpectedToken and what
        the layout and the actions raise."""
        stack, end = [self._tables.start[start]], self._tables.end[start]
        values: list[object] = []
        tokens = self._lexer.tokens(text, lambda: stack[-1])
        token = Token(END, "", 1, 1, 1, 1)
        for token in tokens if self._layout is None else self._layout(tokens):
            self._reduce(stack, values, token, end)
            stack.append(self._tables.states[stack[-1]][token.type])
            values.append(token)
        self._reduce(stack, values, token.at_its_place(END), end)
        return values[-1]

    def _reduce(self, stack: list[int], values: list[object], token: Token, end: int) -> None:
        """Applies rules until the token can be shifted or, at the end of the text, the state is `end`. Raises
        UnexpectedToken."""
        states = self._tables.states
        while True:
            number = states[stack[-1]].get(token.type)
            if number is None:
                if token.type == END and stack[-1] == end:
                    return
                raise UnexpectedToken(token, self._accepted(stack, end))
            if number >= 0:
                return
            rule, action = self._rules[~number]
            base = len(values) - rule.size
            value = action(values[base:])
            del values[base:], stack[base + 1 :]
            stack.append(states[stack[-1]][rule.origin])
            values.append(value)

    def _accepted(self, stack: list[int], end: int) -> frozenset[str]:
        """The terminals that may come next. That one is in the row of a state is not enough, since rows of an LALR
        automaton are merged: it may, if after all its reductions it can be shifted."""
        row = self._tables.states[stack[-1]]
        return frozenset(name for name in row if name.isupper() and self._fits(name, stack.copy(), end))

    def _fits(self, terminal: str, stack: list[int], end: int) -> bool:
        states = self._tables.states
        while (number := states[stack[-1]].get(terminal)) is not None:
            if number >= 0:
                return True
            rule = self._tables.rules[~number]
            del stack[len(stack) - rule.size :]
            stack.append(states[stack[-1]][rule.origin])
        return terminal == END and stack[-1] == end


def _action(rule: Rule, actions: object) -> Callable[[list[object]], object]:
    """What a rule makes of the values of its symbols."""
    method: Callable[..., object] | None = getattr(actions, rule.action) if rule.action else None

    def make(symbols: list[object]) -> object:
        kept: list[object] = []
        for position, holds_many, absent in rule.parts:
            kept += [None] * absent
            symbol = symbols[position]
            if holds_many:
                assert isinstance(symbol, list)
                kept += symbol
            else:
                kept.append(symbol)
        kept += [None] * rule.absent
        if rule.transparent and len(kept) == 1:
            return kept[0]
        return kept if method is None else method(*kept)

    return make
