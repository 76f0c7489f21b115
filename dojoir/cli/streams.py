"""The standard streams as they may be: closed, full, or of fewer characters than Unicode has."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys

import dojoir

PLAIN = {"±": "+-", "…": "...", "×": "x", "µ": "u", "→": "->", "≤": "<=", "≥": ">=", "–": "-", "—": "-", "█": "#"}
"""The replacement for a character that a stream cannot encode."""


def prepare() -> None:
    """Makes the streams ones that can take any text. What is closed stays closed, but no file that is opened
    later gets its number: what a library prints there must not end in it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    codecs.register_error("dojoir", _in_plain_words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="dojoir")


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_control(text: str) -> str:
    """A text in which what would control a terminal is spelled out: it may come from anywhere."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def say(text: str) -> None:
    """Writes lines to stderr. Where nobody can be told, nobody is."""
    text = without_control(text)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.stderr.isatty() and not text.startswith("{"):
            from dojoir.cli.screen import diagnostic_for_terminal

            text = diagnostic_for_terminal(text)
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def write_stdout(text: str) -> None:
    """Writes all of a text to stdout. Raises ArgumentError where it cannot be, and BrokenPipeError where whoever
    read it is gone."""
    if sys.stdout is None:
        raise dojoir.ArgumentError("cannot write to stdout: it is closed", "cannot-write")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise
    except OSError as error:
        give_up_stdout()
        raise dojoir.ArgumentError(f"cannot write to stdout: {error.strerror or error}", "cannot-write") from None


def give_up_stdout() -> None:
    """Sends what is left of stdout nowhere, so that Python does not try again at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def read_stdin() -> bytes:
    """All of stdin. Raises ArgumentError where there is none."""
    if sys.stdin is None:
        raise dojoir.ArgumentError("cannot read the kernel: stdin is closed; name a file", "cannot-read")
    return sys.stdin.buffer.read()


def _in_plain_words(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return "".join(PLAIN.get(ch) or ch.encode("ascii", "backslashreplace").decode() for ch in part), error.end
