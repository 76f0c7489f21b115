"""Headers that a C compiler has read ahead: it takes GCC longer to read `immintrin.h` than to compile most kernels.

GCC looks for `NAME.gch` in each folder of headers, and takes it where it was made with the same options by the same
compiler; else it reads the header. What is compiled is the same, so no key of a cache says which it was.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dojoir.support.cache import content_key
from dojoir.support.cache_folder import cache_folder

MOST_KEPT = 6
"""How many headers are kept; one is 24 MB."""

_FIRST = re.compile(r"(?://.*\n|\s)*#include <(immintrin\.h)>")

_asked: set[Path] = set()


def folder_for(source: str, identity: str, compile_header: Callable[[Path, Path], bool]) -> Sequence[str]:
    """The option that has the first header of a C source read ahead, where that is worth it: where it was before,
    or where this process asks again for the compiler of an identity. `compile_header` compiles a file to another,
    and says whether it could."""
    first, kept = _FIRST.match(source), cache_folder()
    if first is None or kept is None:
        return ()
    name, folder = first[1], kept / "headers" / content_key(identity, first[1])
    if not (folder / f"{name}.gch").exists():
        if folder not in _asked:
            _asked.add(folder)
            return ()
        with suppress(OSError):
            _make(folder, name, compile_header)
    return (f"-I{folder}",)


def _make(folder: Path, name: str, compile_header: Callable[[Path, Path], bool]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        text, made = Path(own, "read.h"), Path(own, "made")
        text.write_text(f"#include <{name}>\n", encoding="utf-8")
        if compile_header(text, made):
            os.replace(made, folder / f"{name}.gch")
    others = sorted(folder.parent.iterdir(), key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[MOST_KEPT:]:
        shutil.rmtree(other, ignore_errors=True)
