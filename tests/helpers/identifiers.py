"""Every identifier of the headers that printed C includes, from the compiler itself, and kernels called so."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import dojoir
from dojoir.ir.words import is_name

TEMPLATE = """\
kernel {0}(N)
in  x: f32[N]
out y: f32[N]

N
| y[{{0}}] = exp(x[{{0}}]) + 1
"""


def compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")


def includes(target: str) -> str:
    """The `#include` lines of what is printed."""
    texts = [
        dojoir.emit(dojoir.parse(TEMPLATE.format("k")), target),
        dojoir.emit(dojoir.kernels.load("softmax"), target),
    ]
    lines = {line for text in texts for line in text.splitlines() if line.startswith("#include")}
    return "\n".join(sorted(lines)) + "\n#include <omp.h>\n"


@cache
def header_identifiers(targets: tuple[str, ...] = ("c", "avx512")) -> tuple[str, ...]:
    """What the headers of the targets declare or define, and a kernel can be called."""
    found: set[str] = set()
    gcc = compiler()
    assert gcc is not None
    for target in targets:
        for option in ("-E", "-dM"):
            command = [gcc, "-E", *([option] if option == "-dM" else []), "-march=x86-64-v4", "-x", "c", "-"]
            done = subprocess.run(command, input=includes(target), capture_output=True, text=True, check=True)
            found |= set(re.findall(r"\b[A-Za-z_]\w*", done.stdout))
    return tuple(sorted(name for name in found if is_name(name)))


def takes(target: str, names: Sequence[str]) -> list[str]:
    """The names that a kernel cannot have on a target: the compiler refuses what is printed. One file for many
    kernels does not do, since each is a file to its user: they are compiled one after another in one call."""
    gcc = compiler()
    assert gcc is not None
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for n, name in enumerate(names):
            try:
                kernel = dojoir.parse(TEMPLATE.format(name))
            except dojoir.DojoError:
                continue
            path = Path(folder, f"{n}.c")
            path.write_text(dojoir.emit(kernel, target))
            paths.append((name, path))
        flags = ["-std=c11", "-fsyntax-only", "-fopenmp", "-march=x86-64-v4", "-Werror=implicit"]
        done = subprocess.run(
            [gcc, *flags, *(str(p) for _, p in paths)], capture_output=True, text=True, check=False
        )
        for name, path in paths:
            lines = [line for line in done.stderr.splitlines() if line.startswith(f"{path}:") and "error" in line]
            if lines:
                wrong.append(f"{name}: {lines[0].partition(':')[2]}")
    return wrong
