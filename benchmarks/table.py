"""Every row of `rows.py` on this machine: dojoir beside what people use today, and beside what the hardware allows.

Each peer is timed in turn with dojoir in a process of their own, on the same arrays (on huge pages, so that page
faults do not decide), and its result is compared with dojoir's. The floor of a row is the time that its arrays take
to be streamed once at the speeds measured in the same run, or its operations at the measured peak of fused
multiply-adds, whichever is longer. A ratio above 1 says that dojoir is faster.

    python benchmarks/table.py [--rows softmax matmul] [--threads 1 2] [--target llvm] [--json FILE] [--plot FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from libraries import MODULES
from rows import ROWS, Row

import dojoir

HERE = Path(__file__).resolve().parent
TOLERANCE = 2e-3
"""How far results may be apart, as a share of the largest: float sums in other orders."""


@dataclass(frozen=True)
class Result:
    """One row on a number of threads. Times are medians in seconds, `ratios` how many times longer a peer takes in
    the rounds that it shared with dojoir; `failed` says why a peer has no time. `floor` is in seconds."""

    row: str
    threads: int
    seconds: float
    flops: int
    bytes: int
    floor: float
    bound_by: str
    peers: dict[str, float]
    ratios: dict[str, float]
    failed: dict[str, str]

    @property
    def best(self) -> str | None:
        """The fastest peer."""
        return min(self.ratios, key=lambda name: self.ratios[name], default=None)

    @property
    def share(self) -> float:
        """The share of the ceiling that dojoir reaches."""
        return self.floor / self.seconds


def scheduled(row: Row, target: str) -> dojoir.Kernel:
    """The kernel of a row as dojoir runs it."""
    return dojoir.optimize(row.load(), target, sizes=row.sizes).kernel


def floor(row: Row, ceilings: dojoir.Ceilings, threads: int) -> tuple[float, str, int, int]:
    """The least time of a row in seconds, what it is bound by, its operations and its bytes."""
    kernel, at = row.load(), ceilings.at(threads)
    read = written = 0
    for buffer in kernel.arguments:
        size = buffer.dtype.itemsize
        for dim in buffer.dims:
            size *= dim.extent.evaluate({**row.sizes, **row.fixed})
        read += size if buffer.role != "out" else 0
        written += size if buffer.role != "in" else 0
    both = min(read, written)
    memory = 2 * both / at.copy / 1e9 + (read - both) / at.read / 1e9 + (written - both) / at.copy / 1e9
    flops = dojoir.cost(kernel).flops(row.sizes)
    arithmetic = flops / at.fma_f32 / 1e9 if row.kernel in {"matmul", "bmm", "conv2d", "attention"} else 0.0
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic", flops, read + written


def measured(
    row: Row, threads: int, target: str, peers: Sequence[str], budget: float, roof: dojoir.Ceilings
) -> Result:
    kernel = scheduled(row, target)
    least, bound, flops, moved = floor(row, roof, threads)
    times: dict[str, float] = {}
    ratios: dict[str, float] = {}
    failed: dict[str, str] = {}
    mine: list[float] = []
    names = ", ".join(f"{buffer.name!r}: {buffer.name}" for buffer in kernel.arguments)
    for peer in peers:
        setup = (
            f"import sys; sys.path.insert(0, {str(HERE)!r}); from libraries import bind\n"
            f"run = bind({peer!r}, {row.kernel!r}, {{{names}}}, {threads})"
        )
        try:
            together = dojoir.measure_together(
                [kernel, dojoir.PythonCode("run()", setup, peer)], target, threads=threads, time_limit=300,
                budget=budget, sizes=row.sizes, with_ceilings=False,
            )  # fmt: skip
        except dojoir.DojoError as error:
            lines = [note.message for note in error.diagnostic.notes] or [error.diagnostic.message]
            failed[peer] = lines[-1][:200]
            continue
        ours, theirs = together.measurements
        if theirs.difference > TOLERANCE:
            failed[peer] = f"another result, off by {theirs.difference:.1e}"
            continue
        mine.append(ours.seconds)
        times[peer] = theirs.seconds
        ratios[peer] = dojoir.ratio_of(theirs, ours).median
    if not mine:
        alone = dojoir.measure(kernel, target, threads=threads, budget=budget, sizes=row.sizes, with_ceilings=False)
        mine.append(alone.seconds)
    return Result(row.title, threads, min(mine), flops, moved, least, bound, times, ratios, failed)


def table(results: Sequence[Result], peers: Sequence[str]) -> str:
    """The results as text."""
    head = f"{'':34}{'thr':>4}{'dojoir':>10}{'GB/s':>8}{'GF/s':>8}{'ceiling':>9}{'best peer':>15}{'ratio':>7}"
    lines = [head + "".join(f"{name[:13]:>15}" for name in peers)]
    for r in results:
        best = r.best
        line = f"{r.row:34}{r.threads:4}{r.seconds * 1e3:8.2f}ms{r.bytes / r.seconds / 1e9:8.1f}"
        line += f"{r.flops / r.seconds / 1e9:8.1f}{r.share:6.0%} {r.bound_by[:2]}"
        line += f"{best or '':>15}{'' if best is None else f'{r.ratios[best]:.2f}':>7}"
        for name in peers:
            line += f"{f'{r.peers[name] * 1e3:.2f}ms' if name in r.peers else '-':>15}"
        lines.append(line)
    rated = [min(r.ratios.values()) for r in results if r.ratios]
    if rated:
        ahead = sum(ratio >= 1 for ratio in rated)
        lines.append(f"at least as fast as the fastest peer on {ahead} of {len(rated)}; worst {min(rated):.2f}")
    return "\n".join(lines)


def plot(results: Sequence[Result], roof: dojoir.Ceilings, file: str) -> None:
    """A roofline with every row on it, one panel for each number of threads. Needs Matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = sorted({r.threads for r in results})
    figure, axes = pyplot.subplots(1, len(counts), figsize=(9 * len(counts), 7), squeeze=False)
    for axis, threads in zip(axes[0], counts, strict=True):
        at = roof.at(threads)
        x = [2.0**e for e in range(-6, 12)]
        axis.loglog(x, [min(at.fma_f32, at.memory * i) for i in x], "k-", linewidth=1)
        for r in results:
            if r.threads == threads and r.flops:
                intensity, rate = r.flops / r.bytes, r.flops / r.seconds / 1e9
                axis.loglog([intensity], [rate], "o", color="tab:blue")
                axis.annotate(r.row, (intensity, rate), fontsize=6, xytext=(3, 2), textcoords="offset points")
        axis.set_xlabel("operations per byte that must move")
        axis.set_ylabel("GFLOP/s")
        axis.set_title(
            f"{threads} thread{'s' if threads > 1 else ''}: {at.memory:.0f} GB/s, {at.fma_f32:.0f} GFLOP/s"
        )
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main() -> None:
    options = argparse.ArgumentParser(description="dojoir beside its peers on the CPU")
    options.add_argument("--rows", nargs="*", default=[], help="only rows whose title holds one of these")
    options.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    options.add_argument("--peers", nargs="*", default=list(MODULES), choices=list(MODULES))
    options.add_argument("--target", default="llvm")
    options.add_argument("--budget", type=float, default=1.5, help="seconds of sampling for each pair")
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--plot", metavar="FILE")
    given = options.parse_args()
    os.environ.setdefault("MALLOC_MMAP_MAX_", "0")  # peers that allocate their results get the same pages again
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(1 << 40))
    peers = [name for name in given.peers if importlib.util.find_spec(MODULES[name])]
    for name in set(given.peers) - set(peers):
        print(f"{name} is not installed: left out", file=sys.stderr)
    roof = dojoir.ceilings(again=True)
    print(roof)
    results = []
    for row in ROWS:
        if given.rows and not any(part in row.title for part in given.rows):
            continue
        for threads in given.threads:
            results.append(measured(row, threads, given.target, peers, given.budget, roof))
            print(table(results[-1:], peers).splitlines()[1], flush=True)
            for peer, why in results[-1].failed.items():
                print(f"    {peer}: {why}", flush=True)
    print()
    print(table(results, peers))
    if given.json:
        data = {
            "ceilings": {n: asdict(c) for n, c in roof.by_threads.items()},
            "rows": [asdict(r) for r in results],
        }
        Path(given.json).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if given.plot:
        plot(results, roof, given.plot)


if __name__ == "__main__":
    main()
