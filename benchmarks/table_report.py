"""What the table found out: the rows, the file that keeps them, and their texts."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path

GOOD, ENOUGH = 1.0, 0.85
"""Ratios to the fastest peer that rows are counted by."""

NEAR = 0.9
"""The share of its ceiling from which a row is near it."""


@dataclass(frozen=True)
class Ceiling:
    """What the machine reaches on a number of threads: GB/s read, copied (both ways counted) and in a triad,
    GFLOP/s of fused multiply-adds, and GOP/s of products of bytes, 0 where that was not measured."""

    threads: int
    read: float
    copy: float
    triad: float
    fma_f32: float
    fma_f64: float
    dot_i8: float = 0.0

    @property
    def memory(self) -> float:
        """The highest of its speeds of memory, in GB/s."""
        return max(self.read, self.copy, self.triad)

    def or_larger(self, other: Ceiling) -> Ceiling:
        """The larger figures of two measurements on as many threads."""
        return Ceiling(*map(max, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Result:
    """One row on a number of threads. Times are medians in seconds, `ratios` how many times longer a peer takes in
    the rounds that it shared with dojoir. `floor` is in seconds, and so is `in_cache`, what the cores need where
    memory does not let them wait (None: not measured). `limits` says what limits the kernel, `failed` why a peer
    has no time, `missing` why one has no such operation."""

    row: str
    threads: int
    seconds: float
    flops: int
    bytes: int
    floor: float
    bound_by: str
    limits: str
    peers: dict[str, float]
    ratios: dict[str, float]
    failed: dict[str, str]
    missing: dict[str, str]
    in_cache: float | None = None

    @property
    def best(self) -> str | None:
        """The fastest peer."""
        return min(self.ratios, key=lambda name: self.ratios[name], default=None)

    @property
    def ratio(self) -> float | None:
        """How many times longer the fastest peer takes."""
        return min(self.ratios.values(), default=None)

    @property
    def share(self) -> float:
        """The share of the ceiling that dojoir reaches."""
        return self.floor / self.seconds

    @property
    def why(self) -> str:
        """How near it is to its ceiling, and what keeps it from it."""
        text = f"{self.share:.0%} of the {self.bound_by} ceiling"
        if self.in_cache is not None:
            text += f"; in a cache it takes {self.in_cache / self.seconds:.0%} of its time"
        return f"{text}. {self.limits}"


@dataclass
class Record:
    """A run: the machine, what it reaches, the versions of the peers, and the rows so far."""

    machine: str
    target: str
    ceilings: list[Ceiling]
    versions: dict[str, str] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    taken: str = ""
    """When, and what of dojoir."""

    def at(self, threads: int) -> Ceiling:
        """The ceilings of the largest measured number of threads up to `threads`."""
        below = [ceiling for ceiling in self.ceilings if ceiling.threads <= threads]
        return max(below or self.ceilings[:1], key=lambda ceiling: ceiling.threads)

    def has(self, row: str, threads: int) -> bool:
        return any(result.row == row and result.threads == threads for result in self.results)

    def head(self) -> str:
        """The machine and its ceilings, and the versions, as text."""
        lines = [
            ", ".join(filter(None, [self.machine, self.taken])),
            "threads   read   copy  triad GB/s    f32    f64 GFLOP/s",
        ]
        lines += [
            f"{c.threads:7}{c.read:7.1f}{c.copy:7.1f}{c.triad:7.1f}{c.fma_f32:12.1f}{c.fma_f64:7.1f}"
            for c in self.ceilings
        ]
        return "\n".join([*lines, ", ".join(f"{name} {version}" for name, version in self.versions.items())])

    def write(self, file: str) -> None:
        """Writes it as JSON, the file whole or as it was."""
        path = Path(file)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        os.replace(fresh, path)

    @staticmethod
    def read(file: str) -> Record:
        """What `write` wrote. Raises OSError and ValueError where that is not there."""
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        return Record(
            data["machine"],
            data["target"],
            [Ceiling(**ceiling) for ceiling in data["ceilings"]],
            data["versions"],
            [Result(**result) for result in data["results"]],
            data.get("taken", ""),
        )

    @staticmethod
    def joined(files: Sequence[str]) -> Record:
        """Several runs on one machine as one. Raises OSError and ValueError."""
        first, *others = map(Record.read, files)
        for other in others:
            first.versions.update(other.versions)
            first.results += other.results
        first.taken = "; ".join(dict.fromkeys(filter(None, [first.taken, *(other.taken for other in others)])))
        return first


def table(results: Sequence[Result], peers: Sequence[str]) -> str:
    """The results as text, a line each after the heads. `–` stands for an operation that a peer does not have,
    `failed` for one that went wrong."""
    head = f"{'':34}{'thr':>4}{'dojoir':>10}{'GB/s':>8}{'GF/s':>8}{'ceiling':>9}{'in cache':>10}"
    head += f"{'best peer':>15}{'ratio':>7}"
    lines = [head + "".join(f"{name:>15}" for name in peers)]
    for r in results:
        ratio = "" if r.ratio is None else f"{r.ratio:.2f}"
        line = f"{r.row:34}{r.threads:4}{r.seconds * 1e3:8.2f}ms{r.bytes / r.seconds / 1e9:8.1f}"
        cached = "–" if r.in_cache is None else f"{r.in_cache * 1e3:.2f}ms"
        line += f"{r.flops / r.seconds / 1e9:8.1f}{r.share:6.0%} {r.bound_by[:2]}{cached:>10}{r.best or '':>15}"
        line += f"{ratio:>7}"
        for name in peers:
            cell = f"{r.peers[name] * 1e3:.2f}ms" if name in r.peers else "failed" if name in r.failed else "–"
            line += f"{cell:>15}"
        lines.append(line)
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    """How many rows are as fast as the fastest peer, for each number of threads, and which are not, or are not near
    their ceiling, with what limits them."""
    lines = []
    for threads in sorted({r.threads for r in results}):
        here = [r for r in results if r.threads == threads]
        failed = [f"  failed: {peer}, {r.row}: {why}" for r in here for peer, why in r.failed.items()]
        rated = [(r.ratio, r) for r in here if r.ratio is not None]
        if not rated:
            lines += failed
            continue
        good, enough = (sum(ratio >= least for ratio, _ in rated) for least in (GOOD, ENOUGH))
        mean = math.exp(sum(math.log(ratio) for ratio, _ in rated) / len(rated))
        behind = sorted((pair for pair in rated if pair[0] < GOOD), key=lambda pair: pair[0])
        lines.append(
            f"{threads} thread{'s' if threads > 1 else ''}: of {len(rated)} rows {good} at least {GOOD:.2f} of the "
            f"fastest peer ({good / len(rated):.0%}), {enough} at least {ENOUGH:.2f}; geometric mean {mean:.2f}"
        )
        lines += [f"  {ratio:.2f} {r.row}: {r.best}; {r.why}" for ratio, r in behind]
        short = [r for r in here if r.share < NEAR and r not in [r for _, r in behind]]
        lines += [f"  ahead, but below {NEAR:.0%}: {r.row}: {r.why}" for r in short]
        lines += failed
    return "\n".join(lines)
