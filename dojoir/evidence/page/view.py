"""The data of a page, whatever its source."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import dojoir
from dojoir.evidence.bundle import Gate
from dojoir.evidence.figures import Bench
from dojoir.records import State

MOST_SOURCE = 1_500_000
"""How many characters the sources of all steps may have together; beyond, those in the middle are left out."""

_PLACE = re.compile(
    r"^\s*(?:\.loc\s+1 (\d+)(?:.* inlined_at 1 (\d+))?"
    r"|//## File \".*?\", line (\d+)(?: inlined at \".*?\", line (\d+))?)"
)
"""Where PTX (`.loc`) and nvdisasm say from which line of the source what follows comes."""

_COMMENT = re.compile(r"//\s(.*?)\s*$")


@dataclass(frozen=True)
class PageLine:
    """A line of the text of a kernel: `same`, `new` with the move, or `gone` with it. `spans` are the lines of the
    source that stand for it, from one to another, counted from 0."""

    text: str
    kind: str
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class CodeListing:
    """Machine code of a source under the name of its form (`PTX`, `SASS`). `of` are the numbers of the lines of the
    source that its lines stand for, from 0, or -1."""

    name: str
    text: str
    of: tuple[int, ...]


@dataclass(frozen=True)
class PageStep:
    """The kernel after a move (the first after none), and the source of it, empty where it is left out. The last
    has what compilers make of that."""

    move: str
    hash: str
    lines: tuple[PageLine, ...]
    source: str = ""
    machine: tuple[CodeListing, ...] = ()


@dataclass(frozen=True)
class PageView:
    """All that a page shows. `facts` are names and values, in order; `texts` are longer ones with their headings,
    such as what bounds the kernel, or its machine code."""

    title: str
    facts: Mapping[str, str]
    steps: tuple[PageStep, ...]
    language: str = ""
    states: tuple[State, ...] = ()
    bench: Bench | None = None
    gates: tuple[Gate, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


def steps_of(trace: dojoir.Trace, target: str = "c") -> tuple[PageStep, ...]:
    """The steps of a trace, each with its source for a target: `c` for one whose source does not have the lines of
    the kernel beside it."""
    kernels = [trace.start, *(step.kernel for step in trace.steps)]
    moves = ["", *(str(step.move) for step in trace.steps)]
    sources = _sources(kernels, target)
    found = []
    before: list[str] | None = None
    for kernel, move, source in zip(kernels, moves, sources, strict=True):
        text = dojoir.to_text(kernel, labels=True).splitlines()
        found.append(PageStep(move, kernel.hash, _lines(kernel, before, text, source), source))
        before = text
    found[-1] = replace(found[-1], machine=tuple(_machine(kernels[-1], target)))
    return tuple(found)


def _machine(kernel: dojoir.Kernel, target: str) -> Iterator[CodeListing]:
    """PTX and SASS of a kernel for `cuda`, and why one is not to be had."""
    for form in ("ptx", "sass") if target.partition("@")[0] == "cuda" else ():
        try:
            text = dojoir.emit(kernel, form)
        except dojoir.DojoError as error:
            text = f"// {error.diagnostic.message}"
        yield CodeListing(form.upper(), text, lines_of_source(text))


def lines_of_source(text: str) -> tuple[int, ...]:
    """For each line of PTX or SASS the line of the source that it stands for, from 0: that of the place where a
    function was put in. -1 where it is none."""
    found, now = list[int](), -1
    for line in text.splitlines():
        marked = _PLACE.search(line)
        if marked is not None:
            now = int(marked[2] or marked[1] or marked[4] or marked[3]) - 1
        elif not line[:1].isspace() and not line.startswith((".L", "$L")):
            now = -1
        found.append(-1 if marked is not None else now)
    return tuple(found)


def _sources(kernels: Sequence[dojoir.Kernel], target: str) -> list[str]:
    """The source of each kernel, empty where there is none; of too many characters in all, the ends only."""
    ends = {0, len(kernels) - 1}
    found = [_source(kernel, target) if number in ends else None for number, kernel in enumerate(kernels)]
    left = MOST_SOURCE - sum(len(text) for text in found if text is not None)
    texts: list[str] = []
    for kernel, text in zip(kernels, found, strict=True):
        own = text
        if own is None and left > 0:
            own = _source(kernel, target)
            own, left = ("", 0) if len(own) > left else (own, left - len(own))
        texts.append(own or "")
    return texts


def _source(kernel: dojoir.Kernel, target: str) -> str:
    try:
        return dojoir.emit(kernel, target)
    except dojoir.DojoError:  # a target that has not all of its types, or a kernel on the way to a grid
        return ""


def _lines(kernel: dojoir.Kernel, before: list[str] | None, text: list[str], source: str) -> tuple[PageLine, ...]:
    """The lines of a kernel, with those that its move took out."""
    spans = spans_of(kernel, source)
    if before is None:
        return tuple(PageLine(line, "same", spans.get(n, ())) for n, line in enumerate(text))
    found: list[PageLine] = []
    matcher = difflib.SequenceMatcher(None, before, text, autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind in ("replace", "delete"):
            found += [PageLine(line, "gone") for line in before[old_from:old_to]]
        how = "same" if kind == "equal" else "new"
        found += [PageLine(text[n], how, spans.get(n, ())) for n in range(new_from, new_to)]
    return tuple(found)


def spans_of(kernel: dojoir.Kernel, source: str) -> dict[int, tuple[tuple[int, int], ...]]:
    """From the numbers of lines of a kernel to the lines of its source in C: a loop has its line beside it, and
    ends with its bracket."""
    lines = source.splitlines()
    at: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        match = _COMMENT.search(line)
        if match is not None and not line.lstrip().startswith("//"):
            at.setdefault(_bare(match[1]), []).append(number)
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    for number, line in enumerate(dojoir.to_text(kernel, names=True).splitlines()):
        starts = at.get(_bare(line.lstrip("| ")), []) if line.strip() else []
        if starts:
            found[number] = tuple((start, _end(lines, start)) for start in starts)
    return found


def _bare(line: str) -> str:
    return line.partition(" # ")[0].strip()


def _end(lines: Sequence[str], start: int) -> int:
    depth = 0
    for number in range(start, len(lines)):
        code = lines[number].partition("//")[0]
        depth += code.count("{") - code.count("}")
        if depth <= 0:
            return number
    return len(lines) - 1
