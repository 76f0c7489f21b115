"""Arguments of an environment: kernels by text, path or name, sizes, traces, a database."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dojoir
from dojoir.game.suite import Suite, chosen_sizes, shown, wrong


def kernel_of(given: object) -> dojoir.Kernel:
    """A kernel that is proved: itself, or of its text, of a file, or of the library by `library:NAME` or its name.
    Raises ArgumentError for none of these, ParseError and KernelError for a text that is wrong."""
    if isinstance(given, dojoir.Kernel):
        kernel = given
    elif isinstance(given, os.PathLike):
        kernel = dojoir.load(os.fspath(given))
    elif not isinstance(given, str):
        raise wrong(f"kernel is a Kernel, its text, a path or library:NAME, not {shown(given)}")
    elif "\n" in given:
        kernel = dojoir.parse(given)
    elif given.startswith("library:"):
        return dojoir.kernels.load(given.removeprefix("library:"))
    elif given.endswith(".dojo") or os.sep in given or Path(given).is_file():
        kernel = dojoir.load(given)
    else:
        return dojoir.kernels.load(given)
    dojoir.prove(kernel)
    return kernel


def sizes_of(kernel: dojoir.Kernel, given: object) -> dict[str, int]:
    """The runtime sizes of a kernel, chosen where none are given. Raises ArgumentError where they do not fit it."""
    if given is None:
        return chosen_sizes(kernel)
    if not isinstance(given, Mapping):
        raise wrong(f"sizes are a dict such as {{'N': 1024}}, not {shown(given)}")
    sizes = {name: given[name] for name in given}
    missing = [name for name in kernel.runtime_sizes if name not in sizes]
    if missing:
        raise dojoir.ArgumentError(f"sizes of {kernel.name}: {', '.join(missing)} is missing", "size-missing")
    others = [shown(name) for name in sizes if name not in kernel.runtime_sizes]
    if others:
        known = ", ".join(kernel.runtime_sizes) or "none"
        raise wrong(f"sizes of {kernel.name}: {', '.join(others)} is none of them: they are {known}")
    for name, value in sizes.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
            raise wrong(f"sizes of {kernel.name}: {name} is a whole number from 1, not {shown(value)}")
    found = {str(name): int(value) for name, value in sizes.items()}
    kernel.specialize(**found)
    return found


def suite_of(kernel: object, sizes: object, suite: object) -> Suite:
    """The suite of a kernel with its sizes, or the one that is given. Raises ArgumentError where both or neither
    are given."""
    if (kernel is None) == (suite is None):
        raise wrong("an environment plays a kernel or a suite: give one of them")
    if suite is None:
        one = kernel_of(kernel)
        return Suite(((one, sizes_of(one, sizes)),))
    if not isinstance(suite, Suite):
        raise wrong(f"suite is a dojoir.game.Suite, not {shown(suite)}")
    if sizes is not None:
        raise wrong("sizes go with a kernel: a suite has those of each of its kernels")
    return Suite(tuple((one, sizes_of(one, its)) for one, its in suite))


def moves_of(given: object) -> tuple[dojoir.Move | str, ...]:
    """The moves to make first. Raises ArgumentError for what is no list of moves or texts."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise wrong(f"moves are a list such as ['join_scopes(0, 1)'], not {shown(given)}")
    return tuple(given)


def starts_of(given: object, suite: Suite) -> list[dojoir.Trace]:
    """The traces that episodes begin with. Raises ArgumentError for what is no safe trace of a kernel played."""
    starts: list[Any] = [given] if isinstance(given, dojoir.Trace) else []
    if given is not None and not starts:
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise wrong(f"start is a Trace or several, not {shown(given)}")
        starts = [*given]
    for trace in starts:
        if not isinstance(trace, dojoir.Trace):
            raise wrong(f"start is a Trace or several: one of them is {shown(trace)}")
        if trace.unchecked is not None:
            raise dojoir.ArgumentError(f"start cannot be taken: {trace.unchecked}", "unsafe-trace")
        if trace.start not in [one for one, _ in suite]:
            raise wrong(f"start is a trace of {trace.start.name}, which is not played")
    return starts


def database_of(given: Any) -> Any:
    """A database, or the one at a URL; None for none. Raises ArgumentError for anything else."""
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        from dojoir.records import Database

        return Database(given)
    if not all(callable(getattr(given, name, None)) for name in ("known", "record")):
        raise wrong(f"db is a dojoir.records.Database or its URL, not {shown(given)}")
    return given
