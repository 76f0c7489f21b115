"""The library's kernels as GPUs run them, compiled by the compilers of their makers: `python gpu_compile.py`.

What `optimize` gives for `cuda` goes through NVRTC for sm_80 and sm_90a, what it gives for `hip` through clang for
gfx90a and gfx942, with open sizes, and with those that a stored schedule asks for. No GPU, driver or device
library is needed. With `--results` each compilation is a line of JSON added to a file, and the next run makes those
that are not there; GPU.md beside this file has what the last run printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from gpu_barriers import fixed_by

import dojoir
from dojoir import schedules
from dojoir.runtime.gpu import nvrtc

ARCHITECTURES = {"sm_80": "cuda", "sm_90a": "cuda", "sm_100a": "cuda", "gfx90a": "hip", "gfx942": "hip"}
CLANG = next((name for name in ("clang++-19", "clang++-18", "clang++-17", "clang++") if shutil.which(name)), None)
WORDS = Path(__file__).parent / "hip_words.h"
"""What the compiler of HIP has built in."""

OPTIONS = (
    "-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-S", "-D__HIPCC_RTC__", "-Werror", "-include",
    str(WORDS),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kernel of the library, some of its sizes fixed, for an architecture."""

    name: str
    fixed: tuple[tuple[str, int], ...]
    architecture: str

    def __str__(self) -> str:
        sizes = " ".join(f"{size}={value}" for size, value in self.fixed)
        return " ".join(filter(None, (self.name, sizes, self.architecture)))

    def text(self) -> str:
        """What `optimize` makes of it."""
        return _optimized(self.name, self.fixed, ARCHITECTURES[self.architecture])

    def error(self) -> str:
        """What the compiler says against it; nothing where it takes it. Raises ToolchainError where there is no
        compiler."""
        if ARCHITECTURES[self.architecture] == "hip":
            return clang_error(self.text(), self.architecture)
        return nvrtc_error(self.text(), self.architecture)


@cache
def _optimized(name: str, fixed: tuple[tuple[str, int], ...], target: str) -> str:
    kernel = dojoir.kernels.load(name, **dict(fixed))
    return dojoir.emit(dojoir.optimize(kernel, target).kernel, target)


def nvrtc_error(text: str, architecture: str) -> str:
    """The same of NVRTC and a CUDA text."""
    try:
        nvrtc.cubin(text, architecture)
    except dojoir.ToolchainError as error:
        if error.diagnostic.code != "compiler-failed":
            raise
        return str(error)
    return ""


def clang_error(text: str, architecture: str) -> str:
    """What clang says against a HIP text; nothing where it takes it."""
    if CLANG is None:
        raise dojoir.ToolchainError("there is no clang++ on the path: install clang 17 or newer", "no-compiler")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.hip"
        source.write_text(text, encoding="utf-8")
        made = ("-o", str(source.with_suffix(".s")))
        command = [CLANG, *OPTIONS, f"--offload-arch={architecture}", str(source), *made]
        done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def cases(architectures: Iterable[str]) -> Iterator[Case]:
    """Every kernel of the library for each architecture, with open sizes and with those of stored schedules."""
    for architecture in architectures:
        for name in dojoir.kernels.names():
            yield Case(name, (), architecture)
            for schedule in schedules.schedules(name):
                if schedule.path.endswith(".gpu.moves"):
                    yield Case(name, tuple(fixed_by(schedule).items()), architecture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="a file of JSON lines to add to, and to go on from")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, default=[*ARCHITECTURES])
    given = parser.parse_args()
    known: dict[str, str] = {}
    if given.results is not None and given.results.exists():
        lines = given.results.read_text(encoding="utf-8").splitlines()
        known = {record["case"]: record["error"] for record in map(json.loads, lines)}
    began, left = time.monotonic(), 0
    for case in cases(given.architectures):
        if str(case) in known:
            continue
        if time.monotonic() - began > 60 * given.minutes:
            left += 1
            continue
        known[str(case)] = case.error()
        if given.results is not None:
            with given.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"case": str(case), "error": known[str(case)]}) + "\n")
    print("| architecture | texts | taken |\n|---|---|---|")
    for architecture in ARCHITECTURES:
        errors = [error for case, error in known.items() if case.endswith(f" {architecture}")]
        print(f"| {architecture} | {len(errors)} | {errors.count('')} |")
    for case, error in known.items():
        if error:
            print(f"\n{case}:\n{error}")
    print(f"\n{left} left")
    sys.exit(any(known.values()) or left > 0)


if __name__ == "__main__":
    main()
