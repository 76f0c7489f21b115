"""Temporary folders and files, and what is told where they find no room."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from typing import IO

from dojoir.errors import RunError

PREFIX = "dojoir-"
"""The prefix of temporary files and folders."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder that goes away with what is in it. Raises RunError, `no-room`, where it cannot be made, or what is
    written in the block finds no room."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=PREFIX)
    except OSError as error:
        raise no_room(error) from None
    with folder as name, told_of_room():
        yield name


@contextlib.contextmanager
def temporary_file() -> Iterator[IO[bytes]]:
    """A file without a name. Raises as `temporary_folder` does."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile())
        except OSError as error:
            raise no_room(error) from None
        with told_of_room():
            yield file


def temporary_place() -> str:
    """The folder that they are in. Raises as `temporary_folder` does: each one is tried by writing to it."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise no_room(error) from None


@contextlib.contextmanager
def told_of_room() -> Iterator[None]:
    """Raises RunError, `no-room`, where something in the block is written that finds no room."""
    try:
        yield
    except OSError as error:
        # NumPy has no number for it, and says how much of an array was written.
        if error.errno in _NO_ROOM or (error.errno is None and "requested" in str(error)):
            raise no_room(error) from None
        raise


def no_room(error: OSError) -> RunError:
    """The error where temporary files cannot be written."""
    where = os.environ.get("TMPDIR") or "/tmp"
    return RunError(
        f"temporary files cannot be written to {where}: {error.strerror or error}; make room there, or set TMPDIR "
        f"to a folder that has some",
        "no-room",
    )
