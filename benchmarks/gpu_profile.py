"""What bounds the rows of the GPU table: `python benchmarks/gpu_profile.py [--rows softmax,conv2d] [--json FILE]`.

Each row's kernel for its sizes, as `gpu.py` times it, is called once under Nsight Compute (`ncu`, which must be on
the PATH), with caches flushed and clocks left alone. A line of the table is a launch: its time, what it reached of
the peaks of memory, of the L2 cache, of the multiprocessors and of multiply-adds, warps resident as a share of the
most, registers a thread, and what warps waited for most between two instructions (cycles, all reasons together in
parentheses). `--json` keeps every metric of each launch; `--from FILE` prints what was kept, and needs no GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

SECTIONS = (
    "SpeedOfLight", "LaunchStats", "Occupancy", "WarpStateStats", "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis",
)  # fmt: skip
MICROSECONDS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
SHARES = {
    "memory": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "multiprocessors": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "multiply-adds": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")

Launch = dict[str, str]
"""A metric's name to its value, and `<name> unit` to its unit."""


def launches(page: str) -> list[Launch]:
    """The launches of a page of raw metrics in CSV, before which a program may have printed lines of its own.
    Raises ValueError where there are none."""
    lines = page.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        raise ValueError(f"ncu printed no metrics, but: {page[-600:]}")
    names, units, *rows = list(csv.reader(lines[first:]))
    named = [f"{name} unit" for name in names]
    return [dict(zip([*names, *named], [*row, *units], strict=True)) for row in rows if len(row) == len(names)]


def profile(number: int, text: str) -> list[Launch]:
    """The launches of a call of a row. Raises OSError where there is no `ncu`, ValueError where it says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.dojo")
        file.write_text(text, encoding="utf-8")
        sections = [word for section in SECTIONS for word in ("--section", section)]
        ran = subprocess.run(
            ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw", *sections,
             sys.executable, __file__, "--call", str(number), str(file)],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    return launches(ran.stdout + ran.stderr)


def call(number: int, file: Path) -> None:
    """Calls a row's kernel, the second time seen by the profiler."""
    import torch
    from gpu_rows import ROWS

    import dojoir

    row = ROWS[number]
    dtype = getattr(torch, row.dtype)
    inputs = {name: torch.rand(shape, device="cuda").to(dtype) for name, shape in row.inputs.items()}
    outputs = {name: torch.empty(shape, dtype=dtype, device="cuda") for name, shape in row.outputs.items()}
    kernel = dojoir.load(file)
    bound = dojoir.compile(kernel, "cuda").bind(**inputs, **row.scalars, **outputs)
    bound()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    bound()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def number_of(launch: Launch, metric: str) -> float:
    """A metric as a number; NaN where the profiler had none."""
    try:
        return float(launch.get(metric, "").replace(",", ""))
    except ValueError:
        return float("nan")


def stall(launch: Launch) -> str:
    """The reason for which warps waited longest, but for being about to issue."""
    waits = {
        found[1]: number_of(launch, name) for name in launch
        if (found := STALL.fullmatch(name)) and found[1] not in ("selected", "not_selected")
    }  # fmt: skip
    known = {reason: cycles for reason, cycles in waits.items() if cycles == cycles}
    if not known:
        return "?"
    most = max(known, key=lambda reason: known[reason])
    return f"{most.replace('_', ' ')} {known[most]:.1f} ({sum(known.values()):.1f})"


def table(found: Mapping[str, list[Launch]]) -> str:
    """The launches of all rows as Markdown."""
    time = "gpu__time_duration.sum"
    lines = [
        f"| row | launch | µs | {' | '.join(SHARES)} | registers | threads | warps wait for |",
        "|---|---|---|" + "---|" * len(SHARES) + "---|---|---|",
    ]
    for name, row in found.items():
        for order, one in enumerate(row, 1):
            took = number_of(one, time) * MICROSECONDS.get(one.get(f"{time} unit", "ns"), float("nan"))
            shares = " | ".join(f"{number_of(one, metric):.0f}%" for metric in SHARES.values())
            registers, threads = (
                number_of(one, f"launch__{what}") for what in ("registers_per_thread", "block_size")
            )
            grid = number_of(one, "launch__grid_size")
            lines.append(
                f"| {name} | {order} of {len(row)} | {took:.1f} | {shares} | {registers:.0f} | "
                f"{grid:.0f}×{threads:.0f} | {stall(one)} |"
            )
    return "\n".join(lines).replace("nan%", "").replace("nan", "")


def main() -> None:
    from gpu_rows import ROWS
    from gpu_schedules import VARIANTS, schedules

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="words of names of rows, with commas between; all by default")
    parser.add_argument("--variant", choices=VARIANTS, default="dojoir")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where every metric is written, row by row")
    parser.add_argument("--from", dest="made", type=Path, metavar="FILE", help="print what was kept, run nothing")
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.call:
        call(int(given.call[0]), Path(given.call[1]))
        return
    if given.made:
        print(table(json.loads(given.made.read_text())))
        return
    words = [word for word in given.rows.split(",") if word]
    wanted = [n for n, row in enumerate(ROWS) if not words or any(word in row.name for word in words)]
    found: dict[str, list[Launch]] = {}
    for (number, variant), made in schedules(wanted, os.cpu_count() or 1).items():
        if variant != given.variant:
            continue
        try:
            found[ROWS[number].name] = profile(number, made.text)
        except (ValueError, OSError, subprocess.TimeoutExpired) as error:
            print(f"{ROWS[number].name}: {error}", file=sys.stderr)
            continue
        if given.json:
            given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
