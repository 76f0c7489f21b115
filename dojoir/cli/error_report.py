"""The report of errors by `dojoir-opt`, and its exit status."""

from __future__ import annotations

import json
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import replace

import dojoir
from dojoir.cli.streams import say
from dojoir.errors import Diagnostic

FINE, INPUT, USAGE, DIFFERS, TOOLCHAIN, TIME_LIMIT, BUG = 0, 1, 2, 3, 4, 5, 70


def report(error: dojoir.DojoError, as_json: bool, further: Sequence[Diagnostic] = ()) -> int:
    """Prints an error to stderr, and what else is wrong with the same text; returns the exit status for it."""
    error = _in_the_shell(error)
    first = error.verdict if isinstance(error, dojoir.IllegalMove) else error.diagnostic
    if as_json:
        for each in (first, *further):
            say(json.dumps({"error": each.to_json()}))
    else:
        say(str(error.verdict) if isinstance(error, dojoir.IllegalMove) else str(error))
        for each in further:
            say(each.render())
    return status_of(error)


def _in_the_shell(error: dojoir.DojoError) -> dojoir.DojoError:
    """An error that asks for a size, in words of the shell: by -s."""
    message = re.sub(r"\bpass (\w+=)", r"pass -s \1", error.diagnostic.message)
    if message == error.diagnostic.message or isinstance(error, dojoir.IllegalMove):
        return error
    return type(error)(replace(error.diagnostic, message=message))


def status_of(error: dojoir.DojoError) -> int:
    """The exit status for an error."""
    match error:
        case dojoir.ToolchainError():
            return TOOLCHAIN
        case dojoir.RunError():
            codes = {"time-limit": TIME_LIMIT, "out-of-memory": INPUT, "no-room": INPUT}
            return codes.get(error.diagnostic.code, DIFFERS)
        case _:
            return INPUT


def warn_if_unsafe(trace: dojoir.Trace, as_json: bool) -> None:
    """Says on stderr which moves of a trace were made without the checker, if any were."""
    why = trace.unchecked
    if why is not None:
        _note("warning", "unsafe-trace", f"{trace.start.name} was {why}", as_json)


def _note(kind: str, code: str, message: str, as_json: bool) -> None:
    data = {"warning": {"code": code, "message": message}}
    say(json.dumps(data) if as_json else f"dojoir-opt: {kind}[{code}]: {message}")


def note_without_grid(kernel: dojoir.Kernel, target: str, as_json: bool) -> None:
    """Says on stderr of a kernel that is emitted for a GPU that it has no grid, where that is so."""
    marks = {mark for _, node in kernel.walk() for mark in getattr(node, "marks", ())}
    if (
        target not in dojoir.TARGETS
        or not dojoir.machine_for(target).warp
        or marks.intersection(("gx", "gy", "gz"))
    ):
        return
    code = "no-grid"
    message = (
        f"{kernel.name} has no scope over the grid of a GPU, so that one block does all of it: -O makes a schedule "
        f"for {target}, and bind(PLACE, gx) spreads one scope"
    )
    _note("note", code, message, as_json)


def report_bug(error: Exception, command: str = "dojoir-opt") -> int:
    """Says that something is our fault and where the details are."""
    details = (
        f"dojoir {dojoir.__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"command: {' '.join(sys.argv)}\n\n{''.join(traceback.format_exception(error))}"
    )
    try:
        with tempfile.NamedTemporaryFile("w", prefix="dojoir-bug-", suffix=".txt", delete=False) as file:
            file.write(details)
        where = file.name
    except OSError:  # there is no room for it
        where = f"these lines\n{details}"
    summary = f"{type(error).__name__}: {error}".splitlines()[0]
    say(
        f"{command}: error[internal]: this is a bug in dojoir, not in your kernel: {summary}\n"
        f"please send us the kernel and {where}"
    )
    return BUG
