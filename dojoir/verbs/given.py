"""Options of several verbs: a kernel, its sizes, a database."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

import dojoir
from dojoir.cli.chunks import display_name, read_input
from dojoir.cli.output import write_result
from dojoir.cli.streams import say


def kernel_of(options: argparse.Namespace) -> dojoir.Kernel:
    """The kernel that is named, proved. Raises DojoError."""
    kernel = dojoir.parse(read_input(options.kernel), display_name(options.kernel))
    dojoir.prove(kernel)
    return kernel.with_fp(options.fp) if options.fp else kernel


def sizes_of(options: argparse.Namespace, kernel: dojoir.Kernel) -> dict[str, int]:
    """The runtime sizes. Raises ArgumentError, `size-missing`, where one is not given, `unknown-size` for
    others."""
    given = dict(options.sizes)
    missing = [name for name in kernel.runtime_sizes if name not in given]
    if missing and all(name in kernel.runtime_sizes for name in given):
        words = " ".join(f"-s {name}=…" for name in missing)
        raise dojoir.ArgumentError(f"{kernel.name} has runtime sizes: give {words}", "size-missing")
    unknown = [name for name in given if name not in kernel.runtime_sizes]
    if unknown:
        known = ", ".join(kernel.runtime_sizes) or "none"
        raise dojoir.ArgumentError(
            f"{kernel.name} has no runtime size {unknown[0]}; its runtime sizes: {known}", "unknown-size"
        )
    return given


def answered(options: argparse.Namespace, data: Any, text: str) -> int:
    """Writes an answer to stdout, as a line of JSON where that was asked for; gives the status 0."""
    write_result(json.dumps(data) + "\n" if options.json else text, None)
    return 0


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
    from dojoir.records.existing import existing  # first of all, what is missing

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
