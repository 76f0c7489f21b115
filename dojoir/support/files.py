"""The one way in which dojoir writes a file for good: whole or not at all.

What is written goes to a new file beside the one that is meant, which then takes its place. So a reader sees all
of the old content or all of the new, and a write that fails leaves what was there.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from dojoir.errors import ArgumentError, repr_of

UNFINISHED = ".new-"
"""How the names of files begin that are not written to their end yet; a process that is killed leaves one."""


def write_file(path: str | os.PathLike[str], content: str | bytes, *, mode: int = 0o666) -> None:
    """Writes a file whole or not at all; text as UTF-8.

    A link is followed: what it leads to is written, and the link stays. What is there and is no ordinary file, a
    device or a pipe, cannot be replaced and is written through. A file that was there keeps its permissions; a new
    one has those of `mode` that the process grants. Raises ArgumentError, `cannot-write`, where it cannot be done,
    or where `path` is no path or `content` neither text nor bytes.
    """
    name = path_of(path)
    if type(mode) is not int or not 0 <= mode <= 0o7777:
        message = f"the permissions of a file are an integer such as 0o644, not {repr_of(mode)}"
        raise ArgumentError(message, "cannot-write")
    if not isinstance(content, str | bytes):
        raise ArgumentError(f"a file takes text or bytes, not {type(content).__name__}", "cannot-write")
    try:
        data = content.encode() if isinstance(content, str) else content
        _write(name, data, mode)
    except (OSError, ValueError) as error:  # a NUL in a name, half of a character in a text
        raise ArgumentError(f"cannot write {shown(name)}: {_reason(error)}", "cannot-write") from None


def path_of(path: str | os.PathLike[str], code: str = "cannot-write") -> str:
    """A path as text. Raises ArgumentError for what is none: another type, or a text that no file can be called."""
    try:
        name = os.fspath(path)
    except Exception:
        raise ArgumentError(f"a path is a str or a Path, not {type(path).__name__}", code) from None
    if not isinstance(name, str):
        raise ArgumentError(f"a path is a str or a Path, not {type(name).__name__}", code)
    name = str.__str__(name)  # a subclass may compare as it likes
    if not name or "\0" in name:
        raise ArgumentError(f"{shown(name)} is not the name of a file", code)
    return name


def shown(name: str) -> str:
    """A path for a message: as it is, quoted where it holds what cannot be printed or nothing at all."""
    return name if name.isprintable() and name else repr(name)


def _write(name: str, data: bytes, mode: int) -> None:
    try:
        status = os.stat(name)
    except FileNotFoundError:
        status = None
    if (status is not None and not stat.S_ISREG(status.st_mode)) or _is_open_file(name):
        _write_through(name, data)  # a folder is refused here
        return
    target = os.path.realpath(name)
    if status is not None:
        mode = stat.S_IMODE(status.st_mode)
        if not os.access(target, os.W_OK):
            raise PermissionError(13, os.strerror(13))
    new = os.path.join(os.path.dirname(target), f"{UNFINISHED}{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode & 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if status is not None:
                os.fchmod(handle, mode)
        os.replace(new, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


def _write_through(name: str, data: bytes) -> None:
    with open(os.open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY), "wb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) or 0 :]


def _is_open_file(name: str) -> bool:
    """Whether a path names a file by a number that it is open under, as /dev/stdout does: who has it open would not
    see another file in its place."""
    for _ in range(40):
        folder = os.path.realpath(os.path.dirname(name) or ".")
        if folder.startswith("/proc/") or folder == "/dev/fd":
            return True
        if not os.path.islink(name):
            return False
        name = os.path.join(folder, os.readlink(name))
    return False


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "its text is not UTF-8" if isinstance(error, UnicodeError) else str(error)


MOST_READ = 1 << 26
"""Bytes of the longest text that is read: a device may have no end."""


def bytes_of(name: str, most: int = MOST_READ) -> bytes:
    """The content of a file. Raises OSError where it cannot be read, or where it does not come to an end soon."""
    with open(name, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(27, f"it has more than {most} bytes")
    return data


def read_file(path: str | os.PathLike[str]) -> str:
    """The UTF-8 text of a file. Raises ArgumentError, `cannot-read` or `not-text`."""
    name = path_of(path, "cannot-read")
    try:
        return bytes_of(name).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ArgumentError(f"{shown(name)} is not UTF-8 text", "not-text") from None
    except (OSError, ValueError) as error:
        raise ArgumentError(f"cannot read {shown(name)}: {_reason(error)}", "cannot-read") from None
