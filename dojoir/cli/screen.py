"""The output at a terminal: colours, wrapped lines, a line of progress. Files and pipes get plain text."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from rich.console import Console
    from rich.text import Text

LEXERS = {"c": "c", "llvm": "llvm", "llvm-opt": "llvm", "asm": "gas", "cuda": "cuda", "hip": "cuda",
          "json": "json"}  # fmt: skip
"""The Pygments lexer for each kind of text; that of C for what is printed as C."""

_HEAD = re.compile(
    r"^(?P<place>(?:[^\s:].*?:\d+:\d+: |[^\s:]\S*?: )?)(?P<kind>error|warning|note|help)(?P<code>\[[\w-]+\])?: "
)
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan", "help": "bold green"}


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads a stream."""
    return stream is not None and stream.isatty()


def for_terminal(text: str, kind: str) -> str:
    """A result as a terminal shows it: in colours, where it takes them."""
    console = _console(sys.stdout)
    if kind == "error":
        return _error_on(console, text.removesuffix("\n")) + "\n"
    with console.capture() as shown:
        console.print(_styled(text, kind, console.width), end="", soft_wrap=True)
    return shown.get()


def diagnostic_for_terminal(text: str) -> str:
    """An error as a terminal shows it: its message wrapped between words, its kind in colour."""
    return _error_on(_console(sys.stderr), text)


def _error_on(console: Console, text: str) -> str:
    with console.capture() as shown:
        for line in text.split("\n"):
            console.print(_line_of_error(line), highlight=False, soft_wrap=line.startswith("  "))
    return shown.get().removesuffix("\n")


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Shows on stderr what is being done, as long as it is, where a person sees it. It is gone afterwards."""
    if not is_terminal(sys.stderr):
        yield
        return
    with _console(sys.stderr).status(what, spinner="dots"):
        yield


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False, legacy_windows=False)


def _styled(text: str, kind: str, width: int) -> Text:
    from rich.syntax import Syntax
    from rich.text import Text

    if kind == "list":
        return _wrapped_list(text, width)
    if kind == "facts":
        return _wrapped_facts(text, width)
    if kind == "table":
        return _table(text)
    if kind == "plain":
        return Text(text)
    shown = Syntax(text, _lexer(kind), theme="ansi_dark", background_color="default").highlight(text)
    shown.no_wrap = True
    return shown


def _lexer(kind: str) -> str | Lexer:
    if kind == "dojo":
        from dojoir.highlight import DojoLexer

        return DojoLexer()
    return LEXERS.get(kind.partition("@")[0], "c")


def _line_of_error(line: str) -> Text:
    from rich.text import Text

    shown = Text(line)
    head = _HEAD.match(line)
    if head is not None:
        shown.stylize("bold", 0, head.end("place"))
        shown.stylize(_STYLES[head["kind"]], head.start("kind"), head.end() - 1)
    elif re.fullmatch(r"\s*\^~*", line):
        shown.stylize("bold green")
    return shown


def _wrapped_list(text: str, width: int) -> Text:
    """Headings in bold; names in colour, and what is said of them wrapped beside them."""
    import textwrap

    from rich.text import Text

    shown = Text()
    for line in text.splitlines():
        match = re.match(r"(  \S.*?|)( {2,})(\S.*)", line) if re.search(r"\S  |^ {6}", line) else None
        if match is None:
            lines = textwrap.wrap(line, width - 1, initial_indent="", subsequent_indent="      ") or [""]
            shown.append("\n".join(lines) + "\n", "cyan" if line.startswith(" ") else "bold")
            continue
        indent = len(match[1]) + len(match[2])
        if indent > width - 24:
            indent = 8
            shown.append(match[1] + "\n", "cyan")
        else:
            shown.append(match[1] + match[2], "cyan")
        lines = textwrap.wrap(match[3], max(20, width - indent - 1))
        first = " " * indent if indent == 8 and len(match[1]) + len(match[2]) != 8 else ""
        shown.append(first + f"\n{' ' * indent}".join(lines) + "\n")
    return shown


def _wrapped_facts(text: str, width: int) -> Text:
    """Lines of a word and what is said of it, wrapped beside it; short ones as they are."""
    import textwrap

    from rich.text import Text

    shown = Text()
    for line in text.splitlines():
        match = re.match(r"(\S* +)(\S.*)", line) if len(line) >= width else None
        if match is None:
            shown.append(line + "\n")
            continue
        indent = " " * len(match[1])
        rows = textwrap.wrap(
            match[2], max(20, width - len(indent) - 1), break_on_hyphens=False, break_long_words=False
        )
        shown.append(match[1] + f"\n{indent}".join(rows) + "\n")
    return shown


def _table(text: str) -> Text:
    from rich.text import Text

    shown = Text(text)
    shown.highlight_regex(r"^\S.*$", "bold")
    shown.highlight_regex(r"(?m)^ .*speed-up.*$", "dim")
    shown.highlight_regex(r"(?m)\b[1-9]\d*\.\d+x(?= \()", "green")
    shown.highlight_regex(r"(?m)\b0\.\d+x(?= \()", "red")
    shown.highlight_regex(r"(?m)^warning:", "bold yellow")
    return shown
