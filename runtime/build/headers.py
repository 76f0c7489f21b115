"""Headers that a C compiler has read ahead: those of vector instructions take longer to read than most kernels to
compile.

GCC looks for `NAME.gch` in each folder of headers, and takes it where it was made with the same options by the same
compiler; else it reads the header. Clang is told the file. What is compiled is the same, so no key of a cache says
which it was.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dojoir.support.cache import content_key
from dojoir.support.cache_folder import cache_folder

MOST_KEPT = 8
"""How many headers are kept; one is 24 MB for GCC, 4 MB for clang."""

_FIRST = re.compile(r"(?://.*\n|\s)*#include <((?:immintrin|arm_neon|arm_sve)\.h)>")

_asked: Counter[Path] = Counter()


def read_ahead(source: str, identity: str, clang: bool, compile_header: Callable[[Path, Path], bool]) -> list[str]:
    """The options that have the first header of a C source read ahead, where that is worth it: where it was before,
    or where this process asks again for the compiler of an identity. `compile_header` compiles a file to another,
    and says whether it could."""
    with suppress(OSError):  # of a cache that is another user's, say: nothing of it may fail a build
        return _read_ahead(source, identity, clang, compile_header)
    return []


def _read_ahead(source: str, identity: str, clang: bool, compile_header: Callable[[Path, Path], bool]) -> list[str]:
    first, kept = _FIRST.match(source), cache_folder()
    if first is None or kept is None:
        return []
    name, folder = first[1], kept / "headers" / content_key(identity, first[1])
    made = folder / f"{name}.gch"
    if not made.exists():
        _asked[folder] += 1
        if _asked[folder] == 2:
            _make(folder, name, compile_header)
        if not made.exists():
            return []
    else:
        with suppress(OSError):  # what was used last is kept longest
            os.utime(folder)
    return ["-include-pch", str(made)] if clang else [f"-I{folder}"]


def _make(folder: Path, name: str, compile_header: Callable[[Path, Path], bool]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = folder / "read_ahead.h"  # clang asks for it again, as old as it was
    with tempfile.TemporaryDirectory(dir=folder) as own:
        new, made = Path(own, "new.h"), Path(own, "made")
        new.write_text(f"#include <{name}>\n", encoding="utf-8")
        with suppress(FileExistsError):
            os.link(new, text)
        if compile_header(text, made):
            os.replace(made, folder / f"{name}.gch")
    others = sorted(folder.parent.iterdir(), key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[MOST_KEPT:]:
        shutil.rmtree(other, ignore_errors=True)
