"""Every row of `rows.py` on this machine: dojoir beside what people use today, and beside what the hardware allows.

Each peer is timed in turn with dojoir in a process of their own, on the same arrays (on huge pages, so that page
faults do not decide), and its result is compared with dojoir's. The floor of a row is the time that its arrays take
to be streamed once at the speeds measured right before or after it (the higher of the two), or its operations at
the measured peak of fused multiply-adds, whichever is longer. A ratio above 1 says that dojoir is faster. Beside it
stands how long the same code takes where its arrays stay in a cache: where that is near the time, it is the cores
that limit the row.

    python benchmarks/table.py [--rows softmax matmul] [--threads 1 2] [--target llvm] [--json FILE] [--plot FILE]
    python benchmarks/table.py --json FILE --resume          # goes on with a run that was interrupted
    python benchmarks/table.py --from FILE… [--plot FILE] [--page FILE]  # what was measured before; runs nothing

The file of `--json` is written after every row.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path

from in_cache import moved, seconds_in_cache
from libraries import PEERS
from rows import PRODUCTS, ROWS, Row
from table_page import write_page
from table_plot import plot
from table_report import Ceiling, Record, Result, summary, table

import dojoir

REPEATS, DISTURBED = 2, 1.25
"""A pair in which dojoir took so many times as long as in another was disturbed, as a shared machine is for seconds
at a time, and is measured again, so often at most; so is the pair with the fastest peer, which decides."""

HERE = Path(__file__).resolve().parent
TOLERANCE = 2e-3
"""How far results may be apart, as a share of the largest: float sums in other orders."""

MALLOC = ("hugetlb=1", "mmap_max=0", f"trim_threshold={1 << 40}")
"""Peers that allocate their results get huge pages, and the same ones again."""


def scheduled(row: Row, target: str, threads: int) -> dojoir.Kernel:
    """The kernel of a row as dojoir runs it."""
    folders = [HERE / "schedules"]
    return dojoir.optimize(row.load(), target, sizes=row.sizes, threads=threads, folders=folders).kernel


def ceiling(threads: int) -> Ceiling:
    """What the machine reaches at this moment: memory that others use as well is faster at some times."""
    return Ceiling(**asdict(dojoir.ceilings(threads).at(threads)))


def floor(row: Row, at: Ceiling) -> tuple[float, str, int, int]:
    """The least time of a row in seconds, what it is bound by, its operations and its bytes."""
    read, written = moved(row, row.sizes)
    both = min(read, written)
    memory = 2 * both / at.copy / 1e9 + (read - both) / at.read / 1e9 + (written - both) / at.copy / 1e9
    flops = dojoir.cost(row.load()).flops(row.sizes)
    arithmetic = flops / at.fma_f32 / 1e9 if row.kernel in PRODUCTS else 0.0
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic", flops, read + written


@dataclass
class Pairs:
    """A kernel beside peers, one after another: the seconds of both in each pair, how many times longer the peer
    took, and why one has no time."""

    row: Row
    kernel: dojoir.Kernel
    threads: int
    target: str
    budget: float
    time_limit: float
    mine: dict[str, float] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def measure(self, peer: str) -> None:
        """Measures a pair. Of one that is measured again, that time counts in which the two together took less; one
        that fails then keeps what it had."""
        try:
            together = dojoir.measure_together(
                [self.kernel, self._call(peer)], self.target, threads=self.threads, time_limit=self.time_limit,
                budget=self.budget, sizes=self.row.sizes, with_ceilings=False,
            )  # fmt: skip
            ours, theirs = together.measurements
            if not theirs.difference <= TOLERANCE:
                raise dojoir.RunError(f"another result, off by {theirs.difference:.1e}", "other-result")
        except dojoir.DojoError as error:
            lines = [error.diagnostic.message, *(note.message for note in error.diagnostic.notes[-1:])]
            if peer not in self.times:
                self.failed[peer] = ": ".join(" ".join(line.split())[:160] for line in lines)
            return
        if peer in self.times and ours.seconds + theirs.seconds >= self.mine[peer] + self.times[peer]:
            return
        self.mine[peer], self.times[peer] = ours.seconds, theirs.seconds
        self.ratios[peer] = dojoir.ratio_of(theirs, ours).median

    def doubtful(self) -> list[str]:
        """The peers beside which the kernel took much longer than beside another, and the one that decides."""
        slow = [peer for peer, seconds in self.mine.items() if seconds > DISTURBED * min(self.mine.values())]
        decides = [min(self.ratios, key=self.ratios.__getitem__)] if self.ratios else []
        return list(dict.fromkeys((*slow, *decides)))

    def _call(self, peer: str) -> dojoir.PythonCode:
        names = ", ".join(f"{buffer.name!r}: {buffer.name}" for buffer in self.kernel.arguments)
        setup = (
            f"import sys; sys.path.insert(0, {str(HERE)!r}); from libraries import bind\n"
            f"run = bind({peer!r}, {self.row.kernel!r}, {{{names}}}, {self.threads})"
        )
        return dojoir.PythonCode("run()", setup, peer)


def measured(
    row: Row,
    threads: int,
    target: str,
    peers: Sequence[str],
    budget: float,
    time_limit: float,
) -> Result:
    """A row on a number of threads: each peer for `budget` seconds of samples, and given up after `time_limit`.
    Raises DojoError where dojoir itself fails."""
    pairs = Pairs(row, scheduled(row, target, threads), threads, target, budget, time_limit)
    before = ceiling(threads)
    missing = {peer: PEERS[peer].missing[row.kernel] for peer in peers if row.kernel in PEERS[peer].missing}
    for peer in peers:
        if peer not in missing:
            pairs.measure(peer)
    for _ in range(REPEATS):
        for peer in pairs.doubtful():
            pairs.measure(peer)
    seconds = min(pairs.mine.values(), default=None)
    if seconds is None:
        alone = dojoir.measure(
            pairs.kernel, target, threads=threads, budget=budget, time_limit=time_limit, sizes=row.sizes,
            with_ceilings=False,
        )  # fmt: skip
        seconds = alone.seconds
    least, bound, flops, total = floor(row, before.or_larger(ceiling(threads)))
    return Result(
        row.title, threads, seconds, flops, total, least, bound, row.limits,
        pairs.times, pairs.ratios, pairs.failed, missing,
        seconds_in_cache(row, pairs.kernel, target, threads, budget),
    )  # fmt: skip


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="dojoir beside its peers on the CPU")
    parser.add_argument("--rows", nargs="*", default=[], help="only rows whose title holds one of these")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--budget", type=float, default=1.5, help="seconds of sampling for each pair")
    parser.add_argument("--time-limit", type=float, default=120, help="seconds after which a peer is given up")
    parser.add_argument("--json", metavar="FILE", help="where results go, after every row")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the file of --json has")
    parser.add_argument(
        "--from", dest="sources", nargs="+", metavar="FILE", help="show such files as one, and run nothing"
    )
    parser.add_argument("--plot", metavar="FILE", help="where a roofline of all rows goes")
    parser.add_argument("--page", metavar="FILE", help="where all of it goes as a page of Markdown")
    return parser


def commit() -> str:
    """The commit of the checkout that this file is in; its version where it is in none."""
    found = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or version("dojoir")


def run(given: argparse.Namespace) -> Record:
    """Measures what is asked for, and is not in the record that the run goes on with."""
    tunables = (f"glibc.malloc.{setting}" for setting in MALLOC)
    os.environ.setdefault("GLIBC_TUNABLES", ":".join(tunables))
    peers = [name for name in given.peers if PEERS[name].installed]
    for name in sorted(set(given.peers) - set(peers)):
        print(f"{name} is not installed: left out", file=sys.stderr)
    if given.resume and given.json and Path(given.json).exists():
        record = Record.read(given.json)
    else:
        roof = dojoir.ceilings(again=True)
        machine = f"{roof.machine.partition(', ')[2]}, {os.cpu_count()} cores"
        ceilings = [Ceiling(**asdict(at)) for at in roof.by_threads.values()]
        record = Record(machine, given.target, ceilings, taken=f"{date.today()}, dojoir {commit()}")
    record.versions.update({name: PEERS[name].version for name in peers})
    print(record.head())
    for row in ROWS:
        if given.rows and not any(part in row.title for part in given.rows):
            continue
        for threads in given.threads:
            if record.has(row.title, threads):
                continue
            try:
                result = measured(row, threads, given.target, peers, given.budget, given.time_limit)
            except dojoir.DojoError as error:
                print(f"{row.title}, {threads} threads: dojoir failed: {error.diagnostic.message}", flush=True)
                continue
            record.results.append(result)
            if given.json:
                record.write(given.json)
            print(table([result], peers).splitlines()[1], flush=True)
            for peer, why in result.failed.items():
                print(f"    {peer}: {why}", flush=True)
    return record


def main() -> None:
    parser = options()
    given = parser.parse_args()
    if given.sources:
        try:
            record = Record.joined(given.sources)
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"--from: not what --json writes: {error}")
    else:
        record = run(given)
    print()
    print(table(record.results, list(record.versions)))
    print()
    print(summary(record.results))
    if given.plot:
        plot(record, given.plot)
    if given.page:
        write_page(record, given.page)


if __name__ == "__main__":
    main()
