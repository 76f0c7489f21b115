"""Every example that is a text and its moves, timed: as written, after the moves, and in NumPy.

The sizes are those that the `# time:` line of each text gives, the NumPy code what its `# numpy:` lines say. The
three run in turn in one process, so that a machine that slows down slows all of them.

    python benchmarks/examples.py [NAME ...] [--threads 1] [--budget 2] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import dojoir

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True)
class Timed:
    """One example and its medians, in seconds; None where there is no way to write it in NumPy."""

    name: str
    sizes: dict[str, int]
    moves: int
    written: float
    moved: float
    numpy: float | None
    faster: tuple[float, float, float]
    gflops: float
    gbytes: float

    @property
    def row(self) -> list[str]:
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes.items())
        low, middle, high = self.faster
        return [
            self.name,
            sizes,
            str(self.moves),
            dojoir.format_seconds(self.written),
            dojoir.format_seconds(self.moved),
            f"{middle:.2f}x",
            f"{low:.2f} - {high:.2f}",
            dojoir.format_seconds(self.numpy) if self.numpy is not None else "",
            f"{self.numpy / self.moved:.2f}x" if self.numpy is not None else "",
            f"{self.gflops:.1f}",
            f"{self.gbytes:.1f}",
        ]


HEAD = ["", "sizes", "moves", "as written", "moved", "faster", "95%", "NumPy", "faster", "GFLOP/s", "GB/s"]


def comments(text: str, word: str) -> list[str]:
    """What follows `# word: ` in the lines that begin so."""
    return re.findall(rf"^# {word}: (.*)$", text, re.MULTILINE)


def trace(name: str) -> dojoir.Trace:
    """An example with all its moves, each checked."""
    result = dojoir.Trace(dojoir.load(EXAMPLES / f"{name}.dojo"))
    for element in dojoir.parse_pipeline((EXAMPLES / f"{name}.moves").read_text(encoding="utf-8")):
        if isinstance(element, dojoir.Pass):
            element(result)
        else:
            result.apply(element)
    return result


def measured(name: str, threads: int | None, budget: float) -> Timed:
    """Times one example."""
    text = (EXAMPLES / f"{name}.dojo").read_text(encoding="utf-8")
    (line,) = comments(text, "time")
    sizes = {size: int(value) for size, value in (word.split("=") for word in line.split())}
    made = trace(name)
    contestants: list[dojoir.Contestant] = [made.start, made.kernel]
    numpy = "\n".join(comments(text, "numpy"))
    if numpy:
        setup = "; ".join(f"{size} = {value}" for size, value in sizes.items())
        contestants.append(dojoir.PythonCode(numpy, setup))
    together = dojoir.measure_together(
        contestants, threads=threads, budget=budget, time_limit=600, with_ceilings=False, sizes=sizes
    )
    before, after, *others = together.measurements
    ratio = dojoir.ratio_of(before, after)
    return Timed(
        name,
        sizes,
        len(made.moves),
        before.seconds,
        after.seconds,
        others[0].seconds if others else None,
        (ratio.low, ratio.median, ratio.high),
        after.gflops,
        after.gbytes,
    )


def main() -> None:
    known = sorted(path.stem for path in EXAMPLES.glob("*.moves"))
    options = argparse.ArgumentParser(description="the examples as written, after their moves, and in NumPy")
    options.add_argument("names", nargs="*", choices=[*known, []], metavar="NAME", help=", ".join(known))
    options.add_argument("--threads", type=int, default=1, help="cores for scopes marked p, and for NumPy (1)")
    options.add_argument("--budget", type=float, default=2.0, help="seconds for each of the three (2)")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    given = options.parse_args()
    for library in ("OPENBLAS", "MKL", "OMP"):  # the child process that measures inherits these
        os.environ[f"{library}_NUM_THREADS"] = str(given.threads)
    rows = [measured(name, given.threads, given.budget) for name in given.names or known]
    if given.json:
        print(json.dumps([row.__dict__ for row in rows]))
        return
    lines = [HEAD, *(row.row for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    print(f"{given.threads} thread{'' if given.threads == 1 else 's'}, medians of runs in turn")
    for line in lines:
        cells = (
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    main()
