"""Options of several verbs: a kernel, its sizes, a database."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import dojoir
from dojoir.cli.chunks import display_name, read_input
from dojoir.cli.error_report import FINE
from dojoir.cli.output import write_result
from dojoir.cli.streams import say


def kernel_of(options: argparse.Namespace) -> dojoir.Kernel:
    """The kernel that is named, proved. Raises DojoError."""
    kernel = dojoir.parse(read_input(options.kernel), display_name(options.kernel))
    dojoir.prove(kernel)
    return kernel.with_fp(options.fp) if options.fp else kernel


Shapes = Sequence[tuple[str, tuple[int, ...]]]
"""The values of each size, as `-s` has them."""


def sizes_of(options: argparse.Namespace, kernel: dojoir.Kernel) -> dict[str, int]:
    """The runtime sizes. Raises ArgumentError, `size-missing`, where one is not given, `unknown-size` for
    others."""
    (sizes,) = shapes_of([(name, (value,)) for name, value in dict(options.sizes).items()], kernel)
    return sizes


def shapes_of(given: Shapes, kernel: dojoir.Kernel) -> list[dict[str, int]]:
    """The shapes of `-s N=1024,4096 -s M=64`: the values of each size in turn, one value stands for all. Raises
    ArgumentError, `size-missing`, `unknown-size`, or `bad-size` for lists of other lengths."""
    sizes = dict(given)
    names = kernel.runtime_sizes
    missing = [name for name in names if name not in sizes]
    if missing and all(name in names for name in sizes):
        words = " ".join(f"-s {name}=…" for name in missing)
        raise dojoir.ArgumentError(f"{kernel.name} has runtime sizes: give {words}", "size-missing")
    known = ", ".join(names) or "none"
    for name, _ in given:
        if name not in names:
            message = f"{kernel.name} has no runtime size {name}; its runtime sizes: {known}"
            raise dojoir.ArgumentError(message, "unknown-size")
    count = max((len(values) for values in sizes.values()), default=1)
    for name, values in sizes.items():
        if len(values) not in (1, count):
            message = f"-s {name}= has {len(values)} values, and another size {count}: give one, or as many"
            raise dojoir.ArgumentError(message, "bad-size")
    return [{name: sizes[name][n % len(sizes[name])] for name in names} for n in range(count)]


def answered(options: argparse.Namespace, data: Any, text: str, status: int = FINE) -> int:
    """Writes an answer to stdout, as a line of JSON where that was asked for; gives the status."""
    write_result(json.dumps(data) + "\n" if options.json else text, None)
    return status


def told(options: argparse.Namespace) -> Callable[[str], None]:
    """A function that tells of the progress of a verb: a line on stderr, of JSON where that was asked for."""
    return lambda line: say(json.dumps({"progress": line}) if options.json else line)


def database_of(options: argparse.Namespace, needed: bool = True) -> Any:
    """The database of --db or the variable; None where none is named and none is needed. Raises DojoError."""
    if options.db is None and not needed and not os.environ.get("DOJOIR_DB"):
        return None
    from dojoir.records import Database

    return Database(options.db)


def database_there(options: argparse.Namespace) -> Any:
    """The same for who reads: no new file is made of a name that was mistyped. Raises ArgumentError,
    `no-database`."""
    from dojoir.records.upkeep import existing  # first of all, what is missing

    return existing(options.db)


def check_writable(path: str) -> None:
    """Raises ArgumentError, `cannot-write`, where a file or folder could not be made at a path: before what takes
    hours is begun."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise dojoir.ArgumentError(f"cannot write {path}: there is no folder {folder}", "cannot-write")
    if os.path.isdir(path) or os.access(path if os.path.exists(path) else folder, os.W_OK):
        return
    raise dojoir.ArgumentError(f"cannot write {path}: the system does not allow it", "cannot-write")
