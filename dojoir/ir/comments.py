"""The comments of a text beside what moves made of its kernel: printing leaves out none of them.

A comment belongs to the node of its line, or, where it has a line of its own, to that of the next. Nodes keep the
place that they were read from through moves; where a move took away the line of a comment, the comment goes before
the first node that came after it in the text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from dojoir.errors import Source
from dojoir.ir.format import format_buffer
from dojoir.ir.nodes import Kernel, Path
from dojoir.support.frozen import dataclass
from dojoir.support.public import public


@dataclass(frozen=True)
class _Comment:
    """A comment: the number of its line, its text from `#`, whether it has the line for itself."""

    line: int
    text: str
    alone: bool


@public
def commented_text(kernel: Kernel, source: Source, names: bool = False) -> str:
    """The text of a kernel with its labels, as `print(kernel)` gives it, with the comments of the text that it was
    read from, before any moves. It parses back to an equal kernel."""
    printed = list(kernel.lines(names, labels=True))
    places = _places(kernel, source, printed)
    ends, own = _assigned(_comments(source.text), places)
    bars = [len(line) - len(line.lstrip("| ")) for _, line in printed]
    out: list[str] = []
    for number, (_, line) in enumerate(printed):
        out += (f"{'| ' * (bars[number] // 2)}{text}" for text in own.get(number, ()))
        out.append(line + "".join(f"  {text}" for text in ends.get(number, ())))
    out += own.get(len(printed), ())
    return "\n".join(out) + "\n"


def _comments(text: str) -> Iterator[_Comment]:
    for number, line in enumerate(text.split("\n"), 1):
        before, mark, after = line.partition("#")
        if mark:
            yield _Comment(number, f"#{after.rstrip()}", not before.strip(" \t|"))


def _places(kernel: Kernel, source: Source, printed: list[tuple[Path, str]]) -> dict[int, int]:
    """For lines of the text that was read, the number of the printed line that stands for each."""
    found: dict[int, int] = {}
    declared = {format_buffer(buffer): buffer for buffer in kernel.buffers}
    facts = [fact.loc for fact in kernel.facts if fact.loc is not None]
    for number, (path, line) in enumerate(printed):
        loc = None
        if path:
            loc = kernel.at(path).loc
        elif line in declared:
            loc = declared[line].loc
        elif line.startswith("where "):
            loc = facts[0] if facts else None
        if loc is not None:
            found.setdefault(loc.line, number)
    for number, line in enumerate(source.text.split("\n"), 1):
        if line.split() and line.split()[0] == "kernel":
            found[number] = 0
            break
    return found


def _assigned(
    comments: Iterator[_Comment], places: dict[int, int]
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """The comments at the end of each printed line, and those before each."""
    ends: dict[int, list[str]] = {}
    own: dict[int, list[str]] = {}
    known = sorted(places)
    for comment in comments:
        if not comment.alone and comment.line in places:
            ends.setdefault(places[comment.line], []).append(comment.text)
        else:
            after = bisect_left(known, comment.line)
            target = places[known[after]] if after < len(known) else -1
            own.setdefault(target, []).append(comment.text)
    if -1 in own:
        own[max(places.values(), default=0) + 1] = own.pop(-1)
    return ends, own
