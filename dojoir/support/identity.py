"""Which dojoir this is: a word for all the code and data that an answer may depend on, for keys of answers on disk.

As Python does for its own compiled files, a file is taken for unchanged while its size and its time are. The word
covers every file of dojoir, the packages that it computes with, and the interpreter.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

from dojoir.support import BEGUN

PARTS = ("dojoir", "dojoir.codegen", "dojoir.grammar", "dojoir.passes", "dojoir.runtime")
"""The packages that may lie in folders of their own."""

USED = ("islpy", "lark", "llvmlite", "numpy", "sympy")
"""The packages that answers depend on."""


@cache
def identity() -> str | None:
    """The word for the dojoir of this process, as its files were when this was first asked. None where one of them
    is newer than the process, in which older code may run, or where they cannot be looked at."""
    return _word()


def is_unchanged() -> bool:
    """Whether the files are still those of `identity`: asked before an answer is kept, as a module that was loaded
    since may be another than it was."""
    return identity() is not None and _word() == identity()


def _word() -> str | None:
    digest = hashlib.sha256(f"{sys.version} {sys.platform}".encode())
    try:
        for name, status in sorted(_files(_folders())):
            if status.st_mtime >= BEGUN:
                return None
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        for package in USED:
            spec = find_spec(package)
            if spec is not None and spec.origin is not None:
                status = os.stat(spec.origin)
                installed = _installed(os.path.dirname(os.path.dirname(spec.origin)), package)
                digest.update(f"{spec.origin}\0{status.st_size}\0{status.st_mtime_ns}\0{installed}\0".encode())
    except (OSError, ValueError):  # an archive, or a package that went away
        return None
    return digest.hexdigest()


def _folders() -> list[str]:
    """Where the code and the data of dojoir are."""
    folders: list[str] = []
    for part in PARTS:
        spec = find_spec(part)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(part)
        folders += spec.submodule_search_locations
    return folders


def _files(folders: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Every file in some folders but those that Python compiles, by its path."""
    seen = set()
    while folders:
        folder = folders.pop()
        if folder in seen:
            continue
        seen.add(folder)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                else:
                    yield entry.path, entry.stat()


def _installed(folder: str, package: str) -> tuple[str, ...]:
    """The names under which a package is installed in a folder: they end with its version."""
    return tuple(name for name in _names(folder) if name.startswith(f"{package}-"))


@cache
def _names(folder: str) -> tuple[str, ...]:
    return tuple(sorted(name for name in os.listdir(folder) if name.endswith(".dist-info")))
