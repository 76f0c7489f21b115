"""Two checkouts held against each other: the same moves out of `default_schedule` for each kernel and target.

    python tests/helpers/same_traces.py record FILE [--targets avx512 neon cuda] [--practice] [KERNEL …]
    python tests/helpers/same_traces.py compare FILE

`record` writes for each kernel and target a line with the moves that the pass makes; what the file has already is
not made again. `compare` makes them again and prints where they differ; its exit status is 1 where they do. The
kernels are those of the library and, with `--practice`, the texts of benchmarks/practice.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import dojoir

PRACTICE = Path(__file__).resolve().parents[2] / "benchmarks" / "practice"
TARGETS = ("avx512", "avx2", "neon", "rvv", "cuda", "hip")


def kernels(names: list[str], practice: bool) -> Iterator[tuple[str, dojoir.Kernel]]:
    """The kernels by name."""
    for name in names or dojoir.kernels.names():
        yield name, dojoir.kernels.load(name)
    for path in sorted(PRACTICE.rglob("*.dojo")) if practice else ():
        yield f"practice/{path.stem}", dojoir.load(path)


def moves(kernel: dojoir.Kernel, target: str) -> list[str]:
    """The moves of the schedule by rule for a target."""
    machine = dojoir.machine_for(target)
    return list(map(str, dojoir.PASSES["default_schedule"].for_machine(machine).on(kernel).moves))


def record(file: Path, names: list[str], targets: list[str], practice: bool) -> None:
    """Adds a line for each schedule that a file does not have."""
    known = {tuple(json.loads(line)[:2]) for line in file.open(encoding="utf-8")} if file.exists() else set()
    with file.open("a", encoding="utf-8") as out:
        for name, kernel in kernels(names, practice):
            for target in targets:
                if (name, target) not in known:
                    out.write(json.dumps([name, target, moves(kernel, target)]) + "\n")
                    out.flush()


def compare(file: Path) -> int:
    """Makes the schedules of a file again. Returns 1 where one differs, else 0."""
    count = differ = 0
    known = dict(kernels([], practice=True))
    for line in file.open(encoding="utf-8"):
        name, target, was = json.loads(line)
        now = moves(known[name], target)
        count += 1
        if now != was:
            differ += 1
            n, pair = next((n, pair) for n, pair in enumerate(zip_longest(was, now)) if pair[0] != pair[1])
            print(f"{name} for {target}, move {n}: was {pair[0]}, is {pair[1]}", flush=True)
    print(f"{count} schedules, {differ} differ")
    return int(differ > 0)


def main() -> int:
    parser = ArgumentParser(
        description="The moves of the schedules by rule of two checkouts, held against each other."
    )
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--practice", action="store_true")
    given = parser.parse_args()
    if given.what == "compare":
        return compare(given.file)
    record(given.file, given.kernels, given.targets, given.practice)
    return 0


if __name__ == "__main__":
    sys.exit(main())
