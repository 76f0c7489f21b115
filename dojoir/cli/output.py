"""Where results go: stdout, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import dojoir


def write_result(text: str, output: str | None) -> None:
    """Writes text to a file, or to stdout for None and `-`. Raises ArgumentError if that cannot be done."""
    if output is None or output == "-":
        sys.stdout.write(text)
    else:
        write_bytes(text.encode(), output)


def write_bytes(data: bytes, output: str) -> None:
    """Writes a file whole or not at all. Raises ArgumentError if that cannot be done."""
    path = Path(output)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe: it cannot be replaced
            path.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot write {output}: {error.strerror or error}", "cannot-write") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
