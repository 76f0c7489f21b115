"""Names of Python text that are used once, written where they are used: what `and` and `select` leave out is then
not computed. What is given a name in a block, which is indented, is used there alone.

It is for text in which a name is given once, and no value but that of an element depends on when it is computed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

NAME = re.compile(r"\bt\d+\b")

MOST = 40
"""How many parentheses a value that is written elsewhere may have: Python has a limit for nested ones."""

ROUNDED = "f32[0]"
"""The element that rounds a value: it is read right after it was written, and stays where it is."""


def inlined(lines: Sequence[str]) -> list[str]:
    """The lines of a statement, of which some give names to values, `t1 = …`, and others store elements or raise
    errors, with fewer names. What reads elements comes before the stores that it came before."""
    uses = Counter(name for line in lines for name in NAME.findall(line))
    done: list[str] = []
    waiting: dict[str, str] = {}

    def write(name: re.Match[str]) -> str:
        text = waiting.pop(name[0], None)
        return name[0] if text is None else f"({text})"

    for line in lines:
        text = NAME.sub(write, line)
        name, is_given, value = text.strip().partition(" = ")
        if is_given and NAME.fullmatch(name):
            if uses[name] == 2 and value != ROUNDED and value.count("(") <= MOST:  # here, and once more
                waiting[name] = value
                continue
        elif is_given and name.endswith("]") and name != ROUNDED:
            done += [f"{name} = {value}" for name, value in waiting.items()]
            waiting.clear()
        done.append(text)
    return done
