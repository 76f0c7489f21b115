"""Kernels from texts and files."""

from __future__ import annotations

import os

from dojoir.errors import ArgumentError, Diagnostic, ParseError, Source, Span
from dojoir.grammar.kept_kernels import kept_kernel
from dojoir.ir.instruction import Instruction
from dojoir.ir.kernel import Kernel
from dojoir.support.files import bytes_of
from dojoir.support.public import public


@public
def parse(text: str, name: str = "<string>") -> Kernel:
    """The kernel that a text holds. `name` stands for the text in errors, such as its file name.

    Names, ranks and types are checked; that indices are in bounds and reads come after writes is for
    `dojoir.prove`. Raises ParseError where the text is not in the language, KernelError where it has no meaning,
    each with its place.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"parse takes the text of a kernel as a str, not {type(text).__name__}", "not-text")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return kept_kernel(Source(name, text), instruction)


def parse_once(text: str) -> Kernel:
    """The same for a text that no other process will read: it is not kept for one."""
    return kept_kernel(Source("<string>", text), instruction, for_others=False)


def instruction(name: str) -> Instruction:
    """`find_instruction`, imported when a text that is read for the first time names one."""
    from dojoir.grammar.instructions import find_instruction

    return find_instruction(name)


@public
def load(path: str | os.PathLike[str]) -> Kernel:
    """The kernel in a file, as `parse` gives it. The file is UTF-8.

    Raises ArgumentError if the file cannot be read, and what `parse` raises.
    """
    name = os.fspath(path)
    try:
        data = bytes_of(name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        cure = "give the path of one file" if isinstance(error, IsADirectoryError) else "check the path"
        raise ArgumentError(f"cannot read '{name}': {reason}; {cure}", "unreadable-file") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        shown = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        raise ParseError(
            Diagnostic(
                "not-utf-8",
                f"the byte 0x{data[error.start]:02x} is not UTF-8: save the file in that encoding",
                Span(line, column, column + 1),
                Source(name, shown),
            )
        ) from None
    return parse(text, name)
