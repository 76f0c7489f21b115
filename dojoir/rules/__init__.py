"""The rules of algebra: pairs of small kernels that mean the same over the real numbers, one `.dojo` file each.

A file holds a comment that says what the rule is, the kernel that it finds and, after a line `becomes`, the kernel
that it puts there. The two have the same name, sizes and arguments. What the parts of a rule stand for is said in
`dojoir.rules.rule`; that both sides are equal is shown, for each rule, in the tests.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from dojoir.errors import ArgumentError, did_you_mean
from dojoir.grammar import parse
from dojoir.rules.rule import Rule
from dojoir.support.public import public


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The names of all rules, in alphabetical order."""
    entries = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".dojo") for name in entries if name.endswith(".dojo")))


@public
def source(name: str) -> str:
    """The text of the rule of that name, with its comments. Raises ArgumentError for an unknown one."""
    if name not in names():
        known = f"{did_you_mean(name, names())}; the rules are {', '.join(names())}"
        raise ArgumentError(f"there is no rule '{name}'{known}", "unknown-rule")
    return files(__name__).joinpath(f"{name}.dojo").read_text(encoding="utf-8")


@public
@lru_cache(maxsize=64)
def load(name: str) -> Rule:
    """The rule of that name. Raises ArgumentError for an unknown one."""
    left, _, right = source(name).partition("\nbecomes\n")
    return Rule(name, parse(left, f"{name}.dojo"), parse(right, f"{name}.dojo, what it becomes"))


__all__ = ["load", "names", "source"]
