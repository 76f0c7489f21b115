"""The rules of algebra: pairs of small kernels that mean the same over the real numbers, one `.dojo` file each.

A file holds a comment that says what the rule is, the kernel that it finds and, after a line `becomes`, the kernel
that it puts there. The two have the same name, sizes and arguments. What the parts of a rule stand for is said in
`dojoir.rules.rule`; that both sides are equal is shown, for each rule, in the tests.

A file with a line `over sum, product, max, min` stands for a rule of each operator (`dojoir.rules.operators`):
`blocked_scan` is that of sums, `blocked_scan_max` that of maxima.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files

from dojoir.errors import ArgumentError, did_you_mean
from dojoir.grammar import parse
from dojoir.ir.nodes import Kernel
from dojoir.ir.text import to_text
from dojoir.rules.operators import OPERATORS, SUM, Operator, over
from dojoir.rules.rule import Rule, RuleUse, find
from dojoir.support.public import public


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[str, Operator]]:
    """The name of each rule, in alphabetical order, with its file and its operator."""
    found = {}
    for entry in files(__name__).iterdir():
        if entry.name.endswith(".dojo"):
            file = entry.name.removesuffix(".dojo")
            for operator in map(OPERATORS.__getitem__, _operators(entry.read_text(encoding="utf-8"))):
                found[file if operator == SUM else f"{file}_{operator.name}"] = file, operator
    return dict(sorted(found.items()))


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The names of all rules, in alphabetical order."""
    return tuple(_table())


@public
def source(name: str) -> str:
    """The text of the rule of that name, with its comments. Raises ArgumentError for an unknown one."""
    if name not in names():
        known = f"{did_you_mean(name, names())}; the rules are {', '.join(names())}"
        raise ArgumentError(f"there is no rule '{name}'{known}", "unknown-rule")
    file, operator = _table()[name]
    text = files(__name__).joinpath(f"{file}.dojo").read_text(encoding="utf-8")
    if operator == SUM:
        return _OVER.sub("", text)
    said = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    rule = load(name)
    return f"{said}{to_text(rule.left)}\nbecomes\n\n{to_text(rule.right)}"


@public
@lru_cache(maxsize=64)
def load(name: str) -> Rule:
    """The rule of that name. Raises ArgumentError for an unknown one."""
    file, operator = _table().get(name, (name, SUM))
    before, after = _sides(file)
    return Rule(name, over(before, operator, name), over(after, operator, name), operator)


@lru_cache(maxsize=64)
def _sides(file: str) -> tuple[Kernel, Kernel]:
    """The two kernels of a file."""
    left, _, right = source(file).partition("\nbecomes\n")
    return parse(left, f"{file}.dojo"), parse(right, f"{file}.dojo, what it becomes")


def seen_in(kernel: Kernel, use: RuleUse) -> RuleUse:
    """A use of a rule with what its inputs stand for in another form of the kernel that its left side stands in;
    the use itself where that is not there."""
    found = use.rule in names() and find(load(use.rule), load(use.rule).left, kernel, use.path)
    return replace(use, match=replace(use.match, inputs=found[0].inputs)) if found else use


_OVER = re.compile("^over (.*)\n", re.MULTILINE)


def _operators(text: str) -> list[str]:
    """The names of the operators that a file is for."""
    line = _OVER.search(text)
    return line[1].split(", ") if line else [SUM.name]


__all__ = ["load", "names", "source"]
