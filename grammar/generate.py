"""Writes the tables of the grammars, `*_tables.py`, from their texts, `*.lark`: run it when one of them changes.

    python -m dojoir.grammar.generate

Lark reads the grammars and computes the automata; the tables are all of it that is needed to parse, so that a
process that parses neither imports Lark nor computes anything. A test holds the tables to the grammars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lark import Lark, Token
from lark.grammar import Rule as LarkRule
from lark.grammar import Terminal
from lark.lark import PostLex
from lark.lexer import BasicLexer, ContextualLexer, UnlessCallback
from lark.parsers.lalr_analysis import Shift

from dojoir.grammar.lalr import Part, Rule, Tables
from dojoir.grammar.tokens import Scanner

FOLDER = Path(__file__).parent
STARTS = {"dojo": ("kernel", "affine"), "pipeline": ("pipeline",), "query": ("query",)}
"""The kinds of text that each grammar has."""


class Layout(PostLex):
    """Stands for what adds the tokens of the layout: that Lark knows of it is enough for the tables."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


def lark_of(grammar: str, layout: PostLex) -> Lark:
    """What Lark makes of a grammar, kernels having a layout."""
    text = (FOLDER / f"{grammar}.lark").read_text(encoding="utf-8")
    start = list(STARTS[grammar])
    if grammar == "dojo":
        return Lark(text, start=start, parser="lalr", lexer="basic", postlex=layout)
    return Lark(text, start=start, parser="lalr")


def tables_of(grammar: str) -> Tables:
    """The tables of a grammar. States are numbered in the order in which they are reached, and rules by their
    symbols, so that the same grammar gives the same tables."""
    lark = lark_of(grammar, Layout())
    frontend = lark.parser
    automaton = frontend.parser._parse_table
    rules = sorted(lark.rules, key=_spelled)
    numbers = {rule: number for number, rule in enumerate(rules)}
    order = list(_reached(automaton.start_states, automaton.states))
    place = {state: number for number, state in enumerate(order)}
    lexer = frontend.lexer
    contextual = isinstance(lexer, ContextualLexer)
    everywhere = lexer.root_lexer if contextual else lexer.lexer
    local = [_scanner(lexer.lexers[state]) if contextual else _scanner(everywhere) for state in order]
    scanners = [scanner for number, scanner in enumerate(local) if scanner not in local[:number]]
    if _scanner(everywhere) != scanners[-1]:
        scanners.append(_scanner(everywhere))
    return Tables(
        patterns={t.name: t.pattern.to_regexp() for t in everywhere.terminals},
        ignored=tuple(sorted(everywhere.ignore_types)),
        scanners=tuple(scanners),
        scanner_of=tuple(map(scanners.index, local)),
        rules=tuple(map(_rule, rules)),
        start={kind: place[state] for kind, state in sorted(automaton.start_states.items())},
        end={kind: place[state] for kind, state in sorted(automaton.end_states.items())},
        states=tuple(
            {
                symbol: place[then] if action is Shift else ~numbers[then]
                for symbol, (action, then) in sorted(automaton.states[state].items())
            }
            for state in order
        ),
    )


def _reached(starts: Mapping[str, int], states: Mapping[int, Mapping[str, tuple[object, int]]]) -> Iterator[int]:
    """The states in the order in which they are reached from the first ones, nearest first."""
    ahead = [starts[kind] for kind in sorted(starts)]
    seen = set(ahead)
    for state in ahead:  # which grows meanwhile
        yield state
        for _, (action, then) in sorted(states[state].items(), key=lambda entry: entry[0]):
            if action is Shift and then not in seen:
                seen.add(then)
                ahead.append(then)


def _spelled(rule: LarkRule) -> tuple[str, list[str], str]:
    return str(rule.origin.name), [str(symbol.name) for symbol in rule.expansion], rule.alias or ""


def _rule(rule: LarkRule) -> Rule:
    """A rule with what Lark keeps of its symbols: no words that the grammar writes out and none whose names begin
    with `_`, the parts of rules whose names do, and None for each symbol in `[]` that is absent."""
    name = str(rule.origin.name)
    options = rule.options
    gaps = "".join("01"[empty] for empty in options.empty_indices or [False] * len(rule.expansion)).split("0")
    parts, absent = [], 0
    for position, symbol in enumerate(rule.expansion):
        absent += len(gaps[position])
        if options.keep_all_tokens or not (isinstance(symbol, Terminal) and symbol.filter_out):
            parts.append(Part(position, not symbol.is_term and symbol.name.startswith("_"), absent))
            absent = 0
    absent += len(gaps[-1])
    transparent = bool(options.expand1 and not rule.alias)
    alone = transparent and absent == 0 and [part[1:] for part in parts] == [(False, 0)]
    action = rule.alias or ("" if alone or name.startswith("_") else name)
    return Rule(name, len(rule.expansion), action, tuple(parts), absent, transparent)


def _scanner(lexer: BasicLexer) -> Scanner:
    terminals = tuple(t.name for t in lexer.scanner.terminals)
    keywords = {
        name: {str(word.pattern.value): word.name for word in callback.scanner.terminals}
        for name, callback in sorted(lexer.callback.items())
        if isinstance(callback, UnlessCallback)
    }
    return Scanner(terminals, keywords)


def source_of(grammar: str) -> str:
    """The module that holds the tables of a grammar."""
    tables = tables_of(grammar)
    lines = [
        f'"""The automaton of `{grammar}.lark`, written by generate.py: see there."""',
        "",
        "# fmt: off",
        "# ruff: noqa: E501",
        "from dojoir.grammar.lalr import Part, Rule, Tables",
        "from dojoir.grammar.tokens import Scanner",
        "",
        "TABLES = Tables(",
    ]
    for name, value in tables._asdict().items():
        match value:
            case dict():
                lines += [
                    f"    {name}={{",
                    *(f"        {key!r}: {entry!r}," for key, entry in value.items()),
                    "    },",
                ]
            case tuple() if name not in {"ignored", "scanner_of"}:
                lines += [f"    {name}=(", *(f"        {_literal(entry)}," for entry in value), "    ),"]
            case _:
                lines.append(f"    {name}={value!r},")
    return "\n".join([*lines, ")"]) + "\n"


def _literal(entry: object) -> str:
    """An entry of a table, the fields of a rule without their names."""
    if not isinstance(entry, Rule):
        return repr(entry)
    parts = "".join(f"Part{tuple(part)!r}, " for part in entry.parts)
    return f"Rule({entry.origin!r}, {entry.size}, {entry.action!r}, ({parts}), {entry.absent}, {entry.transparent})"


def main() -> None:
    for grammar in STARTS:
        (FOLDER / f"{grammar}_tables.py").write_text(source_of(grammar), encoding="utf-8")


if __name__ == "__main__":
    main()
