"""The examples that are a text and the moves that make it fast: `examples/NAME.dojo` and `examples/NAME.moves`.

A test takes all it needs from comments in them, so that a new example is two files:

    # sizes: N=1 M=1, N=7 M=17          in the .dojo file: the sizes at which the two ends are compared
    # time: N=1024 M=1024               in the .dojo file: those of `python -m benchmarks examples`
    # numpy: y[:] = 2 * x               in the .dojo file: what it times them against, on the arguments and sizes
    # reached: M : v                    in the .moves file: a line that the last text has, whatever its depth
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from folders import ROOT

import dojoir

EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Example:
    """One example by its name."""

    name: str

    @property
    def text(self) -> str:
        return (EXAMPLES / f"{self.name}.dojo").read_text(encoding="utf-8")

    @property
    def moves(self) -> str:
        return (EXAMPLES / f"{self.name}.moves").read_text(encoding="utf-8")

    @cached_property
    def trace(self) -> dojoir.Trace:
        """All moves, each checked."""
        trace = dojoir.Trace(dojoir.parse(self.text, f"{self.name}.dojo"))
        for element in dojoir.parse_pipeline(self.moves, f"{self.name}.moves"):
            if isinstance(element, dojoir.Pass):
                element(trace)
            else:
                trace.apply(element)
        return trace

    @property
    def sizes(self) -> list[dict[str, int]]:
        """The sizes at which its ends are compared."""
        return [sizes(part) for line in comments(self.text, "sizes") for part in line.split(",")]

    @property
    def numpy(self) -> str:
        """The same in NumPy: statements that write the outputs in place; empty where that is not how to do it."""
        lines = re.findall(r"^# numpy: (.*)$", self.text, re.MULTILINE)
        return "\n".join(lines)

    @property
    def reached(self) -> list[str]:
        """Lines that the last text has."""
        return comments(self.moves, "reached")


def comments(text: str, word: str) -> list[str]:
    """What follows `# word:` in the lines that begin so."""
    return [match.strip() for match in re.findall(rf"^# {word}:(.*)$", text, re.MULTILINE)]


def sizes(text: str) -> dict[str, int]:
    """`N=1 M=2` as sizes."""
    return {name: int(value) for name, value in (word.split("=") for word in text.split())}


def names() -> list[str]:
    """Every example of this kind, by name."""
    return sorted(path.stem for path in EXAMPLES.glob("*.moves"))
