"""Candidates that cheat, as files of `tests/cheats`, each in place of what a target makes of a kernel.

The target `cheat` is a backend of a package beside dojoir: it emits the file that the variable DOJOIR_CHEAT names
and builds that, whatever the kernel. So all below the source is asked as that of an honest target: only what comes
out can tell.
"""

from __future__ import annotations

import ctypes
import os
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from folders import ROOT

import dojoir
from dojoir.backends.backend import Backend
from dojoir.backends.registry import GROUP, installed

FOLDER = ROOT / "tests" / "cheats"
VARIABLE = "DOJOIR_CHEAT"

KERNELS = {
    "scaled": "kernel scaled(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}] * 2 + 1\n",
    "copied": "kernel copied(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n",
    "sums": "kernel sums(N, M)\nin x: f32[N, M]\nout y: f32[N]\nN\n| y[{0}] = 0\n| M\n| | y[{0}] += x[{0}, {1}]\n",
    "pair": "kernel pair(N)\nin x: f32[N]\nout y: f32[N]\nout z: f32[N]\nN\n"
    "| y[{0}] = x[{0}] + 1\n| z[{0}] = x[{0}] * 3\n",
    "biased": "kernel biased(N)\nin x: f32[N]\nin b: f32\nout y: f32[N]\nN\n| y[{0}] = x[{0}] + b\n",
    "waves": "kernel waves(N)\nin x: f32[N]\nout y: f32[N]\ntmp s: f32[N]\nN\n| s[{0}] = x[{0}]\n| 64\n"
    "| | s[{0}] = sin(s[{0}])\n| y[{0}] = s[{0}]\n",
}
SHAPES = {"sums": {"N": 40, "M": 300}, "waves": {"N": 1600}}
SHAPE = {"N": 20_003}


@dataclass(frozen=True)
class Cheat:
    """A file: its name, what it does, the kernel that it pretends to be, and the gate that is meant for it."""

    path: Path
    about: str
    kernel: dojoir.Kernel
    gate: str

    @property
    def sizes(self) -> dict[str, int]:
        return SHAPES.get(self.kernel.name, SHAPE)


def cheats() -> list[Cheat]:
    """All of them, by name."""
    return [_read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in (".c", ".py")]


def _read(path: Path) -> Cheat:
    text = path.read_text(encoding="utf-8")
    about = text.splitlines()[0].strip('"/ ')
    words = dict(re.findall(r"^(?://|#) (kernel|gate): (\w+)$", text, re.MULTILINE))
    return Cheat(path, about, dojoir.parse(KERNELS[words["kernel"]]), words["gate"])


@contextmanager
def planted(cheat: Cheat, folder: Path) -> Iterator[str]:
    """The name of a target that makes a cheat of each kernel, in this process and its children."""
    info = folder / "dojoir_cheat-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dojoir-cheat\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ncheat = cheating:BACKEND\n")
    before = list(sys.path)
    sys.path += [str(folder), str(Path(__file__).parent)]
    os.environ[VARIABLE] = str(cheat.path)
    installed.cache_clear()
    try:
        yield "cheat"
    finally:
        sys.path[:] = before
        del os.environ[VARIABLE]
        installed.cache_clear()


# -- the target ------------------------------------------------------------------------------------------------
BACKEND = Backend(
    "cheat", "what a file says", emit="cheating:emit", compile="cheating:compile_cheat", way="cheating:way"
)


def _names(path: str) -> dict[str, Any]:
    return runpy.run_path(path) if path.endswith(".py") else {"CODE": Path(path).read_text(encoding="utf-8")}


def emit(kernel: dojoir.Kernel, name: str, cpu: str | None) -> str:
    return str(_names(os.environ[VARIABLE])["CODE"])


def compile_cheat(kernel: dojoir.Kernel, name: str, threads: int, cpu: str | None) -> dojoir.Compiled:
    from dojoir.runtime.build import c_toolchain, llvm_engine
    from dojoir.runtime.build.native import _build_shared, _load_shared

    names = _names(os.environ[VARIABLE])
    library = _load_shared(_build_shared(names["CODE"], c_toolchain.find()), kernel.name)
    address = ctypes.cast(getattr(library, kernel.name), ctypes.c_void_p).value
    if "begin" in names and "fork_server" in " ".join(sys.orig_argv):
        names["begin"]()
    load = llvm_engine.load_entry
    return dojoir.Compiled(kernel, name, threads, names["CODE"], address, library, (), None, load)


def way(name: str) -> str:
    return "native"
