"""The explanation of a word of a kernel at a place of its text. It reads lines and not the tree, so that it answers
in texts that have errors."""

from __future__ import annotations

import re
from dataclasses import dataclass

import dojoir
from dojoir.editor.words import ATTRIBUTES, FUNCTIONS, KEYWORDS, of_type
from dojoir.know.sources import MARKS

_WORD = re.compile(r"@?[A-Za-z_]\w*|\{\s*\w+\s*\}")
_BARS = re.compile(r"[|][| \t]*")
_DECLARED = re.compile(r"\s*(inout|in|out|tmp)\s+(\w+)\s*:\s*(.*)")
_HEAD = re.compile(r"\s*kernel\s+(\w+)\s*(?:\(([^)]*)\))?")
_LABEL = re.compile(r"@([A-Za-z_]\w*)")
_SEPARATOR = re.compile(r"\s*#\s*-----+\s*")


@dataclass(frozen=True)
class Hover:
    """An explanation in Markdown, of columns `start` to `end` (0-based, `end` is one past the last) of a line."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _TreeLine:
    """A line of the tree: its 1-based number, its depth in bars, its code without bars and comment."""

    number: int
    bars: int
    code: str

    @property
    def is_scope(self) -> bool:
        """Whether the line is a scope: neither a statement nor a guard. Only a statement assigns."""
        bare = re.sub(r"[<>=!]=|\b(?:prefetch|use)\b.*", "", self.code)
        return bool(self.code) and "=" not in bare and not self.code.startswith("if ")

    @property
    def extent(self) -> str:
        return re.split(r"[:@]", self.code, maxsplit=1)[0].strip()

    @property
    def label(self) -> str | None:
        found = _LABEL.search(self.code)
        return found[1] if found else None


def hover(text: str, line: int, column: int) -> Hover | None:
    """The explanation of the word at a 0-based line and column of a text, counted in characters: a keyword, a mark,
    an attribute, a type, a function, a size, a buffer, a label or an iterator. None where there is no such word."""
    lines = text.splitlines()
    if not 0 <= line < len(lines):
        return None
    code = lines[line].partition("#")[0]
    word = next((one for one in _WORD.finditer(code) if one.start() <= column < one.end()), None)
    if word is None:
        return None
    first, last = _kernel_around(lines, line)
    found = _explained(lines[:last], first, line, code, word)
    return None if found is None else Hover(found, word.start(), word.end())


def _kernel_around(lines: list[str], line: int) -> tuple[int, int]:
    """The lines of the part of the text that a line stands in: the first, and one past the last."""
    first = max((n + 1 for n in range(line) if _SEPARATOR.fullmatch(lines[n])), default=0)
    return first, next((n for n in range(line, len(lines)) if _SEPARATOR.fullmatch(lines[n])), len(lines))


def _explained(lines: list[str], first: int, line: int, code: str, word: re.Match[str]) -> str | None:
    name = word[0]
    here = _line(lines, line)
    if name.startswith("{"):
        return _iterator(lines, first, here, name.strip("{} \t"))
    if name.startswith("@"):
        return (
            f"Label of the scope of `{here.extent}`: `{{{name[1:]}}}` is its iterator, and moves name it `{name}`."
        )
    in_header = here.bars == 0 and re.match(r"\s*(kernel|where|fp|inout|in|out|tmp)\b", code) is not None
    if not in_header and name in MARKS and re.search(r":[^:]*$", code[: word.start()]) is not None:
        return f"Mark `{name}`: {MARKS[name]}."
    declared = _DECLARED.match(code)
    if declared is not None and word.start() >= declared.start(3) and name in ATTRIBUTES:
        return ATTRIBUTES[name]
    is_call = code[word.end() :].lstrip().startswith("(")
    if is_call and name in FUNCTIONS:
        return FUNCTIONS[name]
    own = _declared(lines, first, name)
    if own is not None:
        return own
    if name in ("max", "min") and code[word.end() :].startswith("="):
        return f"`{name}=`: accumulates the {'larger' if name == 'max' else 'smaller'} value."
    return of_type(name) or KEYWORDS.get(name)


def _line(lines: list[str], number: int) -> _TreeLine:
    code = lines[number].partition("#")[0]
    lead = _BARS.match(code)
    bars = lead[0].count("|") if lead else 0
    return _TreeLine(number + 1, bars, (code[lead.end() :] if lead else code).strip())


def _around(lines: list[str], first: int, here: _TreeLine) -> list[_TreeLine]:
    """The scopes around a line, the outermost first; a scope is in itself, as its label stands on its line."""
    found: list[_TreeLine] = [here] if here.is_scope else []
    bars = here.bars
    for number in range(here.number - 2, first - 1, -1):
        one = _line(lines, number)
        if one.code and one.bars < bars:
            bars = one.bars
            found += [one] if one.is_scope else []
    return found[::-1]


def _iterator(lines: list[str], first: int, here: _TreeLine, name: str) -> str | None:
    scopes = _around(lines, first, here)
    if name.isdigit():
        scope = scopes[int(name)] if int(name) < len(scopes) else None
    else:
        scope = next((one for one in scopes if one.label == name), None)
    if scope is None:
        return None
    return f"Iterator of the scope on line {scope.number}: 0, 1, ... below `{scope.extent}`."


def _declared(lines: list[str], first: int, name: str) -> str | None:
    """The explanation of a buffer, a size, or the kernel itself."""
    for number in range(first, len(lines)):
        code = lines[number].partition("#")[0].rstrip()
        head = _HEAD.match(code)
        if head is not None and name == head[1]:
            return _of_kernel("\n".join(lines[first:]), name)
        if head is not None and name in re.findall(r"[A-Za-z_]\w*", head[2] or ""):
            return _of_size(lines, first, name)
        declared = _DECLARED.match(code)
        if declared is not None and declared[2] == name:
            used = _lines_that_use(lines, first, number, name)
            return f"```dojo\n{code.strip()}\n```\n{KEYWORDS[declared[1]]} Declared on line {number + 1}{used}."
    return None


def _lines_that_use(lines: list[str], first: int, declared: int, name: str) -> str:
    """The lines that write a buffer, and those that read it."""
    written, read = [], []
    for number in range(first, len(lines)):
        code = lines[number].partition("#")[0]
        if number == declared or not re.search(rf"\b{name}\b", code) or _DECLARED.match(code):
            continue
        left, assigns, right = _assigned(code)
        if assigns and re.search(rf"\b{name}\b", left.partition("[")[0]):
            written.append(str(number + 1))
            if assigns != "=":
                read.append(str(number + 1))
            if not re.search(rf"\b{name}\b", right + left.partition("[")[2]):
                continue
        read += [] if str(number + 1) in read else [str(number + 1)]
    parts = [f", {what} on line{'s' * (len(on) > 1)} {', '.join(on)}" for what, on in
             (("written", written), ("read", read)) if on]  # fmt: skip
    return "".join(parts)


def _assigned(code: str) -> tuple[str, str, str]:
    """Both sides of an assignment, and its operator; an empty operator where there is none."""
    found = re.search(r"(?<![<>=!])(max|min|[-+*&|^])?=(?!=)", code)
    return (code, "", "") if found is None else (code[: found.start()], found[0], code[found.end() :])


def _of_size(lines: list[str], first: int, name: str) -> str:
    facts = [
        one.strip()
        for line in lines[first:]
        if (code := line.partition("#")[0]).lstrip().startswith("where ")
        for one in code.strip().removeprefix("where ").split(",")
        if re.search(rf"\b{name}\b", one)
    ]
    known = f" Facts: {', '.join(f'`{one}`' for one in facts)}." if facts else ""
    return f"Size of the kernel: a call gives it, or takes it from the shapes of arguments.{known}"


def _of_kernel(text: str, name: str) -> str:
    """Operations and bytes of a kernel, where its text can be read."""
    try:
        return f"Kernel `{name}`.\n```text\n{dojoir.cost(dojoir.parse(text)).describe()}\n```"
    except dojoir.DojoError:
        return f"Kernel `{name}`; its text has errors."
