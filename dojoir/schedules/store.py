"""Writing a schedule that was found, so that `optimize` finds it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import dojoir
from dojoir.schedules.file import Schedule, check_condition, condition_words, read_schedule
from dojoir.support.files import write_file
from dojoir.support.public import public


@public
def store(
    trace: dojoir.Trace, target: str, folder: str | os.PathLike[str], *, when: Sequence[str] = (), note: str = ""
) -> Path:
    """Writes the moves of a trace as a schedule for its kernel, whole or not at all, and returns its file. One for
    the same kernel, target and conditions is replaced. `note` becomes a comment. Raises ArgumentError,
    for an unsafe trace too: its moves are checked where the schedule is used."""
    if not trace.is_safe:
        raise dojoir.ArgumentError(f"this trace cannot be a schedule: {trace.unchecked}", "unsafe-trace")
    for text in when:
        check_condition("when", text)
    path = _path_of_schedule(trace.start, target, folder, when)
    lines = [f"# {line}" for line in note.splitlines()]
    lines += [f"# kernel: {trace.start.hash}", f"# targets: {target}"]
    lines += [f"# when: {', '.join(when)}"] if when else []
    text = "\n".join([*lines, *map(str, trace.moves)]) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise dojoir.ArgumentError(f"cannot write {str(path)!r}: {reason}", "cannot-write") from None
    write_file(path, text)
    return path


@public
def stored(
    kernel: dojoir.Kernel, target: str, folder: str | os.PathLike[str], *, when: Sequence[str] = ()
) -> Schedule | None:
    """The schedule that `store` would replace; None where there is none. Raises ArgumentError where it cannot be
    read."""
    path = _path_of_schedule(kernel, target, folder, when)
    try:
        is_there = path.exists()
    except (OSError, ValueError):
        return None
    return read_schedule(path) if is_there else None


def _path_of_schedule(
    kernel: dojoir.Kernel, target: str, folder: str | os.PathLike[str], when: Sequence[str]
) -> Path:
    words = re.sub(r"\W+", "_", "_".join([target, *map(condition_words, when)])).strip("_")
    return Path(folder) / f"{kernel.name}.{kernel.hash[:8]}_{words}.moves"
