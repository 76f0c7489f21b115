"""Counters of a GPU by the profilers of its vendor: their files are read, and they are run where they are there.

`ncu --csv`, `nsys stats --format csv` and `rocprof --stats` (`rocprofv3 --stats`) write a table; its columns show
which one it is.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dojoir.errors import ArgumentError, RunError, ToolchainError, repr_of
from dojoir.ir.nodes import Kernel
from dojoir.ir.text import to_text
from dojoir.runtime.measurement.counters import Counters
from dojoir.support.files import read_file, write_file
from dojoir.support.temporary import temporary_folder

NCU: Mapping[str, str] = {
    "launch__registers_per_thread": "registers of a thread",
    "launch__shared_mem_per_block": "shared bytes of a block",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "dram__bytes.sum": "bytes of memory",
    "smsp__sass_inst_executed_op_local.sum": "local instructions",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "share of arithmetic",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "share of memory",
    "gpu__time_duration.sum": "nanoseconds",
}
"""The metrics of ncu by its names, and their names here."""

SECONDS = 600.0
"""The time limit of a profiler: ncu repeats each launch for each group of counters."""

Row = Mapping[str, str]


def _of_ncu(row: Row) -> Iterator[tuple[str, str, str]]:
    """Name, value and how many launches that is of."""
    name = NCU.get(row["Metric Name"])
    if name is not None:
        yield name, row["Metric Value"], "1"


def _of_summary(time: str, count: str) -> Callable[[Row], Iterator[tuple[str, str, str]]]:
    """The reader of a table with a line for each function of a kernel: its mean time, and its launches."""

    def read(row: Row) -> Iterator[tuple[str, str, str]]:
        yield "nanoseconds", row[time], row[count]

    return read


FORMS: tuple[tuple[str, str, tuple[str, ...], Callable[[Row], Iterator[tuple[str, str, str]]]], ...] = (
    ("ncu --csv", "Kernel Name", ("Metric Name", "Metric Value"), _of_ncu),
    ("nsys stats --format csv", "Name", ("Avg (ns)", "Instances"), _of_summary("Avg (ns)", "Instances")),
    ("rocprof --stats", "Name", ("AverageNs", "Calls"), _of_summary("AverageNs", "Calls")),
)
"""What writes a table, the column of the function, the columns that are read, and how a row of it is read."""


def read_traced(path: str, kernel: str) -> Counters:
    """Reads what a profiler wrote of the launches of a kernel, whose functions are called after it: the mean of
    each metric over them. Raises ArgumentError, `cannot-read` or `bad-input`."""
    lines = read_file(path).splitlines()
    for _, function, columns, values in FORMS:
        first = next((n for n, line in enumerate(lines) if all(c in line for c in (function, *columns))), None)
        if first is not None:
            return _counted(csv.DictReader(lines[first:]), path, kernel, function, values)
    known = ", ".join(form for form, *_ in FORMS)
    raise ArgumentError(f"{path} is no table of a profiler: write it by one of {known}", "bad-input")


def _counted(
    rows: csv.DictReader[str],
    path: str,
    kernel: str,
    function: str,
    values: Callable[[Row], Iterator[tuple[str, str, str]]],
) -> Counters:
    sums, counts = dict[str, float](), dict[str, float]()
    for row in rows:
        if kernel not in (row.get(function) or ""):
            continue
        whole = {key: value or "" for key, value in row.items() if isinstance(key, str)}
        for name, value, count in values(whole):
            try:
                number, times = float(value.replace(",", "")), float(count.replace(",", ""))
            except ValueError:
                raise ArgumentError(f"{path}: {repr_of(value)} of {name} is no number", "bad-input") from None
            sums[name], counts[name] = sums.get(name, 0.0) + number * times, counts.get(name, 0.0) + times
    if not sums:
        return Counters({}, f"{path} has nothing of {kernel} that is read")
    return Counters({name: total / max(counts[name], 1.0) for name, total in sums.items()})


# -- running one -------------------------------------------------------------------------------------------
Commands = Callable[[Path, str, Sequence[str]], tuple[Sequence[Sequence[str]], str]]


def _ncu(folder: Path, kernel: str, run: Sequence[str]) -> tuple[Sequence[Sequence[str]], str]:
    file = str(folder / "ncu.csv")
    metrics = ["--metrics", ",".join(NCU), "--kernel-name", f"regex:{kernel}", "--launch-count", "20"]
    return [["ncu", "--csv", "--log-file", file, *metrics, *run]], file


def _nsys(folder: Path, kernel: str, run: Sequence[str]) -> tuple[Sequence[Sequence[str]], str]:
    report = str(folder / "nsys")
    stats = ["nsys", "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", "--output", report]
    first = ["nsys", "profile", "--trace", "cuda", "--output", report, *run]
    return [first, [*stats, f"{report}.nsys-rep"]], f"{report}_cuda_gpu_kern_sum.csv"


def _rocprof(folder: Path, kernel: str, run: Sequence[str]) -> tuple[Sequence[Sequence[str]], str]:
    return [["rocprof", "--stats", "-o", str(folder / "rocprof.csv"), *run]], str(folder / "rocprof.stats.csv")


TOOLS: Mapping[str, Commands] = {"ncu": _ncu, "nsys": _nsys, "rocprof": _rocprof}
"""The profilers: the commands of each for a run, and the file that they leave."""


def traced(tool: str, kernel: Kernel, target: str, sizes: Mapping[str, int]) -> Counters:
    """Runs a kernel once on random inputs under a profiler, and reads what that wrote. Raises ToolchainError,
    `missing-package`, where it is not installed, RunError, `no-counters`, where it fails, with its words."""
    if shutil.which(tool) is None:
        raise ToolchainError(
            f"{tool} is not found: it comes with {'ROCm' if tool == 'rocprof' else 'the CUDA toolkit'}; a file "
            f"that it wrote elsewhere is read by --traced FILE", "missing-package",
        )  # fmt: skip
    with temporary_folder() as name:
        folder = Path(name)
        write_file(folder / "kernel.dojo", to_text(kernel, names=True))
        given = [word for size, value in sizes.items() for word in ("-s", f"{size}={value}")]
        text = str(folder / "kernel.dojo")
        run = [sys.executable, "-m", "dojoir.cli", text, "--target", target, "--run", *given]
        commands, file = TOOLS[tool](folder, kernel.name, run)
        for command in commands:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise RunError(f"{tool} failed: {error}", "no-counters") from None
            if done.returncode:
                said = " ".join((done.stderr or done.stdout).split())[-300:]
                raise RunError(f"{tool} ended with status {done.returncode}: {said}", "no-counters")
        return read_traced(file, kernel.name)
